//! Differences among the servers of a pool, for the announcement to agents.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use toolbus_wire::message::mcp::McpServerSummary;

use super::{ServerPool, WeakServerPool};
use crate::change_pace::ChangePace;
use crate::server::Server;
use crate::server_name::ServerName;

/// The pause between the first two reports of one server; each after is twice as long.
const REPORT_BACKOFF: Duration = Duration::from_millis(125);
/// A server that is connected sooner is not reported as one that is being connected.
const CONNECTING_GRACE: Duration = Duration::from_millis(300);

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
    /// How often each of them is reported.
    paces: HashMap<ServerName, ChangePace>,
}

/// What a look at the servers has brought.
#[expect(clippy::large_enum_variant, reason = "on its way to the receiver, never stored")]
enum Difference {
    Found(Change),
    /// Nothing to report now; perhaps a difference that may be reported then.
    Due(Option<Instant>),
}

/// What was last reported of a server.
#[derive(PartialEq, Eq)]
struct ReportedServer {
    /// The revision of what it listed.
    revision: Option<u64>,
    /// Why it was away.
    unavailable: Option<Arc<str>>,
    /// Whether it was being connected for the first time.
    connecting: bool,
}

impl ServerPool {
    /// Differences among the servers, beginning with every server that is there now.
    #[must_use]
    pub fn changes(&self) -> Changes {
        let mut signal = self.0.context.change_signal.subscribe();
        signal.mark_changed();
        Changes { pool: self.to_weak(), signal, reported: HashMap::new(), paces: HashMap::new() }
    }
}

impl Changes {
    /// The next difference: waits for one. `None` when the servers are closed.
    ///
    /// Differences are taken from the present state, so one that has passed is not reported, and
    /// nothing piles up for a slow receiver. A server that differs again and again is reported less
    /// and less often, down to once a minute. A future of this may be dropped at any time.
    pub async fn next(&mut self) -> Option<Change> {
        loop {
            let due = match self.find_difference()? {
                Difference::Found(change) => return Some(change),
                Difference::Due(due) => due,
            };

            let later = async {
                match due {
                    Some(due) => sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                changed = self.signal.changed() => changed.ok()?,
                () = later => {}
            }
        }
    }

    /// The next difference, if there is one to report now.
    pub(crate) fn try_next(&mut self) -> Option<Change> {
        match self.find_difference()? {
            Difference::Found(change) => Some(change),
            Difference::Due(_) => None,
        }
    }

    /// Looks for a difference. `None` when the servers are closed.
    fn find_difference(&mut self) -> Option<Difference> {
        self.signal.borrow_and_update();
        // Not held while waiting: the last handle on the pool stops its servers.
        let pool = self.pool.upgrade()?;
        let difference = self.take_difference(&pool.0.roster.list());
        let is_found = matches!(difference, Difference::Found(_));
        (is_found || !pool.0.context.stop.is_cancelled()).then_some(difference)
    }

    /// Finds one difference to what was reported, and counts it as reported.
    fn take_difference(&mut self, servers: &[Arc<Server>]) -> Difference {
        let is_there = |name: &ServerName| servers.iter().any(|server| server.entry.name == *name);
        // Whoever has it now tells of it.
        let other = |server: &Arc<Server>| !server.ownership.is_owned();
        for server in servers.iter().filter(|server| other(server)) {
            self.reported.remove(&server.entry.name);
        }

        if let Some(name) = self.reported.keys().find(|name| !is_there(name)).cloned() {
            self.reported.remove(&name);
            self.paces.remove(&name);
            return Difference::Found(Change::Removed(name.as_str().to_owned()));
        }

        let now = Instant::now();
        let mut next_due: Option<Instant> = None;
        for server in servers.iter().filter(|server| !other(server)) {
            let revision = server.catalogue.latest().map(|listing| listing.revision);
            let unavailable = server.connector.unavailable_reason();
            let is_new = revision.is_none() && unavailable.is_none();
            let connecting_since = server.connecting_since().filter(|_| is_new);
            let state =
                ReportedServer { revision, unavailable, connecting: connecting_since.is_some() };
            if is_new && !state.connecting {
                continue;
            }

            let name = &server.entry.name;
            if self.reported.get(name) == Some(&state) {
                continue;
            }
            let pace =
                self.paces.entry(name.clone()).or_insert_with(|| ChangePace::new(REPORT_BACKOFF));
            let grace_over = connecting_since.map_or(now, |since| since + CONNECTING_GRACE);
            let due = pace.due(now).max(grace_over);
            if due > now {
                next_due = Some(next_due.map_or(due, |next| next.min(due)));
                continue;
            }

            pace.record(now);
            self.reported.insert(name.clone(), state);
            if let Some(summary) = server.summary() {
                return Difference::Found(Change::Listed(summary));
            }
        }
        Difference::Due(next_due)
    }
}
