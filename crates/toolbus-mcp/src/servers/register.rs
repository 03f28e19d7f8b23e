//! Servers that agents register and unregister while the bridge runs. The operator's are not theirs
//! to touch.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::{Map, Value};
use toolbus_wire::message::mcp::McpServerSummary;

use super::{AddError, REMOVE_GRACE, Set, Unfinished};
use crate::config::Entry;
use crate::registrations::RegistrationsError;
use crate::server::{Origin, Server};
use crate::server_name::ServerName;

/// Most servers that agents may have registered at a time.
pub const REGISTERED_MAX: usize = 128;

/// A server that was registered.
#[derive(Debug)]
pub struct Registered {
    /// The line about it for agents.
    pub summary: McpServerSummary,
    /// Why it is forgotten at the next start, if it is.
    pub not_kept: Option<RegistrationsError>,
}

/// Why a server was not unregistered.
#[derive(Debug, thiserror::Error)]
pub enum UnregisterError {
    /// It is one of the operator's.
    #[error("the MCP server '{0}' is the operator's")]
    Operators(ServerName),
    /// It could not be taken out of the file, and would be back at the next start.
    #[error("its registration cannot be deleted")]
    Kept(#[from] RegistrationsError),
}

impl Set {
    /// Connects a server for an agent and writes `members`, what the entry was made of, down.
    ///
    /// In the place of a server that an agent has registered before, it goes on when it is
    /// connected, and calls on the old one may end. To register the same again changes nothing.
    ///
    /// # Errors
    /// When it cannot be connected to, there are too many, or the name is the operator's: then
    /// everything is as before.
    pub async fn register(
        &self,
        entry: Entry,
        members: Map<String, Value>,
    ) -> Result<Registered, AddError> {
        let server = match self.server(entry.name.as_str()) {
            Some(known) if known.origin == Origin::Operator => {
                return Err(AddError::Operators(known.entry.name.clone()));
            }
            Some(known) if known.entry == entry => {
                known.refresh().await.map_err(AddError::Failed)?;
                known
            }
            Some(known) => self.replace(&known, entry).await?,
            None => {
                let servers = self.servers();
                let registered = servers.iter().filter(|server| server.origin == Origin::Agent);
                if registered.count() >= REGISTERED_MAX {
                    return Err(AddError::TooMany);
                }
                self.add_as(entry, Origin::Agent).await?
            }
        };
        let summary = server.summary().ok_or(AddError::Closed)?;
        let not_kept = self.keep(server, members).await.err();
        Ok(Registered { summary, not_kept })
    }

    /// Removes a server that an agent has registered, and its registration. That it is not there
    /// is fine.
    ///
    /// # Errors
    /// When it is the operator's, or its registration cannot be deleted; then it stays.
    pub async fn unregister(&self, name: &str) -> Result<(), UnregisterError> {
        if let Some(server) = self.server(name)
            && server.origin == Origin::Operator
        {
            return Err(UnregisterError::Operators(server.entry.name.clone()));
        }
        if let Some(registrations) = self.0.shared.options.registrations.clone() {
            let (set, name) = (self.clone(), name.to_owned());
            return blocking(move || {
                let turn = registrations.turn();
                turn.remove(&name)?;
                set.remove(&name);
                Ok(())
            })
            .await;
        }
        self.remove(name);
        Ok(())
    }

    async fn replace(&self, known: &Arc<Server>, entry: Entry) -> Result<Arc<Server>, AddError> {
        let name = entry.name.clone();
        let shared = &self.0.shared;
        let server = Server::new(entry, Origin::Agent, Arc::clone(shared));
        shared.means.tracker.spawn(Arc::clone(&server).keep());
        let unfinished = Unfinished { set: self, server: Some(Arc::clone(&server)) };
        server.settled().await.map_err(AddError::Failed)?;
        {
            let mut servers = self.0.servers.write();
            let place = servers.iter_mut().find(|other| Arc::ptr_eq(other, known));
            // Somebody else was faster.
            *place.ok_or(AddError::Exists(name))? = Arc::clone(&server);
        }
        unfinished.finish();
        shared.announce();
        let known = Arc::clone(known);
        shared.means.tracker.spawn(async move { known.close(REMOVE_GRACE).await });
        Ok(server)
    }

    async fn keep(
        &self,
        server: Arc<Server>,
        members: Map<String, Value>,
    ) -> Result<(), RegistrationsError> {
        let Some(registrations) = self.0.shared.options.registrations.clone() else {
            return Ok(());
        };
        blocking(move || {
            let turn = registrations.turn();
            turn.save(server.entry.name.as_str(), members)?;
            // Within the turn: whoever reads the file after it finds the server in it.
            server.is_kept.store(true, Ordering::Relaxed);
            Ok(())
        })
        .await
    }
}

/// Runs what waits for a disk, to its end even if nobody waits for that.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}
