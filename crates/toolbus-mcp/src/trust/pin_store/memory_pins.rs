//! Pins in memory, which end with this process.

use std::collections::HashMap;

use super::{PinLimits, PinOwner};
use crate::server_name::ServerName;
use crate::trust::pins::{PinDocument, PriorPins};

/// The pins of each server.
#[derive(Debug)]
pub(super) struct MemoryPins {
    documents: HashMap<ServerName, MemoryDocument>,
    limits: PinLimits,
    /// Counts the listings.
    listings: u64,
}

#[derive(Debug)]
struct MemoryDocument {
    document: PinDocument,
    owner: PinOwner,
    /// The last listing of the server.
    listing: u64,
}

impl MemoryPins {
    pub(super) fn new(limits: PinLimits) -> Self {
        Self { documents: HashMap::new(), limits, listings: 0 }
    }

    pub(super) fn update<R>(
        &mut self,
        server: &ServerName,
        owner: PinOwner,
        edit: impl FnOnce(&mut PinDocument, PriorPins) -> (R, bool),
    ) -> R {
        if owner == PinOwner::Operator && self.owner_of(server) == PinOwner::Agent {
            self.documents.remove(server);
        }

        let known = self.documents.contains_key(server);
        let prior = if known { PriorPins::Known } else { PriorPins::First };
        if prior == PriorPins::First && owner == PinOwner::Agent {
            self.forget_oldest();
        }

        self.listings += 1;
        let kept = self.documents.entry(server.clone()).or_insert_with(|| MemoryDocument {
            document: PinDocument::new(server.as_str()),
            owner,
            listing: 0,
        });
        kept.listing = self.listings;
        edit(&mut kept.document, prior).0
    }

    pub(super) fn read(&self, server: &ServerName) -> Option<PinDocument> {
        self.documents.get(server).map(|kept| kept.document.clone())
    }

    pub(super) fn owner_of(&self, server: &ServerName) -> PinOwner {
        self.documents.get(server).map_or(PinOwner::Operator, |kept| kept.owner)
    }

    pub(super) fn servers(&self) -> Vec<ServerName> {
        self.documents.keys().cloned().collect()
    }

    /// Makes room for one more server of an agent.
    fn forget_oldest(&mut self) {
        let registered = || self.documents.iter().filter(|(_, kept)| kept.owner == PinOwner::Agent);
        if registered().count() < self.limits.registered {
            return;
        }

        let oldest = registered().min_by_key(|(_, kept)| kept.listing);
        if let Some(oldest) = oldest.map(|(name, _)| name.clone()) {
            self.documents.remove(&oldest);
        }
    }
}
