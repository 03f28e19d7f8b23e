//! Scripts in pods, with as many that wait as run at a time.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use e2e::bench::{Report, Row, at_end};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::ListParams;
use serde_json::Value;
use tokio::time::{Instant, sleep};
use toolbus_testkit::process::Launch;
use toolbus_testkit::tools::remove_namespace;

use crate::arguments::Runs;
use crate::connect::connect;
use crate::index::{IMAGE, Index};
use crate::manager::Manager;
use crate::outages::Outages;
use crate::tally::{Tally, one, zero};

const RUNNER: &str = "pods";
/// It goes at the end.
const NAMESPACE: &str = "toolbus-soak-scripts";
const FULL_WITHIN: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_millis(100);

pub(crate) async fn soak(report: &mut Report, broker: &str, runs: Runs) -> anyhow::Result<()> {
    let (kubeconfig, client) = connect().await?;
    at_end(|| remove_namespace(NAMESPACE));
    let index = Index::start(client.clone(), NAMESPACE).await;
    let outages = Outages::prepare(&kubeconfig).await?;
    let launch = launch(&index, &outages.kubeconfig, runs.at_once)?;
    let mut manager = Manager::start(RUNNER, launch, broker, runs.at_once).await?;

    let mut tally = Tally::default();
    tally.begin(&manager, runs).await;
    full(&manager).await?;
    let before = manager.holds()?;
    let answered = tally.answered();
    tokio::join!(tally.go_on(&manager, runs), outages.strike(runs, answered));
    let warm = full(&manager).await?;
    let after = manager.holds_at_last(before).await?;
    tally.report(report, RUNNER);
    let outages = one(f64::from(runs.outages));
    report.add(Row::new(format!("{RUNNER}: outages of the cluster's API"), "", outages));
    let again = one(manager.asked_again() as f64);
    report.add(Row::new(format!("{RUNNER}: asked again, for nobody began it"), "", again));
    let hits = warm["hits"].as_f64().context("no hits")?;
    let misses = warm["misses"].as_f64().context("no misses")?;
    let share = one(hits * 100.0 / (hits + misses));
    report.add(Row::new(format!("{RUNNER}: in one that waited"), "%", share));
    after.report(report, RUNNER, before);
    manager.stop().await?;
    index.end().await;

    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let leases: Api<Lease> = Api::namespaced(client, NAMESPACE);
    let all = ListParams::default();
    let left = pods.list(&all).await?.items.len() + leases.list(&all).await?.items.len();
    report.add(zero(format!("{RUNNER}: pods and leases left"), left as f64));
    Ok(())
}

fn launch(index: &Index, kubeconfig: &PathBuf, warm: u16) -> anyhow::Result<Launch> {
    let packages = index.settings();
    let address = packages.index.as_ref().context("an index has an address")?;
    let name = |setting: &str| format!("TOOLBUS_KUBERNETES__{setting}");
    Ok(Launch::new("scripts-manager")
        .args(["--runner", "kubernetes", "--prepare-namespace"])
        .env("KUBECONFIG", kubeconfig)
        .env(&name("NAMESPACE"), NAMESPACE)
        .env(&name("IMAGE"), IMAGE)
        .env(&name("CPU_REQUEST"), "10m")
        .env(&name("WARM__SIZE"), warm.to_string())
        .env(&name("PACKAGES__INDEX"), address.expose())
        .env(&name("PACKAGES__INDEX_LABELS"), packages.index_labels.as_deref().unwrap_or_default())
        .env(&name("PACKAGES__INDEX_PORT"), packages.index_port.to_string())
        .env(&name("PACKAGES__CLAIM"), packages.claim.as_deref().unwrap_or_default())
        .env(&name("PACKAGES__TIMEOUT"), "300s"))
}

/// Waits until all warm pods wait; gives what the manager tells of them.
async fn full(manager: &Manager) -> anyhow::Result<Value> {
    let end = Instant::now() + FULL_WITHIN;
    loop {
        let (_, status) = manager.service.look("/status").await?;
        let status: Value = serde_json::from_str(&status)?;
        let warm = &status["details"]["warm"];
        if warm["waiting"].is_u64() && warm["waiting"] == warm["size"] {
            return Ok(warm.clone());
        }
        ensure!(Instant::now() < end, "{warm}");
        sleep(PAUSE).await;
    }
}
