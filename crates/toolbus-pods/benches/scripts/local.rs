//! How long a script takes in the local sandbox, beside Python alone.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use e2e::bench::{Goal, Latencies, Report, Rounds, Row};
use tokio::process::Command;
use tokio::time::sleep;
use toolbus_sandbox::{Config, Sandbox};
use toolbus_scripts::runner::{Run, Runner, Script};

use crate::{PRINTS, SCRIPT, timed};

const ROUNDS: usize = 5;
const CALLS: usize = 40;
/// Between two runs, in which the next sandbox is started.
const SETTLE: Duration = Duration::from_millis(100);

pub(crate) async fn measure(report: &mut Report) -> anyhow::Result<()> {
    let which = ["-c", "import sys; print(sys.executable)"];
    let python = print(Command::new("python3").args(which)).await?;
    let python = python.trim();
    let ahead = Sandbox::probe(Config::default()).await?;
    let alone = Sandbox::probe(Config { keep_ready: false, ..Config::default() }).await?;

    let (mut ours, mut cold, mut peer) = <(Rounds, Rounds, Rounds)>::default();
    for _ in 0..ROUNDS {
        let (mut one, mut other, mut bare) = <(Latencies, Latencies, Latencies)>::default();
        for _ in 0..CALLS {
            sleep(SETTLE).await;
            one.add(timed(answer(&ahead)).await?.0);
            sleep(SETTLE).await;
            other.add(timed(answer(&alone)).await?.0);
            sleep(SETTLE).await;
            let (took, printed) = timed(print(Command::new(python).args(["-c", SCRIPT]))).await?;
            ensure!(printed == PRINTS, "{printed}");
            bare.add(took);
        }
        ours.add_latencies(one, Duration::from_millis(1));
        cold.add_latencies(other, Duration::from_millis(1));
        peer.add_latencies(bare, Duration::from_millis(1));
    }

    let row = |what: &str, ours| Row::new(what, "ms", ours).beside(peer.clone());
    report.add(row("local sandbox, peer bare Python", ours).with_goal(Goal::ExcessAtMost(8.0)));
    report.add(row("local sandbox, none started ahead, peer bare Python", cold));
    report.note(format!(
        "Local sandbox: `{SCRIPT}` from the runner's call to its outcome, one by one with {} ms \
         between; memory by {}. The peer starts `python3 -c` and reads what it prints. {ROUNDS} \
         rounds of {CALLS} each, in turns.",
        SETTLE.as_millis(),
        ahead.memory_accounting(),
    ));
    ahead.idle().await;
    alone.idle().await;
    Ok(())
}

async fn answer(sandbox: &Sandbox) -> anyhow::Result<()> {
    let script = Script {
        source: SCRIPT.to_owned(),
        input: String::new(),
        timeout: Duration::from_secs(20),
        packages: Vec::new(),
        files: Vec::new(),
        prelude: None,
    };
    let outcome = sandbox.run(script, Run::alone("bench")).await?;
    ensure!(outcome.output.text == PRINTS, "{outcome:?}");
    Ok(())
}

/// What a program prints.
async fn print(command: &mut Command) -> anyhow::Result<String> {
    let output = command.kill_on_drop(true).output().await.context("it does not start")?;
    ensure!(output.status.success(), "{output:?}");
    Ok(String::from_utf8(output.stdout)?)
}
