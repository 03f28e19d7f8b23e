//! Calls that nobody waits for leave nothing behind.

use std::time::Duration;

use e2e::bench::{Goal, Report, Rounds, Row, process};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use crate::IN_FLIGHT;
use crate::hop::{Fleet, call_and_cancel};

const CALLS: usize = 10_000;
/// How long a call is wanted: long enough to reach the server, mostly.
const WANTED: Duration = Duration::from_millis(5);
/// For the last cancels to arrive, and idle HTTP connections to be closed.
const SETTLE: Duration = Duration::from_secs(5);

pub(crate) fn measure(
    report: &mut Report,
    runtime: &Runtime,
    fleet: &mut Fleet,
) -> anyhow::Result<()> {
    let bridge = fleet.bridge.process().id();
    let held = || anyhow::Ok((process::descriptors(bridge)?, process::children(bridge)?));
    let before = held()?;
    let toolbus = fleet.toolbus.clone();
    runtime.block_on(async {
        let mut running = JoinSet::new();
        for _ in 0..IN_FLIGHT {
            let toolbus = toolbus.clone();
            running.spawn(async move {
                for _ in 0..CALLS / usize::from(IN_FLIGHT) {
                    call_and_cancel(&toolbus, WANTED).await?;
                }
                anyhow::Ok(())
            });
        }
        while let Some(ended) = running.join_next().await {
            ended??;
        }
        tokio::time::sleep(SETTLE).await;
        anyhow::Ok(())
    })?;

    let after = held()?;
    let more = |before: usize, after: usize| {
        let mut rounds = Rounds::new();
        rounds.add(after as f64 - before as f64);
        rounds
    };

    report.add(
        Row::new("descriptors more after 10,000 cancelled calls", "", more(before.0, after.0))
            .with_goal(Goal::AtMost(0.0)),
    );
    report.add(
        Row::new("children more after 10,000 cancelled calls", "", more(before.1, after.1))
            .with_goal(Goal::AtMost(0.0)),
    );
    report.note(format!(
        "Cancelled: {CALLS} calls of a tool that waits, {IN_FLIGHT} at a time, each cancelled \
         after {} ms; what the bridge holds before and {} s after.",
        WANTED.as_millis(),
        SETTLE.as_secs()
    ));

    Ok(())
}
