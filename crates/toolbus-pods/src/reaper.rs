//! Deletes the pods that nobody cares for any more: strays of this manager, and what a dead one left
//! behind.
//!
//! A reconciler: it takes nothing in, looks at what is there, and does the same again a little
//! later. Every manager runs it, since deleting twice is no harm and nobody has to be elected.
//! Invariants: a pod is deleted as it was seen or not at all, so one that was adopted meanwhile
//! lives; a manager's pods are its own as long as its Lease is renewed.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::errors;
use crate::leases::{LivenessTracker, ManagerLeases, NOTES_TTL, RENEW_INTERVAL};
use crate::pod_lifecycle::PodKeeper;
use crate::pod_spec::MANAGER;

/// Looks after a namespace on behalf of one manager.
pub(crate) struct Reaper {
    pub(crate) keeper: Arc<PodKeeper>,
    pub(crate) leases: Arc<ManagerLeases>,
    pub(crate) liveness: LivenessTracker,
}

impl Reaper {
    /// Works until cancelled.
    pub(crate) async fn run(mut self, cancelled: CancellationToken) {
        let mut looks = interval(RENEW_INTERVAL);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            // Both arms only wait; a pass that has begun is finished, and its requests are bounded.
            tokio::select! {
                () = cancelled.cancelled() => return,
                _ = looks.tick() => {}
            }

            if let Err(error) = self.reap().await {
                self.liveness.reset();
                tracing::warn!(
                    error = %errors::error_chain(&error),
                    "the pods of the namespace cannot be looked after"
                );
            }
        }
    }

    async fn reap(&mut self) -> Result<(), kube::Error> {
        self.leases.renew().await?;
        let leases = self.leases.list_all().await?;
        let pods = self.keeper.list_pods().await?;
        let owners: BTreeSet<String> = pods.iter().map(|pod| manager_of(pod).to_owned()).collect();
        let now = Instant::now();
        let dead = self.liveness.observe(&leases, &owners, now);

        for pod in pods.iter().filter(|pod| {
            let owner = manager_of(pod);
            dead.contains(owner) || (owner == self.keeper.manager() && self.keeper.is_stray(pod))
        }) {
            tracing::warn!(
                pod = pod.name_any(),
                manager = manager_of(pod),
                "nobody cares for a pod any more: it is deleted"
            );
            // One that cannot be deleted keeps nobody from the next; it is there again in the next pass.
            if let Err(error) = self.keeper.delete_as_seen(pod).await {
                tracing::warn!(error = %errors::error_chain(&error), "a pod was not deleted");
            }
        }

        for lease in leases.iter().filter(|lease| dead.contains(&lease.manager)) {
            if lease.has_notes && self.liveness.silence_of(&lease.manager, now) < NOTES_TTL {
                continue;
            }
            self.leases.delete_dead(lease).await?;
        }

        Ok(())
    }
}

/// The manager of a pod; empty where it names none, and such a manager has no Lease.
fn manager_of(pod: &Pod) -> &str {
    pod.labels().get(MANAGER).map(String::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests;
