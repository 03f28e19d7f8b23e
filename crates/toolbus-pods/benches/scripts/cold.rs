//! A script in a pod that is made for it.

use std::time::Duration;

use e2e::bench::{Goal, Latencies, Report, Rounds, Row};
use futures_util::future::try_join_all;
use tokio::time::sleep;

use crate::bare::Bare;
use crate::cluster::Cluster;
use crate::manager::Manager;
use crate::{AT_ONCE, timed};

const ROUNDS: usize = 5;
/// Calls of a round, one by one.
const CALLS: usize = 20;
/// Calls of a round at once: so many times as many as there are at a time.
const BURSTS: usize = 3;
/// Pods of a round that are waited for by their phase.
const BY_PHASE: usize = 3;
/// A node is busy putting a pod away for a while after it is gone. Whoever comes next is not to pay
/// for it.
const SETTLE: Duration = Duration::from_millis(700);
const SETTLE_BURST: Duration = Duration::from_secs(4);

/// One side, round by round.
#[derive(Default)]
struct Measured {
    p50: Rounds,
    p95: Rounds,
}

impl Measured {
    fn add(&mut self, latencies: Latencies) {
        self.p95.add(latencies.percentile(0.95).as_secs_f64() * 1e3);
        self.p50.add_latencies(latencies, Duration::from_millis(1));
    }

    /// Adds both rows of ours beside the peer's.
    fn report(self, report: &mut Report, what: &str, peer: Self) {
        let row = |name: String, ours, peer, goal| {
            Row::new(name, "ms", ours).beside(peer).with_goal(Goal::RatioAtMost(goal))
        };
        report.add(row(format!("{what}, peer bare client"), self.p50, peer.p50, 1.25));
        report.add(row(format!("{what}, p95, peer bare client"), self.p95, peer.p95, 1.5));
    }
}

pub(crate) async fn measure(
    report: &mut Report,
    cluster: &Cluster,
    broker: &str,
) -> anyhow::Result<()> {
    let manager = Manager::start(cluster, broker, 0).await?;
    let bare = Bare::like(cluster, &manager).await?;
    cluster.quiet().await?;
    // The first of each is for caches to fill.
    manager.answer().await?;
    bare.answer().await?.end().await?;

    let (mut ours, mut peer, mut by_phase) = <(Measured, Measured, Rounds)>::default();
    let (mut ours_at_once, mut peer_at_once) = <(Measured, Measured)>::default();
    for _ in 0..ROUNDS {
        let (one, other) = in_turns(&manager, &bare).await?;
        ours.add(one);
        peer.add(other);
        let (one, other) = bursts_in_turns(&manager, &bare).await?;
        ours_at_once.add(one);
        peer_at_once.add(other);
        by_phase.add_latencies(phases(&bare).await?, Duration::from_millis(1));
    }
    let beside_phase = Row::new("cold, peer waits for the pod's phase", "ms", ours.p50.clone());
    ours.report(report, "cold", peer);
    let what = format!("cold, {AT_ONCE} at once");
    ours_at_once.report(report, &what, peer_at_once);
    report.add(beside_phase.beside(by_phase));
    report.note(format!(
        "Cold: `execute_python_script` of `{}` from the gates of the caller over RabbitMQ to \
         `scripts-manager`, which makes a pod for it, and back. The bare client makes the same pod \
         with the cluster's library alone, attaches while it is being born (a try every 10 ms) and \
         reads the answer; its interpreter runs the line that it reads. {ROUNDS} rounds of {CALLS} \
         each, call by call in turns, with {} ms between, and of {BURSTS} times {AT_ONCE} at once. \
         By the phase: the same pod with the script on its command line, watched until it has \
         succeeded, and its log read; {BY_PHASE} in a round.",
        crate::SCRIPT,
        SETTLE.as_millis()
    ));
    Ok(())
}

async fn in_turns(manager: &Manager, bare: &Bare<'_>) -> anyhow::Result<(Latencies, Latencies)> {
    let mut ours = Latencies::with_capacity(CALLS);
    let mut peer = Latencies::with_capacity(CALLS);
    for _ in 0..CALLS {
        ours.add(timed(manager.answer()).await?.0);
        sleep(SETTLE).await;
        let (took, pod) = timed(bare.answer()).await?;
        peer.add(took);
        pod.end().await?;
        sleep(SETTLE).await;
    }
    Ok((ours, peer))
}

async fn bursts_in_turns(
    manager: &Manager,
    bare: &Bare<'_>,
) -> anyhow::Result<(Latencies, Latencies)> {
    let (mut ours, mut peer) = <(Latencies, Latencies)>::default();
    for _ in 0..BURSTS {
        let calls = (0..AT_ONCE).map(|_| timed(manager.answer()));
        for (took, ()) in try_join_all(calls).await? {
            ours.add(took);
        }
        sleep(SETTLE_BURST).await;
        let calls = (0..AT_ONCE).map(|_| timed(bare.answer()));
        let mut pods = Vec::new();
        for (took, pod) in try_join_all(calls).await? {
            peer.add(took);
            pods.push(pod.end());
        }
        try_join_all(pods).await?;
        sleep(SETTLE_BURST).await;
    }
    Ok((ours, peer))
}

async fn phases(bare: &Bare<'_>) -> anyhow::Result<Latencies> {
    let mut latencies = Latencies::with_capacity(BY_PHASE);
    for _ in 0..BY_PHASE {
        latencies.add(timed(bare.by_phase()).await?.0);
        sleep(SETTLE).await;
    }
    Ok(latencies)
}
