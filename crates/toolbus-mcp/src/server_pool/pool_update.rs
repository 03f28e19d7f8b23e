//! Reconciles the servers there are with those that the files list: by a difference, so that a
//! server that is to stay as it is keeps its connection and the calls on it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{PoolContext, ServerPool};
use crate::config::Entry;
use crate::server::{Server, ServerOrigin};

/// The servers that there should be.
#[derive(Debug, Default, Clone)]
pub(crate) struct DesiredServers {
    /// Those of the operator.
    pub(crate) operators: Vec<Entry>,
    /// Names whose entries by the operator are invalid: those servers stay as they are.
    pub(crate) unclear: Vec<String>,
    /// Those that agents have registered and that the file of registrations holds. The operator's
    /// come first.
    pub(crate) registered: Vec<Entry>,
}

impl ServerPool {
    /// Adds, replaces and removes servers, so that there are those that are desired, and those that
    /// agents have registered only now or for the time being. Calls on a server that is replaced or
    /// removed may end as if it were not. Needs a tokio runtime to be running.
    pub(crate) fn apply(&self, desired: &DesiredServers) {
        let context = &self.0.context;
        let has_changed = self.0.roster.update(|servers| {
            let before = std::mem::take(servers);
            // Invalid entries keep their servers, so their files stay hidden too.
            let running = before.iter().filter(|server| server.origin == ServerOrigin::Operator);
            let running = running.map(|server| &*server.entry);
            context.deps.shield.hide_environment_files(desired.operators.iter().chain(running));
            let mut update = PoolUpdate { context, before, after: Vec::new(), has_changed: false };

            for entry in &desired.operators {
                update.put_server(entry, ServerOrigin::Operator);
            }
            for entry in &desired.registered {
                let is_taken =
                    update.after.iter().any(|server| server.entry.name.looks_like(&entry.name));
                if !is_taken {
                    update.put_server(entry, ServerOrigin::Agent);
                }
            }
            update.remove_undesired(&desired.unclear);

            *servers = update.after;
            update.has_changed
        });

        if has_changed == Some(true) {
            context.announce();
        }
    }
}

/// The servers before and after one change.
struct PoolUpdate<'a> {
    context: &'a Arc<PoolContext>,
    before: Vec<Arc<Server>>,
    after: Vec<Arc<Server>>,
    has_changed: bool,
}

impl PoolUpdate<'_> {
    /// Puts the server of an entry into the list: the one there is, if it is the same.
    fn put_server(&mut self, entry: &Entry, origin: ServerOrigin) {
        let known = self.before.iter().position(|server| server.entry.name == entry.name);
        let known = known.map(|index| self.before.remove(index));

        match known {
            Some(server) if server.origin == origin && *server.entry == *entry => {
                server.is_persisted.store(true, Ordering::Relaxed);
                self.after.push(server);
            }
            // An agent is just replacing what the file holds; it writes the new entry next.
            Some(server)
                if origin == ServerOrigin::Agent
                    && !server.is_persisted.load(Ordering::Relaxed) =>
            {
                self.after.push(server);
            }
            known => {
                let what = if known.is_some() { "changed" } else { "new" };
                if entry.is_disabled() {
                    tracing::info!(server = %entry.name, what, "configured MCP server is disabled");
                } else {
                    tracing::info!(server = %entry.name, what, "starting configured MCP server");
                }

                if let Some(server) = known {
                    if entry.is_disabled() {
                        server.catalogue.release_claims();
                    }
                    self.retire_server(server);
                }

                let server = Server::new(entry.clone(), origin, Arc::clone(self.context));
                server.is_persisted.store(true, Ordering::Relaxed);
                self.context.spawn_connector(&server);
                self.after.push(server);
                self.has_changed = true;
            }
        }
    }

    /// Removes the servers that no file lists any more.
    fn remove_undesired(&mut self, unclear: &[String]) {
        for server in std::mem::take(&mut self.before) {
            let name = &server.entry.name;
            let stays = match server.origin {
                ServerOrigin::Operator => unclear.iter().any(|unclear| name.matches(unclear)),
                // Not persisted, so it cannot have been taken out of the file either.
                ServerOrigin::Agent => !server.is_persisted.load(Ordering::Relaxed),
            };

            if stays {
                self.after.push(server);
            } else {
                tracing::info!(server = %name, "removing MCP server that is no longer configured");
                server.catalogue.release_claims();
                self.retire_server(server);
            }
        }
    }

    fn retire_server(&mut self, server: Arc<Server>) {
        self.has_changed = true;
        let grace = server.longest_call();
        self.context.spawn_close(server, grace);
    }
}
