//! Deletes orphaned pods: those that this manager has lost track of, and those of dead managers.
//!
//! A reconciler: it takes no input, reads what there is, and does the same again a little later.
//! Every manager runs it, since deleting twice does no harm and no leader has to be elected.
//! Invariants: a pod is deleted as it was seen or not at all, so one that was adopted meanwhile
//! lives; a manager's pods are its own as long as its Lease is renewed.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::errors;
use crate::leases::{LivenessTracker, ManagerLeases, RENEW_INTERVAL};
use crate::pod_lifecycle::PodKeeper;
use crate::pod_spec::MANAGER;

/// Most pods that one pass deletes at a time.
const DELETIONS_MAX: usize = 16;

/// Whether the cluster answers this manager, as its last renewal has shown.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ClusterState {
    /// The Lease of this manager was renewed, or it has just started.
    #[default]
    Reachable,
    /// The Lease cannot be renewed: in half a minute, other managers take this one for dead.
    Unreachable {
        /// What the cluster or the way to it said.
        reason: String,
    },
}

/// Checks a namespace for orphaned pods on behalf of one manager.
pub(crate) struct Reaper {
    pub(crate) keeper: Arc<PodKeeper>,
    pub(crate) leases: Arc<ManagerLeases>,
    pub(crate) liveness: LivenessTracker,
    pub(crate) cluster: watch::Sender<ClusterState>,
}

impl Reaper {
    /// Runs until cancelled.
    pub(crate) async fn run(mut self, cancelled: CancellationToken) {
        let mut looks = interval(RENEW_INTERVAL);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            // Both arms only wait; a pass that has started is finished, and its requests are
            // bounded.
            tokio::select! {
                () = cancelled.cancelled() => return,
                _ = looks.tick() => {}
            }

            if let Err(error) = self.reap().await {
                self.liveness.reset();
                tracing::warn!(
                    error = %errors::error_chain(&error),
                    "failed to check the namespace for orphaned pods"
                );
            }
        }
    }

    async fn reap(&mut self) -> Result<(), kube::Error> {
        let renewed = self.leases.renew().await;
        self.cluster.send_if_modified(|state| {
            let before = std::mem::replace(state, state_after(&renewed));
            *state != before
        });
        renewed?;

        let leases = self.leases.list_all().await?;
        let pods = self.keeper.list_pods().await?;
        let owners: BTreeSet<String> = pods.iter().map(|pod| manager_of(pod).to_owned()).collect();
        let now = Instant::now();
        let dead = self.liveness.observe_lease(&leases, &owners, now);

        let orphaned = pods.iter().filter(|pod| {
            let owner = manager_of(pod);
            dead.contains(owner) || (owner == self.keeper.manager() && self.keeper.is_orphaned(pod))
        });
        // One after the other, slow deletions would keep our own Lease from being renewed in time.
        stream::iter(orphaned)
            .for_each_concurrent(DELETIONS_MAX, |pod| self.delete_orphaned(pod))
            .await;

        for lease in leases.iter().filter(|lease| dead.contains(&lease.manager)) {
            self.leases.delete_dead(lease).await?;
        }

        Ok(())
    }

    /// Deletes a pod. One that cannot be deleted does not stop the pass; the next tries it again.
    async fn delete_orphaned(&self, pod: &Pod) {
        tracing::warn!(pod = pod.name_any(), manager = manager_of(pod), "deleting orphaned pod");
        if let Err(error) = self.keeper.delete_as_seen(pod).await {
            let (pod, error) = (pod.name_any(), errors::error_chain(&error));
            tracing::warn!(pod, %error, "failed to delete an orphaned pod");
        }
    }
}

fn state_after(renewed: &Result<(), kube::Error>) -> ClusterState {
    match renewed {
        Ok(()) => ClusterState::Reachable,
        Err(error) => ClusterState::Unreachable { reason: errors::error_chain(error) },
    }
}

/// The manager of a pod; empty where it names none, and such a manager has no Lease.
fn manager_of(pod: &Pod) -> &str {
    pod.labels().get(MANAGER).map(String::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests;
