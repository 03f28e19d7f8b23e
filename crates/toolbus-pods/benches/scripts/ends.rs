//! How long a script lives that is cancelled, or whose time is over.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use e2e::bench::{Goal, Latencies, Report, Rounds, Row};
use serde_json::json;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use toolbus_bus::Progress;
use toolbus_testkit::process;

use crate::cluster::Cluster;
use crate::manager::Manager;

const ROUNDS: usize = 5;
/// Calls of a round, one by one.
const CALLS: usize = 4;
/// Ignores what can be ignored, and is not alone.
const STUBBORN: &str = "print('here', flush=True)\nimport signal, subprocess, time\n\
    signal.signal(signal.SIGTERM, signal.SIG_IGN)\n\
    subprocess.Popen(['sleep', '60'], start_new_session=True)\ntime.sleep(60)";
/// The processes of its pod: the first one, Python and what that started.
const PROCESSES: usize = 3;
/// The time of a script whose time is to be over.
const SHORT: Duration = Duration::from_secs(4);
/// The time of one that is cancelled.
const LONG: Duration = Duration::from_secs(40);
/// How long anything here may take.
const LIMIT: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(2);

pub(crate) async fn measure(
    report: &mut Report,
    cluster: &Cluster,
    broker: &str,
) -> anyhow::Result<()> {
    let manager = Manager::start(cluster, broker, 0).await?;
    manager.answer().await?;
    cluster.quiet().await?;
    let (mut cancelled, mut timed_out) = <(Rounds, Rounds)>::default();
    for _ in 0..ROUNDS {
        let (mut one, mut other) = <(Latencies, Latencies)>::default();
        for _ in 0..CALLS {
            one.add(death(cluster, &manager, true).await?);
            other.add(death(cluster, &manager, false).await?);
        }
        cancelled.add_latencies(one, Duration::from_millis(1));
        timed_out.add_latencies(other, Duration::from_millis(1));
    }
    let row = |what: &str, ours| Row::new(what, "ms", ours).with_goal(Goal::AtMost(300.0));
    report.add(row("cancelled, until all of it is dead", cancelled));
    report.add(row("timed out, until all of it is dead", timed_out));
    report.note(format!(
        "Cancelled, timed out: from the caller's cancelling, or from {} s after the first output, \
         until none of the script's processes is left on the node, of which one ignores SIGTERM and \
         one is in a session of its own. {ROUNDS} rounds of {CALLS} each.",
        SHORT.as_secs()
    ));
    manager.stop().await
}

/// How long the last process lived after the script's end.
async fn death(cluster: &Cluster, manager: &Manager, cancels: bool) -> anyhow::Result<Duration> {
    let begun = Arc::new(OnceLock::new());
    let hearing = Arc::clone(&begun);
    let progress = Progress::to(move |progress| {
        if progress.text.is_some() {
            let _ = hearing.set(Instant::now());
        }
    });
    let cancelled = CancellationToken::new();
    let time = if cancels { LONG } else { SHORT };
    let arguments = json!({"script": STUBBORN, "timeout_seconds": time.as_secs()});
    let watching = async {
        let begun = until("it has not begun", || begun.get().copied()).await?;
        let user = user(cluster).await?;
        let are_there = || (process::count_of_user(user) >= PROCESSES).then_some(());
        until("its processes are not there", are_there).await?;
        let end = if cancels { Instant::now() } else { begun + time };
        if cancels {
            cancelled.cancel();
        }
        // The first process of the pod is the manager's.
        until("it lives", || (process::count_of_user(user) <= 1).then_some(())).await?;
        Ok(end.elapsed())
    };
    let calling = manager.call(arguments, progress, cancelled.clone());
    let (output, took) = tokio::join!(calling, watching);
    // What becomes of the call is not the question here, but it does not succeed.
    ensure!(output.is_err() || output.is_ok_and(|output| output.is_error), "it came to its end");
    cluster.quiet().await?;
    took
}

async fn until<T>(what: &'static str, look: impl Fn() -> Option<T>) -> anyhow::Result<T> {
    let end = Instant::now() + LIMIT;
    loop {
        if let Some(found) = look() {
            return Ok(found);
        }
        ensure!(Instant::now() < end, what);
        sleep(PAUSE).await;
    }
}

/// The user of the only pod, which no other process on the machine has.
async fn user(cluster: &Cluster) -> anyhow::Result<i64> {
    let mut pods = cluster.of_manager().await?;
    ensure!(pods.len() == 1, "{} pods", pods.len());
    let spec = pods.pop().and_then(|pod| pod.spec).context("no pod")?;
    spec.security_context.and_then(|context| context.run_as_user).context("no user")
}
