//! How soon after a claim the next pod is made, as the cluster tells whoever watches.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use futures_util::{Stream, StreamExt as _};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::runtime::watcher::{self, Config, Event, watcher};
use tokio::time::timeout;

use crate::cluster::{Cluster, OF_MANAGER};

/// The label of a pod that waits for a script. The claim takes it away.
const WAITS: &str = "toolbus.dev/warm";
/// Longer than a claim and what follows it can take.
const LIMIT: Duration = Duration::from_secs(20);

/// What a watch tells of the manager's pods.
pub(crate) struct Refills {
    events: Pin<Box<dyn Stream<Item = watcher::Result<Event<Pod>>> + Send>>,
    /// Pods that wait.
    waiting: BTreeSet<String>,
}

impl Refills {
    /// Begins with the pods that there are.
    pub(crate) async fn watch(cluster: &Cluster) -> anyhow::Result<Self> {
        let of_manager = Config::default().labels(OF_MANAGER);
        let mut events = Box::pin(watcher(cluster.pods.clone(), of_manager));
        let mut waiting = BTreeSet::new();
        loop {
            match events.next().await.context("the watch ended")?? {
                Event::InitApply(pod) if waits(&pod) => _ = waiting.insert(pod.name_any()),
                Event::InitDone => return Ok(Self { events, waiting }),
                _ => {}
            }
        }
    }

    /// How long after the next claim the next pod was made.
    pub(crate) async fn next(&mut self) -> anyhow::Result<Duration> {
        timeout(LIMIT, self.claim_and_refill()).await.context("no claim, or no refill")?
    }

    async fn claim_and_refill(&mut self) -> anyhow::Result<Duration> {
        let mut claimed = None;
        loop {
            let event = self.events.next().await.context("the watch ended")??;
            let now = Instant::now();
            let (Event::Apply(pod) | Event::InitApply(pod)) = event else { continue };
            let waits = waits(&pod);
            if waits && self.waiting.insert(pod.name_any()) {
                if let Some(claimed) = claimed {
                    return Ok(now - claimed);
                }
            } else if !waits && self.waiting.remove(&pod.name_any()) {
                claimed = Some(now);
            }
        }
    }
}

fn waits(pod: &Pod) -> bool {
    pod.labels().contains_key(WAITS)
}
