//! The index: the servers that bridges have announced.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;
use toolbus_wire::message::mcp::{McpServerSummary, McpServersIndexed};

/// Most servers that are known; a bridge that announces more is not believed.
const SERVERS_MAX: usize = 1_000;

#[derive(Default)]
pub(super) struct Index {
    servers: Mutex<Vec<McpServerSummary>>,
    /// Whether any announcement has come, be it of no server at all.
    heard: AtomicBool,
    changed: Notify,
}

impl Index {
    /// Takes an announcement in: removals first, then what is new or has changed. Names are alike
    /// without regard to case.
    pub(super) fn apply(&self, announcement: McpServersIndexed) {
        let mut servers = self.servers.lock();
        for removed in &announcement.removed_servers {
            servers.retain(|server| !server.server_name.eq_ignore_ascii_case(removed));
        }
        for summary in announcement.servers {
            let name = &summary.server_name;
            match servers.iter().position(|other| other.server_name.eq_ignore_ascii_case(name)) {
                Some(at) => servers[at] = summary,
                None if servers.len() < SERVERS_MAX => servers.push(summary),
                None => tracing::warn!(server = name, "too many servers: ignored"),
            }
        }
        drop(servers);
        self.heard.store(true, Ordering::Release);
        self.changed.notify_waiters();
    }

    /// Forgets every server: they will be announced anew, or are gone.
    pub(super) fn clear(&self) {
        self.servers.lock().clear();
        self.changed.notify_waiters();
    }

    pub(super) fn has_heard(&self) -> bool {
        self.heard.load(Ordering::Acquire)
    }

    pub(super) fn servers(&self) -> Vec<McpServerSummary> {
        self.servers.lock().clone()
    }

    pub(super) async fn wait_until(&self, enough: impl Fn(&[McpServerSummary]) -> bool) {
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
