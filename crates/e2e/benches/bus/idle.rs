//! `agent-host serve` that nobody calls: how soon it is ready, and what it keeps.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use e2e::bench::{Goal, Report, Rounds, Row};
use toolbus_testkit::process::Launch;

use crate::lane::runtime;

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
        let kib = resident_kib(host.process().id())?;
        if round > 0 {
            ready.add(ready_after.as_secs_f64() * 1e3);
            resident.add(kib / 1024.0);
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

fn resident_kib(process: u32) -> anyhow::Result<f64> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let value = line.and_then(|line| line.trim().strip_suffix(" kB"));
    Ok(value.context("the process has no resident memory")?.parse()?)
}
