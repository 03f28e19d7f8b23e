//! What has changed among the servers, for whoever tells agents.

use std::collections::HashMap;

use super::*;

/// A difference in what there is.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "told one at a time, never kept")]
pub enum Change {
    /// A server is there for the first time, has other tools than before, cannot be reached, or
    /// can be again.
    Listed(McpServerSummary),
    /// A server was removed.
    Removed(String),
}

/// Tells differences in what there is, see [`Set::changes`].
pub struct Changes {
    set: std::sync::Weak<Inner>,
    news: watch::Receiver<()>,
    told: HashMap<ServerName, Told>,
}

/// What was told of a server: the revision of what it listed, and why it was away.
type Told = (Option<u64>, Option<Arc<str>>);

impl Set {
    /// Differences in what there is, beginning with everything that is there now.
    #[must_use]
    pub fn changes(&self) -> Changes {
        let mut news = self.0.shared.news.subscribe();
        news.mark_changed();
        Changes { set: Arc::downgrade(&self.0), news, told: HashMap::new() }
    }
}

impl Changes {
    /// The next difference: waits for one. `None` when the servers are closed.
    ///
    /// Differences are taken from how things are, so one that has passed is not told, and nothing
    /// piles up for a listener that is slow. A future of this may be dropped at any time.
    pub async fn next(&mut self) -> Option<Change> {
        loop {
            self.news.borrow_and_update();
            {
                let set = self.set.upgrade()?;
                if let Some(change) = self.difference(&set.servers.read()) {
                    return Some(change);
                }
                if set.shared.stop.is_cancelled() {
                    return None;
                }
            }
            self.news.changed().await.ok()?;
        }
    }

    fn difference(&mut self, servers: &[Arc<Server>]) -> Option<Change> {
        let is_there = |name: &ServerName| servers.iter().any(|server| server.entry.name == *name);
        if let Some(name) = self.told.keys().find(|name| !is_there(name)).cloned() {
            self.told.remove(&name);
            return Some(Change::Removed(name.as_str().to_owned()));
        }
        servers.iter().find_map(|server| {
            let now = (server.listed().map(|listed| listed.revision), server.away());
            if now == (None, None) || self.told.get(&server.entry.name) == Some(&now) {
                return None;
            }
            self.told.insert(server.entry.name.clone(), now);
            server.summary().map(Change::Listed)
        })
    }
}
