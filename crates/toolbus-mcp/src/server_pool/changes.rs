//! Differences among the servers of a pool, for the announcement to agents.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::watch;
use toolbus_wire::message::mcp::McpServerSummary;

use super::{ServerPool, WeakServerPool};
use crate::server::Server;
use crate::server_name::ServerName;

/// A difference among the servers of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "reported one at a time, never stored")]
pub enum Change {
    /// A server is there for the first time, has other tools than before, cannot be reached, or
    /// can be again.
    Listed(McpServerSummary),
    /// A server was removed.
    Removed(String),
}

/// Reports the differences among the servers of a pool, see [`ServerPool::changes`].
pub struct Changes {
    pool: WeakServerPool,
    signal: watch::Receiver<()>,
    reported: HashMap<ServerName, ReportedServer>,
}

/// What was last reported of a server.
#[derive(PartialEq, Eq)]
struct ReportedServer {
    /// The revision of what it listed.
    revision: Option<u64>,
    /// Why it was away.
    unavailable: Option<Arc<str>>,
}

impl ServerPool {
    /// Differences among the servers, beginning with every server that is there now.
    #[must_use]
    pub fn changes(&self) -> Changes {
        let mut signal = self.0.context.change_signal.subscribe();
        signal.mark_changed();
        Changes { pool: self.to_weak(), signal, reported: HashMap::new() }
    }
}

impl Changes {
    /// The next difference: waits for one. `None` when the servers are closed.
    ///
    /// Differences are taken from the present state, so one that has passed is not reported, and
    /// nothing piles up for a slow receiver. A future of this may be dropped at any time.
    pub async fn next(&mut self) -> Option<Change> {
        loop {
            self.signal.borrow_and_update();
            {
                // Not held while waiting: the last handle on the pool stops its servers.
                let pool = self.pool.upgrade()?;
                if let Some(change) = self.take_difference(&pool.0.roster.list()) {
                    return Some(change);
                }
                if pool.0.context.stop.is_cancelled() {
                    return None;
                }
            }
            self.signal.changed().await.ok()?;
        }
    }

    /// Finds one difference to what was reported, and counts it as reported.
    fn take_difference(&mut self, servers: &[Arc<Server>]) -> Option<Change> {
        let is_there = |name: &ServerName| servers.iter().any(|server| server.entry.name == *name);
        if let Some(name) = self.reported.keys().find(|name| !is_there(name)).cloned() {
            self.reported.remove(&name);
            return Some(Change::Removed(name.as_str().to_owned()));
        }

        servers.iter().find_map(|server| {
            let name = &server.entry.name;
            let now = ReportedServer {
                revision: server.catalogue.latest().map(|listing| listing.revision),
                unavailable: server.connector.unavailable_reason(),
            };

            let has_nothing = now.revision.is_none() && now.unavailable.is_none();
            if has_nothing || self.reported.get(name) == Some(&now) {
                return None;
            }
            self.reported.insert(name.clone(), now);
            server.summary().map(Change::Listed)
        })
    }
}
