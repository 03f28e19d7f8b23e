//! The index: the servers that bridges have announced.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;
use toolbus_wire::message::mcp::{McpServerSummary, McpServersIndexed};

/// Most servers that are known; a bridge that announces more is not believed.
const SERVERS_MAX: usize = 1_000;

#[derive(Default)]
pub(crate) struct Index {
    servers: Mutex<Vec<McpServerSummary>>,
    /// Grows with everything that is announced. For each server by its name in lower case, when it
    /// was announced last.
    revision: AtomicU64,
    announced: Mutex<HashMap<String, u64>>,
    /// Whether any announcement has come, be it of no server at all.
    heard: AtomicBool,
    changed: Notify,
}

impl Index {
    /// Takes an announcement in: removals first, then what is new or has changed. Names are alike
    /// without regard to case. `follow` sees what is known then, before anybody who waits does.
    pub(crate) fn apply(
        &self,
        announcement: McpServersIndexed,
        follow: impl FnOnce(&[McpServerSummary]),
    ) {
        let revision = self.revision.fetch_add(1, Ordering::AcqRel) + 1;
        let mut servers = self.servers.lock();
        let mut announced = self.announced.lock();
        for removed in &announcement.removed_servers {
            servers.retain(|server| !server.server_name.eq_ignore_ascii_case(removed));
        }
        for summary in announcement.servers {
            let name = &summary.server_name;
            let folded = name.to_ascii_lowercase();
            match servers.iter().position(|other| other.server_name.eq_ignore_ascii_case(name)) {
                Some(at) => servers[at] = summary,
                None if servers.len() < SERVERS_MAX => servers.push(summary),
                None => {
                    tracing::warn!(server = name, "too many servers: ignored");
                    continue;
                }
            }
            announced.insert(folded, revision);
        }
        announced
            .retain(|name, _| servers.iter().any(|s| s.server_name.eq_ignore_ascii_case(name)));
        drop(announced);
        follow(&servers);
        drop(servers);
        self.heard.store(true, Ordering::Release);
        self.changed.notify_waiters();
    }

    /// Forgets every server: they will be announced anew, or are gone.
    pub(crate) fn clear(&self) {
        self.revision.fetch_add(1, Ordering::AcqRel);
        self.servers.lock().clear();
        self.announced.lock().clear();
        self.changed.notify_waiters();
    }

    pub(crate) fn has_heard(&self) -> bool {
        self.heard.load(Ordering::Acquire)
    }

    pub(crate) fn servers(&self) -> Vec<McpServerSummary> {
        self.servers.lock().clone()
    }

    /// Which servers there are, each with when it was announced last, and how much has been
    /// announced in all.
    pub(crate) fn announced(&self) -> (Vec<(String, u64)>, u64) {
        let revision = self.revision.load(Ordering::Acquire);
        let servers = self.servers.lock();
        let announced = self.announced.lock();
        let when = |name: &str| announced.get(&name.to_ascii_lowercase()).copied().unwrap_or(0);
        let servers = servers.iter().map(|s| (s.server_name.clone(), when(&s.server_name)));
        (servers.collect(), revision)
    }

    /// How much has been announced in all.
    pub(crate) fn revision(&self) -> u64 {
        self.revision.load(Ordering::Acquire)
    }

    /// Has everybody who waits look again.
    pub(crate) fn nudge(&self) {
        self.changed.notify_waiters();
    }

    /// Waits until more than this has been announced.
    pub(crate) async fn wait_for_news(&self, known: u64) {
        self.wait_until(|_| self.revision() > known).await;
    }

    pub(crate) async fn wait_until(&self, enough: impl Fn(&[McpServerSummary]) -> bool) {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            // Listening must begin before the look, or a change between the two is missed.
            changed.as_mut().enable();
            if enough(&self.servers.lock()) {
                return;
            }
            changed.await;
        }
    }
}
