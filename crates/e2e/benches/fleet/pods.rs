//! `scripts-manager` as it ships to a cluster: how soon it is ready to run scripts in pods.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use e2e::bench::{Goal, Report, Rounds, Row, at_end, runtime};
use toolbus_testkit::process::Launch;
use toolbus_testkit::tools::{Cluster, remove_namespace};

const ROUNDS: usize = 9;
const LIMIT: Duration = Duration::from_secs(30);
/// Of this benchmark alone; it goes at the end.
const NAMESPACE: &str = "toolbus-bench-start";

pub(crate) fn measure(report: &mut Report, cluster: &Cluster) -> anyhow::Result<()> {
    let bus = std::env::var("TOOLBUS_TEST_AMQP").context("TOOLBUS_TEST_AMQP")?;
    at_end(|| remove_namespace(NAMESPACE));
    let ready = starts(cluster, &bus);
    let row = Row::new("scripts-manager for pods, from its start to /readyz", "ms", ready?);
    report.add(row.with_goal(Goal::AtMost(250.0)));
    report.note(format!(
        "For pods: `scripts-manager --runner kubernetes --prepare-namespace` on this machine, alone \
         beside the broker, with the cluster of `dev/kube`. Within the time it finds the namespace \
         prepared, asks for each of its rights, and tells other managers of itself; the first start, \
         which makes the namespace, does not count. {ROUNDS} starts."
    ));
    Ok(())
}

fn starts(cluster: &Cluster, bus: &str) -> anyhow::Result<Rounds> {
    let runtime = runtime()?;
    let mut ready = Rounds::new();
    for round in 0..=ROUNDS {
        let started = Instant::now();
        let mut service = Launch::new("scripts-manager")
            .args(["--bus", bus, "--runner", "kubernetes", "--prepare-namespace"])
            .env("KUBECONFIG", cluster.kubeconfig())
            .env("TOOLBUS_KUBERNETES__NAMESPACE", NAMESPACE)
            .start()?;
        runtime.block_on(service.ready(LIMIT))?;
        if round > 0 {
            ready.add(started.elapsed().as_secs_f64() * 1e3);
        }
        // By itself, so that the next one does not look for what a dead manager left.
        runtime.block_on(service.process().terminate(LIMIT))?;
    }
    Ok(ready)
}
