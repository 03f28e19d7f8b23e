//! The owner of everything that managers create in the namespace: a Lease that came with the
//! installation, where there is one.
//!
//! Whoever removes an installation takes the managers' rights away before they have ended, so they
//! cannot tidy up. The cluster does it then: with the owner goes all that belongs to it.

use std::sync::Arc;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Resource as _, ResourceExt as _};
use parking_lot::Mutex;

/// The name of that Lease. Those of managers have longer ones.
const NAME: &str = "toolbus-scripts";

/// The owner as it was seen last, if there was one. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct OwnerLease(Arc<Mutex<Option<OwnerReference>>>);

impl OwnerLease {
    /// Updates the owner from the current Leases. What belongs to a deleted owner is deleted at
    /// once, so nothing older may stay.
    pub(crate) fn update(&self, leases: &[Lease]) {
        let is_it = |lease: &&Lease| {
            lease.name_any() == NAME && lease.metadata.deletion_timestamp.is_none()
        };
        *self.0.lock() = leases.iter().find(is_it).and_then(|lease| lease.owner_ref(&()));
    }

    /// The owner references of a new object.
    pub(crate) fn references(&self) -> Option<Vec<OwnerReference>> {
        self.0.lock().clone().map(|owner| vec![owner])
    }
}

#[cfg(test)]
mod tests;
