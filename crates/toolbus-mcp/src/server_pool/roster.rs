//! The list of the servers of a pool, in the order of the configuration; what was added later comes
//! last.

use std::sync::Arc;

use parking_lot::RwLock;
use tokio_util::sync::CancellationToken;

use super::AddError;
use crate::claims::Position;
use crate::server::Server;

/// The servers that there are, each under a name of its own.
pub(super) struct ServerRoster {
    servers: RwLock<Vec<Arc<Server>>>,
    /// Fires when the pool is closed: nothing is added any more.
    stop: CancellationToken,
}

impl ServerRoster {
    pub(super) fn new(servers: Vec<Arc<Server>>, stop: CancellationToken) -> Self {
        Self { servers: RwLock::new(servers), stop }
    }

    /// All servers, in order.
    pub(super) fn list(&self) -> Vec<Arc<Server>> {
        self.servers.read().clone()
    }

    /// The server of this name, in any case.
    pub(super) fn find(&self, name: &str) -> Option<Arc<Server>> {
        self.servers.read().iter().find(|server| server.entry.name.matches(name)).cloned()
    }

    pub(super) fn find_by_position(&self, position: Position) -> Option<Arc<Server>> {
        self.servers.read().iter().find(|server| server.position == position).cloned()
    }

    /// Adds a server at the end.
    ///
    /// # Errors
    /// When the pool is closed, or the name is taken or looks like another.
    pub(super) fn insert(&self, server: &Arc<Server>) -> Result<(), AddError> {
        let name = &server.entry.name;
        let mut servers = self.servers.write();

        if self.stop.is_cancelled() {
            return Err(AddError::Closed);
        }
        if servers.iter().any(|other| other.entry.name == *name) {
            return Err(AddError::Exists(name.clone()));
        }
        if let Some(other) = servers.iter().find(|other| other.entry.name.looks_like(name)) {
            server.catalogue.release_claims();
            return Err(AddError::LooksLike(other.entry.name.clone()));
        }

        servers.push(Arc::clone(server));
        Ok(())
    }

    /// Puts a server in the place of another. False when that is no longer there.
    pub(super) fn try_replace(&self, old: &Arc<Server>, new: &Arc<Server>) -> bool {
        let mut servers = self.servers.write();
        let Some(slot) = servers.iter_mut().find(|other| Arc::ptr_eq(other, old)) else {
            return false;
        };

        *slot = Arc::clone(new);
        true
    }

    /// Takes the server of this name, in any case, out of the list.
    pub(super) fn remove(&self, name: &str) -> Option<Arc<Server>> {
        let mut servers = self.servers.write();
        let index = servers.iter().position(|server| server.entry.name.matches(name))?;
        Some(servers.remove(index))
    }

    /// Takes a server that could not be added out of the list, with its claims on names.
    pub(super) fn discard(&self, server: &Arc<Server>) {
        let mut servers = self.servers.write();
        servers.retain(|other| !Arc::ptr_eq(other, server));

        // It may have been about to replace another, which keeps its names.
        if servers.iter().all(|other| other.position != server.position) {
            server.catalogue.release_claims();
        }
    }

    /// Changes the whole list at once, unless the pool is closed.
    pub(super) fn update<T>(&self, change: impl FnOnce(&mut Vec<Arc<Server>>) -> T) -> Option<T> {
        let mut servers = self.servers.write();
        if self.stop.is_cancelled() {
            return None;
        }
        Some(change(&mut servers))
    }
}
