//! Announcements of the bridge's servers to the agents that are interested.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use toolbus_bus::port::BODY_BYTES_MAX;
use toolbus_bus::{Bus, Disposition, Envelope, PublishError};
use toolbus_wire::message::mcp::{McpMetadataRefreshRequest, McpServerSummary, McpServersIndexed};
use toolbus_wire::name::AgentName;
use toolbus_wire::{header, json, topic};

use crate::server_pool::{Change, ServerPool};

/// Most agents that are remembered because they asked; the one that asked longest ago goes first.
const ASKERS_MAX: usize = 64;
/// Requests to list servers again that are under way. More are not followed: an agent asks every
/// few minutes, and what it is told first is what is known.
const REFRESHES_MAX: usize = 64;

pub(super) struct Announcer {
    bus: Arc<dyn Bus>,
    set: ServerPool,
    source: String,
    agents: Vec<AgentName>,
    /// Agents that have asked, the latest last. One whose queue no longer exists is forgotten.
    askers: Mutex<Vec<AgentName>>,
    /// Longest announcement of several servers.
    bytes_max: usize,
    refreshes: Arc<Semaphore>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Announcer {
    pub(super) fn new(
        bus: Arc<dyn Bus>,
        set: ServerPool,
        source: String,
        agents: Vec<AgentName>,
    ) -> Arc<Self> {
        Arc::new(Self {
            bus,
            set,
            source,
            agents,
            askers: Mutex::default(),
            bytes_max: BODY_BYTES_MAX,
            refreshes: Arc::new(Semaphore::new(REFRESHES_MAX)),
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
        })
    }

    /// Announces every change from now on, and what is there already.
    pub(super) fn follow_changes(self: &Arc<Self>) {
        let this = Arc::clone(self);
        self.tasks.spawn(async move {
            let mut changes = this.set.changes();
            loop {
                let change = tokio::select! {
                    change = changes.next() => change,
                    () = this.stop.cancelled() => return,
                };
                let Some(change) = change else { return };
                // A broker that is away must not hold up the stop; whoever comes later asks.
                let announcement = announcement_of(change);
                let announcing = this.announce_to_all(&announcement);
                if this.stop.run_until_cancelled(announcing).await.is_none() {
                    return;
                }
            }
        });
    }

    /// Ends the announcing, at the latest, when the guard is dropped.
    pub(super) fn stop_on_drop(&self) -> DropGuard {
        self.stop.clone().drop_guard()
    }

    pub(super) async fn stop(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }

    async fn announce_to_all(&self, announcement: &McpServersIndexed) {
        for agent in &self.agents {
            let _ = self.announce(agent, announcement).await;
        }
        let askers = self.askers.lock().clone();
        for agent in askers {
            if let Err(PublishError::Unroutable(_)) = self.announce(&agent, announcement).await {
                self.askers.lock().retain(|other| *other != agent);
            }
        }
    }

    async fn announce(
        &self,
        agent: &AgentName,
        announcement: &McpServersIndexed,
    ) -> Result<(), PublishError> {
        let envelope = Envelope::of(announcement, self.source.as_str())
            .with_header(header::CONTENT_TRUST, "system");
        let published = self.bus.publish(&topic::tool_meta_mcp(agent), envelope).await;

        match &published {
            Ok(()) => {}
            // The agent is not there yet; it asks when it comes.
            Err(PublishError::Unroutable(_)) => {
                tracing::debug!(%agent, "agent is not running; it asks for servers when it starts")
            }
            Err(error) => tracing::warn!(%agent, %error, "could not announce servers to an agent"),
        }

        published
    }

    /// Announces every server to one agent. It takes what it hears as changes, so that it may
    /// hear it in several messages.
    async fn announce_everything(&self, agent: &AgentName) {
        let servers = self.set.list().into_iter().filter_map(|status| status.summary).collect();
        for announcement in split_announcements(servers, self.bytes_max) {
            if let Err(PublishError::Unroutable(_)) = self.announce(agent, &announcement).await {
                return;
            }
        }
    }

    fn remember_asker(&self, source: &str) -> Option<AgentName> {
        let agent = AgentName::parse(source).ok()?;
        if !self.agents.contains(&agent) {
            let mut askers = self.askers.lock();
            askers.retain(|other| *other != agent);
            if askers.len() >= ASKERS_MAX {
                askers.remove(0);
            }
            askers.push(agent.clone());
        }
        Some(agent)
    }

    pub(super) async fn handle_refresh(self: Arc<Self>, envelope: Envelope) -> Disposition {
        let request = match json::read::<McpMetadataRefreshRequest>(&envelope.body) {
            Ok(request) => request,
            Err(error) => {
                return Disposition::DeadLetter { reason: error.to_string().into() };
            }
        };

        // What is known goes out at once; what listing again brings to light follows as a change.
        if let Some(agent) = self.remember_asker(&envelope.source) {
            self.announce_everything(&agent).await;
        } else {
            tracing::info!(
                source = envelope.source,
                "refresh request whose source is not an agent"
            );
        }

        let Ok(place) = Arc::clone(&self.refreshes).try_acquire_owned() else {
            tracing::debug!(source = envelope.source, "servers are listed again already");
            return Disposition::Ack;
        };

        let this = Arc::clone(&self);
        self.tasks.spawn(async move {
            tokio::select! {
                () = this.set.refresh(request.server_name.as_deref()) => {}
                () = this.stop.cancelled() => {}
            }
            drop(place);
        });

        Disposition::Ack
    }
}

/// As few announcements as hold these servers, each of at most `bytes_max` bytes. There is one of
/// no server, too: an agent that asks wants to know that. A server that is over the limit by itself
/// is in one of its own, so that it keeps back no other.
fn split_announcements(servers: Vec<McpServerSummary>, bytes_max: usize) -> Vec<McpServersIndexed> {
    let mut last = McpServersIndexed::default();
    let empty = json::write(&last).len();
    let mut full = Vec::new();
    let mut bytes = empty;

    for server in servers {
        let text = serde_json::to_vec(&server).expect("a summary has only string keys");
        // With a comma.
        let more = text.len() + 1;
        if bytes + more > bytes_max && !last.servers.is_empty() {
            full.push(std::mem::take(&mut last));
            bytes = empty;
        }

        bytes += more;
        last.servers.push(server);
    }

    full.push(last);
    full
}

fn announcement_of(change: Change) -> McpServersIndexed {
    match change {
        Change::Listed(summary) => {
            McpServersIndexed { servers: vec![summary], removed_servers: Vec::new() }
        }
        Change::Removed(name) => {
            McpServersIndexed { servers: Vec::new(), removed_servers: vec![name] }
        }
    }
}

#[cfg(test)]
mod tests;
