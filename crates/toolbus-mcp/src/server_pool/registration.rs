//! Registration of servers by agents while the bridge runs. The operator's servers are not theirs
//! to touch.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::{Map, Value};
use toolbus_wire::message::mcp::McpServerSummary;

use super::{AddError, REMOVE_GRACE, ServerPool, run_blocking};
use crate::config::Entry;
use crate::server::{Server, ServerOrigin};
use crate::server_file::ServerFileError;
use crate::server_name::ServerName;

/// Most servers that agents may have registered at a time.
pub const REGISTERED_MAX: usize = 128;

/// A server that was registered.
#[derive(Debug)]
pub struct Registered {
    /// The summary for agents.
    pub summary: McpServerSummary,
    /// Why the registration is lost at the next start, if it is.
    pub not_kept: Option<ServerFileError>,
}

/// Why a server was not unregistered.
#[derive(Debug, thiserror::Error)]
pub enum UnregisterError {
    /// It is one of the operator's.
    #[error("the MCP server '{0}' is the operator's")]
    Operators(ServerName),
    /// Another agent has registered it.
    #[error("the MCP server '{0}' was registered by another agent")]
    OtherAgents(ServerName),
    /// It could not be taken out of the file, and would be back at the next start.
    #[error("its registration cannot be deleted")]
    Kept(#[from] ServerFileError),
}

impl ServerPool {
    /// Connects a server for an agent and writes `members`, what the entry was made of, to the file
    /// of registrations.
    ///
    /// A server that the same agent has registered before is replaced when the new one is
    /// connected, and calls on the old one may end. To register the same again changes nothing.
    ///
    /// # Errors
    /// When it cannot be connected to, there are too many, or the name is the operator's or another
    /// agent's: then everything is as before.
    pub async fn register(
        &self,
        entry: Entry,
        members: Map<String, Value>,
    ) -> Result<Registered, AddError> {
        let server = match self.0.roster.find(entry.name.as_str()) {
            Some(known) if known.origin == ServerOrigin::Operator => {
                return Err(AddError::Operators(known.entry.name.clone()));
            }
            Some(known) if !known.entry.may_be_changed_by(entry.registered_by.as_deref()) => {
                return Err(AddError::OtherAgents(known.entry.name.clone()));
            }
            Some(known) if *known.entry == entry => {
                known.refresh().await.map_err(AddError::Failed)?;
                known
            }
            Some(known) => self.replace_server(&known, entry).await?,
            None => {
                let name = entry.name.as_str();
                if self.is_of_another(name, entry.registered_by.as_deref()).await {
                    return Err(AddError::OtherAgents(entry.name));
                }
                let servers = self.0.roster.list();
                let is_registered = |server: &&Arc<Server>| server.origin == ServerOrigin::Agent;
                if servers.iter().filter(is_registered).count() >= REGISTERED_MAX {
                    return Err(AddError::TooMany);
                }
                self.add_server(entry, ServerOrigin::Agent).await?
            }
        };

        let summary = server.summary().ok_or(AddError::Closed)?;
        let not_kept = self.persist_registration(server, members).await.err();
        Ok(Registered { summary, not_kept })
    }

    /// Removes a server that this agent has registered, and its registration. That it is not there
    /// is fine.
    ///
    /// # Errors
    /// When it is the operator's or another agent's, or its registration cannot be deleted; then it
    /// stays.
    pub async fn unregister(&self, name: &str, agent: &str) -> Result<(), UnregisterError> {
        if let Some(server) = self.0.roster.find(name) {
            let name = || server.entry.name.clone();
            if server.origin == ServerOrigin::Operator {
                return Err(UnregisterError::Operators(name()));
            }
            if !server.entry.may_be_changed_by(Some(agent)) {
                return Err(UnregisterError::OtherAgents(name()));
            }
        }

        let Some(registrations) = self.0.context.options.registrations.clone() else {
            self.remove(name);
            return Ok(());
        };
        // It need not be one of the servers: the rules may have become stricter.
        if let Ok(server) = ServerName::parse(name)
            && self.is_of_another(name, Some(agent)).await
        {
            return Err(UnregisterError::OtherAgents(server));
        }

        let pool = self.clone();
        let name = name.to_owned();
        run_blocking(move || {
            let turn = registrations.take_turn();
            turn.remove(&name)?;
            pool.remove(&name);
            Ok(())
        })
        .await
    }

    /// Whether the file of registrations has this name for another agent.
    async fn is_of_another(&self, name: &str, agent: Option<&str>) -> bool {
        let Some(registrations) = self.0.context.options.registrations.clone() else {
            return false;
        };

        let name = name.to_owned();
        let owner = run_blocking(move || registrations.take_turn().owner_of(&name)).await;
        // A file that cannot be read is reported when it is to be changed.
        matches!(owner, Ok(Some(owner)) if Some(owner.as_str()) != agent)
    }

    /// Connects a server, and puts it in the place of another that an agent has registered.
    async fn replace_server(
        &self,
        known: &Arc<Server>,
        entry: Entry,
    ) -> Result<Arc<Server>, AddError> {
        let name = entry.name.clone();
        let context = &self.0.context;
        let server = context.spawn_server(entry, ServerOrigin::Agent);
        let pending = PendingAddition::new(self, Arc::clone(&server));
        server.wait_first_attempt().await.map_err(AddError::Failed)?;

        if !self.0.roster.try_replace(known, &server) {
            // Another registration was faster.
            return Err(AddError::Exists(name));
        }
        pending.complete();

        context.announce();
        context.spawn_close(Arc::clone(known), REMOVE_GRACE);
        Ok(server)
    }

    /// Writes a registration to the file, where there is one.
    async fn persist_registration(
        &self,
        server: Arc<Server>,
        members: Map<String, Value>,
    ) -> Result<(), ServerFileError> {
        let Some(registrations) = self.0.context.options.registrations.clone() else {
            return Ok(());
        };

        run_blocking(move || {
            let turn = registrations.take_turn();
            turn.save(server.entry.name.as_str(), members)?;
            // Within the turn: a reader of the file after it finds the server in it.
            server.is_persisted.store(true, Ordering::Relaxed);
            Ok(())
        })
        .await
    }
}

/// A server that is being added. Dropped before it is complete, also with the future of its
/// [`ServerPool::add`], the server is removed.
pub(super) struct PendingAddition<'a> {
    pool: &'a ServerPool,
    server: Option<Arc<Server>>,
}

impl<'a> PendingAddition<'a> {
    pub(super) fn new(pool: &'a ServerPool, server: Arc<Server>) -> Self {
        Self { pool, server: Some(server) }
    }

    /// Leaves the server in the pool.
    pub(super) fn complete(mut self) {
        self.server = None;
    }
}

impl Drop for PendingAddition<'_> {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            self.pool.0.roster.discard(&server);
            server.abandon_connection();
        }
    }
}
