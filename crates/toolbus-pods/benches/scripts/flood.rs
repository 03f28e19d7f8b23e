//! A script that writes 200 MB.

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, ensure};
use e2e::bench::{Goal, Report, Rounds, Row, process};
use parking_lot::Mutex;
use toolbus_bus::Progress;

use crate::cluster::Cluster;
use crate::manager::Manager;

const ROUNDS: usize = 5;
const FLOOD: &str = "import sys\nfor _ in range(200): sys.stdout.write('x' * 1_000_000)";

pub(crate) async fn measure(
    report: &mut Report,
    cluster: &Cluster,
    broker: &str,
) -> anyhow::Result<()> {
    let mut manager = Manager::start(cluster, broker, 0).await?;
    let id = manager.service.process().id();
    let (mut more, mut after_cap) = (Rounds::new(), Rounds::new());
    for round in 0..=ROUNDS {
        process::forget_peak(id)?;
        let before = process::resident_mib(id)?;
        let took = flood(&manager).await?;
        let peak = process::peak_mib(id)?;
        // The first one also makes what every call needs.
        if round > 0 {
            more.add(peak - before);
            after_cap.add(took.as_secs_f64() * 1e3);
        }
        cluster.quiet().await?;
    }
    report.add(
        Row::new("200 MB of output, resident memory more", "MiB", more)
            .with_goal(Goal::AtMost(8.0)),
    );
    report.add(
        Row::new("200 MB of output, response after the cap", "ms", after_cap)
            .with_goal(Goal::AtMost(1_000.0)),
    );
    report.note(format!(
        "200 MB: most of the manager's memory that was resident during the call, above what was \
         before it; and how long after the last piece of output that the caller was shown the \
         response came. {ROUNDS} rounds after a first one."
    ));
    Ok(())
}

/// How long after the last output the response came.
async fn flood(manager: &Manager) -> anyhow::Result<std::time::Duration> {
    let last = Arc::new(Mutex::new(None));
    let progress = {
        let last = Arc::clone(&last);
        Progress::to(move |progress| {
            if progress.text.is_some() {
                *last.lock() = Some(Instant::now());
            }
        })
    };
    let output = manager.run(FLOOD, progress).await?;
    let ended = Instant::now();
    let length = output.content.as_ref().map_or(0, String::len);
    ensure!(!output.is_error && length > 1 << 20, "{length} bytes came");
    let last = last.lock().context("no output was shown")?;
    Ok(ended - last)
}
