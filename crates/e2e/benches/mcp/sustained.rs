//! Five minutes at the broker's pace.

use std::time::{Duration, Instant};

use e2e::bench::{Goal, Report, Rounds, Row, at_once, process};
use tokio::runtime::Runtime;

use crate::IN_FLIGHT;
use crate::hop::{Caller, Fleet};

/// Until what is kept for a while is as large as it gets, but for the calls that are known.
const WARM_UP: Duration = Duration::from_secs(60);
const SUSTAINED: Duration = Duration::from_secs(300);
/// Calls between two looks at the clock.
const CALLS: usize = 3_200;
/// What it takes to know for ten minutes that a call has run, so that it never runs twice: 8 bytes
/// and one of a hash table's, of which half may be slack.
const KNOWN_CALL_BYTES: usize = 18;

pub(crate) fn measure(
    report: &mut Report,
    runtime: &Runtime,
    fleet: &mut Fleet,
) -> anyhow::Result<()> {
    let bridge = fleet.bridge.process().id();
    calls_for(runtime, fleet, WARM_UP)?;
    let before = process::resident_mib(bridge)?;
    let started = Instant::now();
    // A call that fails ends the benchmark with its error.
    let calls = calls_for(runtime, fleet, SUSTAINED)?;
    let rate = calls as f64 / started.elapsed().as_secs_f64();
    let after = process::resident_mib(bridge)?;
    let known = (calls * KNOWN_CALL_BYTES) as f64 / f64::from(1 << 20);
    let of = |value: f64| {
        let mut rounds = Rounds::new();
        rounds.add(value);
        rounds
    };

    report.add(Row::new("sustained for 300 s, 0 failed", "calls/s", of(rate)));
    report.add(
        Row::new("resident memory of the bridge after, peer allowed", "MiB", of(after))
            .beside(of(before + known))
            .with_goal(Goal::RatioAtMost(1.05)),
    );
    report.note(format!(
        "Sustained: the hop, {IN_FLIGHT} in flight, for {} s after {} s of the same; one failed \
         call would have ended it. The bridge is allowed what it had before, and \
         {KNOWN_CALL_BYTES} bytes for each call, which it knows for ten minutes.",
        SUSTAINED.as_secs(),
        WARM_UP.as_secs()
    ));

    Ok(())
}

fn calls_for(runtime: &Runtime, fleet: &Fleet, time: Duration) -> anyhow::Result<usize> {
    let started = Instant::now();
    let mut calls = 0;
    while started.elapsed() < time {
        let lanes = (0..IN_FLIGHT).map(|_| Caller::of(&fleet.toolbus));
        calls += at_once(runtime, lanes, CALLS)?.latencies.len();
    }
    Ok(calls)
}
