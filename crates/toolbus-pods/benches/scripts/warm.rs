//! A script in a pod that waits for one.

use std::time::Duration;

use anyhow::ensure;
use e2e::bench::{Goal, Latencies, Report, Rounds, Row};
use futures_util::future::try_join_all;
use tokio::time::sleep;
use tokio::try_join;

use crate::bare::Bare;
use crate::cluster::Cluster;
use crate::manager::Manager;
use crate::refill::Refills;
use crate::{AT_ONCE, PRINTS, SCRIPT, timed};

const ROUNDS: usize = 5;
/// Calls of a round, one by one.
const CALLS: usize = 20;
/// Between two calls, after the pool is full again.
const SETTLE: Duration = Duration::from_millis(500);
const SETTLE_BURST: Duration = Duration::from_secs(2);

pub(crate) async fn measure(
    report: &mut Report,
    cluster: &Cluster,
    broker: &str,
) -> anyhow::Result<()> {
    let manager = Manager::start(cluster, broker, AT_ONCE).await?;
    manager.full().await?;
    let bare = Bare::like(cluster, &manager).await?;
    let mut booted = bare.answer().await?;
    booted.again().await?;
    booted.release();
    manager.full().await?;
    manager.answer().await?;

    let (mut ours, mut peer) = <(Rounds, Rounds)>::default();
    let mut all = Latencies::default();
    let (mut burst, mut hits) = <(Rounds, Rounds)>::default();
    for _ in 0..ROUNDS {
        let (mut one, mut other) = <(Latencies, Latencies)>::default();
        for _ in 0..CALLS {
            manager.full().await?;
            sleep(SETTLE).await;
            one.add(timed(manager.answer()).await?.0);
            manager.full().await?;
            sleep(SETTLE).await;
            other.add(timed(booted.again()).await?.0);
            booted.release();
        }
        all.append(one.clone());
        ours.add_latencies(one, Duration::from_millis(1));
        peer.add_latencies(other, Duration::from_millis(1));
        let (latencies, share) = at_once(&manager).await?;
        burst.add_latencies(latencies, Duration::from_millis(1));
        hits.add(share);
    }
    booted.end().await?;
    let refills = refills(cluster, &manager).await?;
    let p99 = {
        let mut rounds = Rounds::new();
        rounds.add(all.percentile(0.99).as_secs_f64() * 1e3);
        rounds
    };
    let row = |what: &str, ours| Row::new(what, "ms", ours);
    report.add(
        row("warm, peer attaches to a booted pod", ours)
            .beside(peer)
            .with_goal(Goal::ExcessAtMost(10.0)),
    );
    report.add(row("warm, p99 of all rounds", p99).with_goal(Goal::AtMost(100.0)));
    report.add(row(&format!("warm, {AT_ONCE} at once"), burst));
    let what = format!("warm, hits of {AT_ONCE} at once, {AT_ONCE} waiting");
    report.add(Row::new(what, "%", hits).with_goal(Goal::AtLeast(100.0)));
    report.add(row("warm, refill after a claim", refills).with_goal(Goal::AtMost(50.0)));
    report.note(format!(
        "Warm: the same call, with {AT_ONCE} pods waiting before each. The peer attaches to one pod \
         that it made before, which answers `{}` to `{SCRIPT}`, again and again. {ROUNDS} rounds of \
         {CALLS} each, call by call in turns, and of {AT_ONCE} at once. Refill: from a claim to the \
         making of the next pod, both as a watch tells of them; as many more rounds.",
        PRINTS.trim_end()
    ));
    manager.stop().await
}

/// How long after claims the next pods are there, in calls one by one.
async fn refills(cluster: &Cluster, manager: &Manager) -> anyhow::Result<Rounds> {
    let mut watching = Refills::watch(cluster).await?;
    let mut rounds = Rounds::new();
    for _ in 0..ROUNDS {
        let mut latencies = Latencies::with_capacity(CALLS);
        for _ in 0..CALLS {
            manager.full().await?;
            sleep(SETTLE).await;
            let ((), took) = try_join!(manager.answer(), watching.next())?;
            latencies.add(took);
        }
        rounds.add_latencies(latencies, Duration::from_millis(1));
    }
    Ok(rounds)
}

/// As many scripts as pods wait: how long each took, and how many of a hundred had one of them.
async fn at_once(manager: &Manager) -> anyhow::Result<(Latencies, f64)> {
    manager.full().await?;
    sleep(SETTLE_BURST).await;
    let before = manager.warm().await?.hits;
    let mut latencies = Latencies::default();
    for (took, ()) in try_join_all((0..AT_ONCE).map(|_| timed(manager.answer()))).await? {
        latencies.add(took);
    }
    let hits = manager.warm().await?.hits - before;
    ensure!(hits <= u64::from(AT_ONCE), "{hits} hits for {AT_ONCE} scripts");
    Ok((latencies, hits as f64 * 100.0 / f64::from(AT_ONCE)))
}
