//! How the cluster of the tests is reached.

use std::path::PathBuf;

use anyhow::Context as _;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

/// A client, and the file that says how to reach the cluster.
pub(crate) async fn connect() -> anyhow::Result<(PathBuf, Client)> {
    let kubeconfig = std::env::var_os("TOOLBUS_TEST_KUBECONFIG")
        .map(PathBuf::from)
        .context("TOOLBUS_TEST_KUBECONFIG names no cluster: see CONTRIBUTING.md")?;
    let read = Kubeconfig::read_from(&kubeconfig)?;
    let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await?;
    Ok((kubeconfig, toolbus_pods::connect(config)?))
}
