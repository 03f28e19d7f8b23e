//! The four services on a broker: how soon each is ready, and what all of them hold while idle.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use e2e::bench::{Goal, Report, Rounds, Row, process, runtime};
use toolbus_testkit::process::{Launch, Service};

const ROUNDS: usize = 9;
const READY_WITHIN: Duration = Duration::from_secs(30);
/// Start-up is over by then: what is held from here on is held for good.
const SETTLE: Duration = Duration::from_secs(3);

const SERVICES: [&str; 4] = ["agent-host", "mcp-bridge", "scripts-manager", "openrouter-mcp"];

pub(crate) fn measure(report: &mut Report) -> anyhow::Result<()> {
    let bus = std::env::var("TOOLBUS_TEST_AMQP").context("TOOLBUS_TEST_AMQP")?;
    let runtime = runtime()?;
    let mut ready = SERVICES.map(|_| Rounds::new());
    let (mut held, mut total) = (SERVICES.map(|_| Rounds::new()), Rounds::new());

    // The first round is for the file cache to fill, and for the queues to be declared.
    for round in 0..=ROUNDS {
        let mut running: Vec<Service> = Vec::new();
        for (name, ready) in SERVICES.iter().zip(&mut ready) {
            let started = Instant::now();
            let mut service = launch(name, &bus).start()?;
            runtime.block_on(service.ready(READY_WITHIN))?;
            if round > 0 {
                ready.add(started.elapsed().as_secs_f64() * 1e3);
            }
            running.push(service);
        }
        std::thread::sleep(SETTLE);
        let mut sum = 0.0;
        for (service, held) in running.iter_mut().zip(&mut held) {
            let mib = process::resident_mib(service.process().id())?;
            sum += mib;
            if round > 0 {
                held.add(mib);
            }
        }
        if round > 0 {
            total.add(sum);
        }
    }

    for (name, ready) in SERVICES.iter().zip(ready) {
        let row = Row::new(format!("{name}, from its start to /readyz"), "ms", ready);
        report.add(row.with_goal(Goal::AtMost(250.0)));
    }

    for (name, held) in SERVICES.iter().zip(held) {
        report.add(Row::new(format!("{name}, idle, resident"), "MiB", held));
    }

    let row = Row::new("all four, idle, resident", "MiB", total);
    report.add(row.with_goal(Goal::AtMost(120.0)));
    report.note(format!(
        "Services: started one after the other beside a RabbitMQ of the same machine, with no \
         settings but the broker's address (`scripts-manager` with its local sandbox, `mcp-bridge` \
         without servers), until `/readyz` answers 200 (looked at every 5 ms). Memory is the sum of \
         the resident sets {} s after the last is ready; pages that they share count for each. \
         {ROUNDS} starts of each.",
        SETTLE.as_secs()
    ));

    Ok(())
}

fn launch(name: &str, bus: &str) -> Launch {
    let launch = Launch::new(name);
    match name {
        "openrouter-mcp" => launch.args(["--listen", "127.0.0.1:0"]),
        "agent-host" => launch.args(["--bus", bus, "serve"]),
        _ => launch.args(["--bus", bus]),
    }
}
