//! Announcements of the bridge's servers to the agents that are interested.
//!
//! One task announces, and collects for a moment what there is to announce and who has asked. So
//! what happens at the same time is in one message, and an agent that asks without end has as many
//! answers as there are such moments.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::sleep;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use toolbus_bus::port::BODY_BYTES_MAX;
use toolbus_bus::{Bus, Disposition, Envelope, PublishError};
use toolbus_wire::message::mcp::{McpMetadataRefreshRequest, McpServerSummary, McpServersIndexed};
use toolbus_wire::name::{AgentName, InstanceId, McpServerSegment, NAME_BYTES_MAX};
use toolbus_wire::{header, json, topic};

use crate::server_pool::{Change, Changes, ServerPool};

/// Most agents that are remembered because they asked; the one that asked longest ago goes first.
const ASKERS_MAX: usize = 64;
/// How long changes and requests are collected before they are answered together.
const COLLECT_INTERVAL: Duration = Duration::from_millis(50);

/// Most bytes that the name of a bridge adds to an announcement.
const SIGNATURE_BYTES_MAX: usize = NAME_BYTES_MAX + 32;

/// The names that a bridge announces by.
pub(super) struct AnnouncerNames {
    /// The sender's.
    pub(super) source: String,
    /// The agent that the bridges are named after.
    pub(super) agent: AgentName,
    /// This bridge.
    pub(super) instance: InstanceId,
    /// The agents that hear of every change.
    pub(super) agents: Vec<AgentName>,
}

pub(super) struct Announcer {
    bus: Arc<dyn Bus>,
    set: ServerPool,
    source: String,
    agent: AgentName,
    instance: InstanceId,
    agents: Vec<AgentName>,
    /// Agents that have asked, the latest last. One whose queue no longer exists is forgotten.
    askers: Mutex<Vec<AgentName>>,
    /// Longest announcement of several servers, without the name of this bridge.
    bytes_max: usize,
    /// Agents that have asked and have no answer yet; [`ASKERS_MAX`] at most.
    unanswered: Mutex<Vec<AgentName>>,
    /// Notified when an agent has asked.
    asked: Notify,
    /// Notified when those that had asked are being answered.
    has_room: Notify,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Announcer {
    pub(super) fn new(bus: Arc<dyn Bus>, set: ServerPool, names: AnnouncerNames) -> Arc<Self> {
        let AnnouncerNames { source, agent, instance, agents } = names;
        Arc::new(Self {
            bus,
            set,
            source,
            agent,
            instance,
            agents,
            askers: Mutex::default(),
            bytes_max: BODY_BYTES_MAX - SIGNATURE_BYTES_MAX,
            unanswered: Mutex::default(),
            asked: Notify::new(),
            has_room: Notify::new(),
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
        })
    }

    /// Announces every change from now on, and what is there already, and answers agents that ask.
    pub(super) fn follow_changes(self: &Arc<Self>) {
        let this = Arc::clone(self);
        self.tasks.spawn(async move {
            let mut changes = this.set.changes();
            while let Some(collected) = this.collect_changes(&mut changes).await {
                // A broker that is away must not hold up the stop; whoever comes later asks.
                let announcing = this.announce_collected(collected);
                if this.stop.run_until_cancelled(announcing).await.is_none() {
                    return;
                }
            }
        });
    }

    /// Waits for a change or a request, and collects the changes that come right after. `None` when
    /// there is nothing more to announce.
    async fn collect_changes(&self, changes: &mut Changes) -> Option<Vec<Change>> {
        let mut collected = Vec::new();
        // Every arm only waits.
        tokio::select! {
            change = changes.next() => collected.push(change?),
            () = self.asked.notified() => {}
            () = self.stop.cancelled() => return None,
        }

        self.stop.run_until_cancelled(sleep(COLLECT_INTERVAL)).await?;
        collected.extend(std::iter::from_fn(|| changes.try_next()));
        Some(collected)
    }

    async fn announce_collected(&self, mut changes: Vec<Change>) {
        for change in &mut changes {
            if let Change::Listed(summary) = change {
                self.add_topic(summary);
            }
        }

        for announcement in announcements_of(changes, self.bytes_max) {
            self.announce_to_all(&self.signed(announcement)).await;
        }

        // Taken after the changes: what comes now is in the answer, or announced after it.
        let unanswered = std::mem::take(&mut *self.unanswered.lock());
        self.has_room.notify_waiters();
        for agent in unanswered {
            self.announce_everything(&agent).await;
        }
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
        let mut servers = self.set.owned_summaries();
        servers.iter_mut().for_each(|summary| self.add_topic(summary));
        for announcement in split_announcements(servers, self.bytes_max) {
            let announcement = self.signed(announcement);
            if let Err(PublishError::Unroutable(_)) = self.announce(agent, &announcement).await {
                return;
            }
        }
    }

    /// Adds to a summary where requests to the server go.
    fn add_topic(&self, summary: &mut McpServerSummary) {
        let segment = McpServerSegment::of(&summary.server_name);
        summary.request_topic = Some(topic::mcp_server(&self.agent, &segment));
    }

    /// The announcement with the name of this bridge.
    fn signed(&self, announcement: McpServersIndexed) -> McpServersIndexed {
        McpServersIndexed { bridge: Some(self.instance.to_string()), ..announcement }
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

        if request.bridge.as_deref() == Some(self.instance.as_str()) {
            return Disposition::Ack;
        }

        // What is known goes out soon; what listing again brings to light follows as a change.
        if let Some(agent) = self.remember_asker(&envelope.source) {
            self.add_unanswered(agent).await;
        } else {
            tracing::info!(
                source = envelope.source,
                "refresh request whose source is not an agent"
            );
        }

        if request.bridge.is_none() {
            self.set.request_refresh(request.server_name.as_deref());
        }
        Disposition::Ack
    }

    /// Has an agent answered, once for all that it has asked until then. Waits while too many
    /// others have no answer yet.
    async fn add_unanswered(&self, agent: AgentName) {
        loop {
            let has_room = self.has_room.notified();
            {
                let mut unanswered = self.unanswered.lock();
                if unanswered.contains(&agent) {
                    return;
                }
                if unanswered.len() < ASKERS_MAX {
                    unanswered.push(agent);
                    self.asked.notify_one();
                    return;
                }
            }
            has_room.await;
        }
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

/// Announcements of these changes. What came last of a server counts, and is in one of them only,
/// so that their order does not matter.
fn announcements_of(changes: Vec<Change>, bytes_max: usize) -> Vec<McpServersIndexed> {
    let mut listed: Vec<McpServerSummary> = Vec::new();
    let mut removed_servers: Vec<String> = Vec::new();
    for change in changes {
        let name = match &change {
            Change::Listed(summary) => &summary.server_name,
            Change::Removed(name) => name,
        };
        listed.retain(|summary| summary.server_name != *name);
        removed_servers.retain(|removed| removed != name);
        match change {
            Change::Listed(summary) => listed.push(summary),
            Change::Removed(name) => removed_servers.push(name),
        }
    }

    let mut announcements = Vec::new();
    if !removed_servers.is_empty() {
        announcements.push(McpServersIndexed { removed_servers, ..McpServersIndexed::default() });
    }
    if !listed.is_empty() {
        announcements.extend(split_announcements(listed, bytes_max));
    }
    announcements
}

#[cfg(test)]
mod tests;
