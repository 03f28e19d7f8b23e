//! The conformance suite on pods.

mod warm;

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use kube::Client;
use toolbus_pods::KubernetesRunner;
use toolbus_pods::settings::KubernetesSettings;
use toolbus_scripts::Runner;
use toolbus_scripts::conformance::{Canaries, Fixture};

use crate::canaries;
use crate::support::{config, pods_of, settings};

struct Pods {
    client: Client,
    runner: KubernetesRunner,
    is_local: bool,
}

impl Pods {
    async fn start(settings: KubernetesSettings) -> Option<Self> {
        let config = config().await?;
        // A node on this machine shares its kernel, so its processes show here.
        let is_local = config.cluster_url.host() == Some("127.0.0.1");
        let client = toolbus_pods::connect(config).expect("a client");
        let runner = KubernetesRunner::start(client.clone(), settings).await;
        Some(Self { client, runner: runner.expect("the cluster takes scripts"), is_local })
    }
}

impl Fixture for Pods {
    fn runner(&self) -> Arc<dyn Runner> {
        Arc::new(self.runner.clone())
    }

    fn canaries(&self) -> BoxFuture<'_, Canaries> {
        canaries::start(&self.client).boxed()
    }

    fn settle<'a>(&'a self, call_ids: &'a [String]) -> BoxFuture<'a, ()> {
        async move {
            self.runner.idle().await;
            for call_id in call_ids {
                let left = pods_of(&self.client, call_id).await;
                assert!(left.is_empty(), "pods are left: {left:?}");
            }
        }
        .boxed()
    }

    fn shows_processes(&self) -> bool {
        self.is_local
    }

    /// A pod starts in a quarter of a second, on a node that has nothing else to do.
    fn patience(&self) -> Duration {
        Duration::from_secs(40)
    }
}

toolbus_scripts::conformance_tests!(Pods::start(settings()).await);
