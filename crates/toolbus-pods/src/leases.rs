//! Liveness of managers: each renews a Lease of its own, and observes those of the others.
//!
//! Invariants: whether a manager lives is judged by our own monotonic clock and by what changed
//! since we looked, never by the times that others wrote, so no clock that is wrong or jumps kills
//! anything; what was seen before an interruption of our own looking proves nothing.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::Timestamp;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;
use tokio::time::Instant;

use crate::errors;
use crate::owner_lease::OwnerLease;
use crate::pod_spec::MANAGER;
use crate::requests::with_retry;

/// The interval of renewals, and of observations of the others.
pub(crate) const RENEW_INTERVAL: Duration = Duration::from_secs(5);
/// A manager whose Lease did not change for so long, while we looked, is dead.
pub(crate) const LEASE_TIMEOUT: Duration = Duration::from_secs(25);
/// Observations further apart than this prove nothing.
const OBSERVATION_INTERVAL_MAX: Duration = Duration::from_secs(15);

/// The Leases of a namespace, on behalf of one manager.
pub(crate) struct ManagerLeases {
    leases: Api<Lease>,
    /// The id of this manager.
    manager: String,
    owner: OwnerLease,
    /// What time it is to people: nothing is decided by it.
    pub(crate) wall: Arc<dyn Fn() -> Timestamp + Send + Sync>,
}

/// The Lease of a manager, as it was seen.
pub(crate) struct ManagerLease {
    pub(crate) manager: String,
    version: String,
    name: String,
    uid: String,
}

impl ManagerLeases {
    /// `owner` is updated by each [`ManagerLeases::list_all`].
    pub(crate) fn new(client: Client, namespace: &str, manager: &str, owner: OwnerLease) -> Self {
        let leases = Api::namespaced(client, namespace);
        Self { leases, manager: manager.to_owned(), owner, wall: Arc::new(Timestamp::now) }
    }

    /// Renews the Lease of this manager, or creates it.
    pub(crate) async fn renew(&self) -> Result<(), kube::Error> {
        let name = self.lease_name();
        let now = format!("{:.6}", (self.wall)());
        let owners = self.owner.references();
        let renewal = json!({
            "metadata": {"ownerReferences": owners},
            "spec": {"renewTime": now},
        });
        let patch = Patch::Merge(&renewal);
        let parameters = PatchParams::default();

        match with_retry(|| self.leases.patch(&name, &parameters, &patch)).await {
            Err(error) if errors::is_not_found(&error) => {}
            renewed => return renewed.map(drop),
        }

        let lease = serde_json::from_value(json!({
            "metadata": {
                "name": name,
                "labels": {
                    "app.kubernetes.io/managed-by": "toolbus-scripts-manager",
                    MANAGER: self.manager,
                },
                "ownerReferences": owners,
            },
            "spec": {
                "holderIdentity": self.manager,
                "leaseDurationSeconds": LEASE_TIMEOUT.as_secs(),
                "acquireTime": now,
                "renewTime": now,
            },
        }));
        let lease: Lease = lease.expect("the template is a Lease");
        let parameters = PostParams::default();
        match with_retry(|| self.leases.create(&parameters, &lease)).await {
            // Nobody else has this name: an attempt without an answer was granted.
            Err(error) if !errors::is_already_exists(&error) => Err(error),
            _ => Ok(()),
        }
    }

    /// Lists the Leases of all managers.
    pub(crate) async fn list_all(&self) -> Result<Vec<ManagerLease>, kube::Error> {
        let parameters = ListParams::default();
        let list = with_retry(|| self.leases.list(&parameters)).await?;
        self.owner.update(&list.items);

        let seen = list.items.into_iter().filter_map(|lease| {
            Some(ManagerLease {
                manager: lease.labels().get(MANAGER)?.clone(),
                version: lease.resource_version()?,
                name: lease.name_any(),
                uid: lease.uid()?,
            })
        });

        Ok(seen.collect())
    }

    /// Deletes the Lease of a dead manager, unless it was renewed after all.
    pub(crate) async fn delete_dead(&self, seen: &ManagerLease) -> Result<(), kube::Error> {
        let as_seen = Preconditions {
            uid: Some(seen.uid.clone()),
            resource_version: Some(seen.version.clone()),
        };
        self.delete_lease(&seen.name, &DeleteParams::default().preconditions(as_seen)).await
    }

    /// Deletes the Lease of this manager as it ends, so that the others need not wait for its
    /// expiry.
    pub(crate) async fn delete_own(&self) -> Result<(), kube::Error> {
        self.delete_lease(&self.lease_name(), &DeleteParams::default()).await
    }

    /// Deletes a Lease, which may be gone already or be another than was seen.
    async fn delete_lease(&self, name: &str, parameters: &DeleteParams) -> Result<(), kube::Error> {
        match with_retry(|| self.leases.delete(name, parameters)).await {
            Err(error) if !errors::is_not_found(&error) && !errors::is_conflict(&error) => {
                Err(error)
            }
            _ => Ok(()),
        }
    }

    fn lease_name(&self) -> String {
        format!("toolbus-scripts-{}", self.manager)
    }
}

/// Tracks which managers are dead, as far as observation has shown.
#[derive(Default)]
pub(crate) struct LivenessTracker {
    last_look: Option<Instant>,
    /// By manager: the version of its Lease, `None` where it has none, and since when.
    known: HashMap<String, (Option<String>, Instant)>,
}

impl LivenessTracker {
    /// Takes the Leases, and the managers that own pods. Returns the dead managers.
    pub(crate) fn observe_lease(
        &mut self,
        leases: &[ManagerLease],
        owners: &BTreeSet<String>,
        now: Instant,
    ) -> BTreeSet<String> {
        // This process may have stood still, and the others with it: their time starts again.
        if self.last_look.is_none_or(|last| now - last > OBSERVATION_INTERVAL_MAX) {
            self.known.clear();
        }

        self.last_look = Some(now);
        let mut current: HashMap<&str, Option<&str>> =
            owners.iter().map(|owner| (owner.as_str(), None)).collect();
        current.extend(leases.iter().map(|lease| (&*lease.manager, Some(&*lease.version))));
        self.known.retain(|manager, _| current.contains_key(manager.as_str()));

        let mut dead = BTreeSet::new();
        for (manager, version) in current {
            let known = self.known.entry(manager.to_owned());
            let (before, since) = known.or_insert_with(|| (version.map(str::to_owned), now));
            if before.as_deref() != version {
                (*before, *since) = (version.map(str::to_owned), now);
            } else if now - *since >= LEASE_TIMEOUT {
                dead.insert(manager.to_owned());
            }
        }

        dead
    }

    /// Forgets the last observation, after one that failed.
    pub(crate) fn reset(&mut self) {
        self.last_look = None;
    }
}

#[cfg(test)]
mod tests;
