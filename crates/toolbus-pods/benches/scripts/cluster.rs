//! The cluster that scripts run on: the one of the tests.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::ensure;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{GetParams, ListParams};
use kube::core::Request;
use kube::{Api, Client, ResourceExt as _};
use tokio::time::{Instant, sleep};

use crate::connect::connect;

/// The benchmark's namespace. It goes at the end.
pub(crate) const NAMESPACE: &str = "toolbus-bench-scripts";
/// The label of the manager's pods.
pub(crate) const OF_MANAGER: &str = "app.kubernetes.io/managed-by=toolbus-scripts-manager";
/// How soon pods are there, or gone.
const SOON: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(50);

/// The cluster, and the benchmark's place in it.
pub(crate) struct Cluster {
    /// The file that says how to reach it.
    pub(crate) kubeconfig: PathBuf,
    pub(crate) client: Client,
    pub(crate) pods: Api<Pod>,
}

impl Cluster {
    pub(crate) async fn connect() -> anyhow::Result<Self> {
        let (kubeconfig, client) = connect().await?;
        let pods = Api::namespaced(client.clone(), NAMESPACE);
        Ok(Self { kubeconfig, client, pods })
    }

    /// The manager's pods that are there now.
    pub(crate) async fn of_manager(&self) -> anyhow::Result<Vec<Pod>> {
        Ok(self.pods.list(&ListParams::default().labels(OF_MANAGER)).await?.items)
    }

    /// Waits until the manager has no pod.
    pub(crate) async fn quiet(&self) -> anyhow::Result<()> {
        let end = Instant::now() + SOON;
        loop {
            let left = self.of_manager().await?;
            let Some(pod) = left.first() else { return Ok(()) };
            ensure!(
                Instant::now() < end,
                "{} pods are left, such as {}",
                left.len(),
                pod.name_any()
            );
            sleep(PAUSE).await;
        }
    }

    /// How many watches the API server holds that are for the pods of one namespace: those of nodes
    /// and controllers are for the pods of all.
    pub(crate) async fn watches(&self) -> anyhow::Result<f64> {
        let request = Request::new("").get("metrics", &GetParams::default())?;
        let metrics = self.client.request_text(request).await?;
        let wanted = [r#"resource="pods""#, r#"scope="namespace""#, r#"verb="WATCH""#];
        let lines = metrics.lines().filter(|line| {
            line.starts_with("apiserver_longrunning_requests{")
                && wanted.iter().all(|label| line.contains(label))
        });
        let counts = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
        Ok(counts.sum())
    }
}
