//! Outages of the cluster's API, as the manager has them.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};
use tempfile::TempDir;
use tokio::time::sleep;

use crate::arguments::Runs;
use crate::proxy::{Proxy, Way};

/// How long the API is away.
pub(crate) const AWAY: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(200);

/// The way of a manager to the cluster, which can be closed.
pub(crate) struct Outages {
    proxy: Proxy,
    /// What leads through it.
    pub(crate) kubeconfig: PathBuf,
    _folder: TempDir,
}

impl Outages {
    pub(crate) async fn prepare(cluster: &PathBuf) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(cluster).context("the kubeconfig")?;
        let read = Kubeconfig::from_yaml(&text)?;
        let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await?;
        let server = config.cluster_url.clone();
        let (proxy, _) = Proxy::in_front_of(config).await;

        let folder = tempfile::tempdir()?;
        let kubeconfig = folder.path().join("kubeconfig");
        std::fs::write(&kubeconfig, proxy.lead_through(&text, &server))?;
        Ok(Self { proxy, kubeconfig, _folder: folder })
    }

    /// Closes the way as often as is asked for, spread over the scripts that are left.
    pub(crate) async fn strike(&self, runs: Runs, answered: Arc<AtomicUsize>) {
        let begun = answered.load(Ordering::Relaxed);
        let left = runs.count.saturating_sub(begun);
        for number in 1..=usize::from(runs.outages) {
            let at = begun + left * number / (usize::from(runs.outages) + 1);
            while answered.load(Ordering::Relaxed) < at {
                sleep(LOOK).await;
            }
            self.proxy.set(Way::Closed);
            sleep(AWAY).await;
            self.proxy.set(Way::Open);
        }
    }
}
