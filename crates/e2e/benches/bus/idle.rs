//! `agent-host serve` that nobody calls: how soon it is ready, and what it keeps.

use std::time::{Duration, Instant};

use e2e::bench::{Goal, Report, Rounds, Row, process, runtime};
use toolbus_testkit::process::Launch;

const ROUNDS: usize = 9;
const READY_WITHIN: Duration = Duration::from_secs(30);
/// Start-up is over by then: what is kept from here on is kept for good.
const SETTLE: Duration = Duration::from_secs(2);

pub(crate) fn measure(report: &mut Report) -> anyhow::Result<()> {
    let runtime = runtime()?;
    let (mut ready, mut resident) = (Rounds::new(), Rounds::new());
    // The first round is for the file cache to fill.
    for round in 0..=ROUNDS {
        let started = Instant::now();
        let mut host = Launch::new("agent-host").arg("serve").start()?;
        runtime.block_on(host.ready(READY_WITHIN))?;
        let ready_after = started.elapsed();
        std::thread::sleep(SETTLE);
        let mib = process::resident_mib(host.process().id())?;
        if round > 0 {
            ready.add(ready_after.as_secs_f64() * 1e3);
            resident.add(mib);
        }
    }

    report.add(
        Row::new("agent-host, from its start to /readyz", "ms", ready)
            .with_goal(Goal::AtMost(250.0)),
    );
    report
        .add(Row::new("agent-host, idle, resident", "MiB", resident).with_goal(Goal::AtMost(40.0)));
    report.note(format!(
        "agent-host: `agent-host serve` with the embedded fleet and no settings, until `/readyz` \
         answers 200 (looked at every 5 ms), and its resident memory {} s later. {ROUNDS} starts.",
        SETTLE.as_secs()
    ));

    Ok(())
}
