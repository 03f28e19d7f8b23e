//! The index: the servers that bridges have announced.
//!
//! It is a copy, and announcements are changes. While the broker is away none arrive, so afterwards
//! what is known is unconfirmed until its bridge announces it again. A server whose bridge does not
//! is away: it stays in the index, so that its tools keep their names and their places.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;
use toolbus_tools::call::CallError;
use toolbus_wire::message::mcp::{McpServerSummary, McpServersIndexed};
use toolbus_wire::name::{AgentName, McpServerSegment};
use toolbus_wire::{ErrorCode, Topic, topic};

use crate::method_name::is_method_name;
use crate::resolve::find_exact_server;
use crate::server_name::{LENGTH_MAX, RESERVED, imitates_others};

/// Most servers that are known; a bridge that announces more is not believed.
const SERVERS_MAX: usize = 1_000;
/// Most memory that the summaries of all servers may take together, in bytes, about: some hundred
/// thousand tools. A bridge that announces more is not believed either.
const SUMMARIES_BYTES_MAX: usize = 64 << 20;
/// Maximum number of bridges of other agents that are remembered.
const FOREIGN_BRIDGES_MAX: usize = 256;
/// Maximum length of the id of such a bridge, in bytes.
const BRIDGE_BYTES_MAX: usize = 256;
/// Why a server cannot be reached whose bridge is away.
const BRIDGE_AWAY: &str = "its bridge has not been heard of since the broker was away";

/// The servers of one moment, in the order of their first announcement. Clones are the same.
pub type Servers = Arc<Vec<McpServerSummary>>;

#[derive(Default)]
pub(crate) struct Index {
    /// The agent whose bridges take precedence over those of other agents. `None`: no precedence.
    agent: Option<AgentName>,
    known: Mutex<KnownServers>,
    /// Whether any announcement has come, be it of no server at all.
    heard: AtomicBool,
    changed: Notify,
}

#[derive(Default)]
struct KnownServers {
    servers: Servers,
    /// By their names, as [`key_of`] has them.
    announced: HashMap<String, Announced>,
    /// Ids of bridges of other agents, the most recent last.
    foreign_bridges: VecDeque<String>,
    /// Grows with everything that changes.
    revision: u64,
    /// Grows whenever announcements may have been missed.
    generation: u64,
}

/// When a server was announced.
#[derive(Debug, Clone, Copy)]
struct Announced {
    revision: u64,
    generation: u64,
    is_away: bool,
    /// What its summary takes in memory.
    bytes: usize,
}

/// A server as who follows the index needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IndexedServer {
    pub(crate) name: String,
    /// The revision that it was announced by.
    pub(crate) announced: u64,
    /// Its bridge is away.
    pub(crate) is_away: bool,
    /// Its bridge has said that it cannot be reached now, and announces it anew when it can.
    pub(crate) is_unavailable: bool,
}

impl Index {
    /// Creates the index of this agent. A server of the agent's own bridges stays with them when a
    /// bridge of another agent announces the same name: the other bridge may be about to stop.
    pub(crate) fn of(agent: AgentName) -> Self {
        Self { agent: Some(agent), ..Self::default() }
    }

    /// Takes an announcement in: removals first, then what is new or has changed. Names are alike
    /// without regard to case. A server whose tools would have ids as others have is passed over.
    /// `follow` sees what is known then, before anybody who waits does.
    pub(crate) fn apply(
        &self,
        mut announcement: McpServersIndexed,
        follow: impl FnOnce(&[McpServerSummary]),
    ) {
        leave_out_imitations(&mut announcement);
        leave_out_methods(&mut announcement);
        let mut known = self.known.lock();
        known.revision += 1;
        known.take_in(announcement, self.agent.as_ref());
        follow(&known.servers);
        drop(known);

        self.heard.store(true, Ordering::Release);
        self.changed.notify_waiters();
    }

    /// Announcements may have been missed: what is known has to be confirmed from now on.
    pub(crate) fn begin_generation(&self) {
        self.known.lock().generation += 1;
    }

    /// Says of every server that was not confirmed that its bridge is away.
    pub(crate) fn sweep_unconfirmed(&self) {
        if self.known.lock().sweep() {
            self.changed.notify_waiters();
        }
    }

    pub(crate) fn has_heard(&self) -> bool {
        self.heard.load(Ordering::Acquire)
    }

    /// The servers as they are known now.
    pub(crate) fn servers(&self) -> Servers {
        Arc::clone(&self.known.lock().servers)
    }

    /// The topic that takes the requests to a server, by its exact name; `None` where its bridge
    /// takes none but RockBot's.
    pub(crate) fn request_topic(&self, server: &str) -> Option<Topic> {
        let topic = find_exact_server(&self.servers(), server)?.request_topic.clone();
        // Whoever announces must not have requests sent to somebody else.
        topic.filter(|topic| topic.template() == topic::MCP_SERVER_TEMPLATE)
    }

    /// The same, for who can do nothing without it.
    ///
    /// # Errors
    /// When there is no such server, or its bridge takes no requests but RockBot's.
    pub(crate) fn expect_request_topic(&self, server: &str) -> Result<Topic, CallError> {
        self.request_topic(server).ok_or_else(|| {
            let (code, what) = match find_exact_server(&self.servers(), server) {
                Some(_) => (ErrorCode::Unroutable, "has a bridge that takes no such requests"),
                None => (ErrorCode::ToolNotFound, "is not connected"),
            };
            CallError::new(code, format!("MCP server '{server}' {what}"))
        })
    }

    /// Which servers there are, and the revision that this is.
    pub(crate) fn list_indexed(&self) -> (Vec<IndexedServer>, u64) {
        let known = self.known.lock();
        let server = |summary: &McpServerSummary| {
            let name = summary.server_name.clone();
            let announced = known.announced.get(&key_of(&name));
            IndexedServer {
                name,
                announced: announced.map_or(0, |announced| announced.revision),
                is_away: announced.is_some_and(|announced| announced.is_away),
                is_unavailable: summary.unavailable.is_some(),
            }
        };
        (known.servers.iter().map(server).collect(), known.revision)
    }

    /// Whether the bridge of this server is known to be away.
    pub(crate) fn is_away(&self, server: &str) -> bool {
        let known = self.known.lock();
        known.announced.get(&key_of(server)).is_some_and(|known| known.is_away)
    }

    /// How much has changed in all.
    pub(crate) fn revision(&self) -> u64 {
        self.known.lock().revision
    }

    /// Has everybody who waits look again.
    pub(crate) fn wake_all(&self) {
        self.changed.notify_waiters();
    }

    /// Waits until there is a later revision than this.
    pub(crate) async fn wait_for_revision_after(&self, known: u64) {
        self.wait_until(|_| self.revision() > known).await;
    }

    /// Waits until this holds. It is asked without any lock, so it may look into the index itself.
    pub(crate) async fn wait_until(&self, is_enough: impl Fn(&[McpServerSummary]) -> bool) {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            // Listening must begin before the look, or a change between the two is missed.
            changed.as_mut().enable();
            if is_enough(&self.servers()) {
                return;
            }
            changed.await;
        }
    }
}

impl KnownServers {
    fn take_in(&mut self, announcement: McpServersIndexed, agent: Option<&AgentName>) {
        self.remember_foreign_bridge(&announcement, agent);
        self.remove(&announcement, agent);
        let servers = Arc::make_mut(&mut self.servers);
        let places = servers.iter().enumerate();
        let mut places: HashMap<String, usize> =
            places.map(|(at, server)| (key_of(&server.server_name), at)).collect();
        let mut bytes_in_all: usize = self.announced.values().map(|known| known.bytes).sum();
        let mut ignored = 0;
        for mut summary in announcement.servers {
            let key = key_of(&summary.server_name);
            let place = places.get(&key).copied();
            let is_reached = self.announced.get(&key).is_some_and(|known| !known.is_away);
            if let (Some(agent), Some(at)) = (agent, place.filter(|_| is_reached))
                && is_bridged_by(agent, &servers[at])
                && !is_bridged_by(agent, &summary)
            {
                continue;
            }

            if let Some(at) = place.filter(|_| summary.connecting) {
                // What it listed before is not gone, but for now it cannot be reached.
                summary = McpServerSummary {
                    connecting: true,
                    unavailable: summary.unavailable,
                    request_topic: summary.request_topic,
                    // Another server may have got the name.
                    operator_added: summary.operator_added,
                    ..servers[at].clone()
                };
            }

            let bytes = bytes_of(&summary);
            let bytes_of_others =
                bytes_in_all - self.announced.get(&key).map_or(0, |known| known.bytes);
            let has_place = place.is_some() || servers.len() < SERVERS_MAX;
            if !has_place || bytes_of_others + bytes > SUMMARIES_BYTES_MAX {
                ignored += 1;
                continue;
            }

            match place {
                Some(at) => servers[at] = summary,
                None => {
                    places.insert(key.clone(), servers.len());
                    servers.push(summary);
                }
            }
            bytes_in_all = bytes_of_others + bytes;
            let (revision, generation) = (self.revision, self.generation);
            self.announced.insert(key, Announced { revision, generation, is_away: false, bytes });
        }

        if ignored > 0 {
            tracing::warn!(
                bridge = announcement.bridge.as_deref(),
                ignored,
                "ignored announced servers: there are too many, or they list too much"
            );
        }
    }

    /// Remembers the bridge of an announcement if it serves requests to another agent.
    fn remember_foreign_bridge(
        &mut self,
        announcement: &McpServersIndexed,
        agent: Option<&AgentName>,
    ) {
        let (Some(agent), Some(bridge)) = (agent, &announcement.bridge) else { return };
        let is_foreign = |server: &McpServerSummary| {
            server.request_topic.is_some() && !is_bridged_by(agent, server)
        };
        let is_known = self.foreign_bridges.contains(bridge);
        if is_known || bridge.len() > BRIDGE_BYTES_MAX {
            return;
        }
        if !announcement.servers.iter().any(is_foreign) {
            return;
        }

        if self.foreign_bridges.len() == FOREIGN_BRIDGES_MAX {
            self.foreign_bridges.pop_front();
        }
        self.foreign_bridges.push_back(bridge.clone());
    }

    /// Removes servers that are gone. A bridge of another agent does not remove servers of the
    /// agent's own bridges. Another instance of an own bridge does: it may have been started again.
    fn remove(&mut self, announcement: &McpServersIndexed, agent: Option<&AgentName>) {
        if announcement.removed_servers.is_empty() {
            return;
        }
        let removed = announcement.removed_servers.iter().map(|name| key_of(name));
        let mut removed: HashSet<String> = removed.collect();
        let bridge = announcement.bridge.as_ref();
        let is_foreign = bridge.is_some_and(|bridge| self.foreign_bridges.contains(bridge));
        if let Some(agent) = agent.filter(|_| is_foreign) {
            for own in self.servers.iter().filter(|server| is_bridged_by(agent, server)) {
                removed.remove(&key_of(&own.server_name));
            }
        }

        let servers = Arc::make_mut(&mut self.servers);
        servers.retain(|server| !removed.contains(&key_of(&server.server_name)));
        self.announced.retain(|key, _| !removed.contains(key));
    }

    /// Answers whether anything has changed.
    fn sweep(&mut self) -> bool {
        let is_lost =
            |announced: &Announced| !announced.is_away && announced.generation < self.generation;
        let lost: Vec<String> = self
            .announced
            .iter_mut()
            .filter(|(_, announced)| is_lost(announced))
            .map(|(name, announced)| {
                announced.is_away = true;
                name.clone()
            })
            .collect();
        if lost.is_empty() {
            return false;
        }

        self.revision += 1;
        for server in Arc::make_mut(&mut self.servers) {
            if lost.contains(&key_of(&server.server_name)) {
                server.unavailable.get_or_insert_with(|| BRIDGE_AWAY.to_owned());
            }
        }
        true
    }
}

/// Returns true if a bridge of this agent serves the server.
fn is_bridged_by(agent: &AgentName, summary: &McpServerSummary) -> bool {
    let segment = McpServerSegment::of(&summary.server_name);
    summary.request_topic.as_ref() == Some(&topic::mcp_server(agent, &segment))
}

/// Leaves out servers whose tools would have ids as others have, with one warning for all of them:
/// whoever is on the bus can announce any name.
fn leave_out_imitations(announcement: &mut McpServersIndexed) {
    let names = announcement.servers.iter().map(|server| &server.server_name);
    let mut imitations = names.filter(|name| imitates_others(name));
    let Some(first) = imitations.next() else { return };
    let first: String = first.chars().take(LENGTH_MAX).collect();
    let left_out = 1 + imitations.count();
    announcement.servers.retain(|server| !imitates_others(&server.server_name));

    tracing::warn!(
        bridge = announcement.bridge.as_deref(),
        server = first,
        left_out,
        "passed over announced servers: no server is called {}, in any spelling, or has a '/' or a \
         control character in its name",
        RESERVED.join(" or ")
    );
}

/// Removes tools whose names are protocol methods, and logs one warning for all of them.
fn leave_out_methods(announcement: &mut McpServersIndexed) {
    let mut left_out = 0;
    let mut first = None;
    for server in &mut announcement.servers {
        let listed = server.tool_names.len();
        server.tool_names.retain(|tool| !is_method_name(tool));
        let removed = listed - server.tool_names.len();
        if removed == 0 {
            continue;
        }

        let count = u32::try_from(removed).unwrap_or(u32::MAX);
        server.tool_count = server.tool_count.saturating_sub(count);
        left_out += removed;
        first.get_or_insert(&server.server_name);
    }

    let Some(first) = first else { return };
    let first: String = first.chars().take(LENGTH_MAX).collect();
    tracing::warn!(
        bridge = announcement.bridge.as_deref(),
        server = first,
        left_out,
        "ignored announced tools: no tool has the name of a protocol method"
    );
}

/// What a server is known by: names are alike without regard to case.
fn key_of(name: &str) -> String {
    name.to_ascii_lowercase()
}

/// What a summary takes in memory, about: its texts, and a place for each.
fn bytes_of(summary: &McpServerSummary) -> usize {
    let texts = [
        &summary.display_name,
        &summary.summary,
        &summary.unavailable,
        &summary.server_id,
        &summary.fingerprint,
        &summary.version,
        &summary.identity_hash,
    ];
    let lists = [
        &summary.prompt_names,
        &summary.read_only_tools,
        &summary.idempotent_tools,
        &summary.destructive_tools,
    ];
    let digests = summary.tool_fingerprints.iter().flatten();
    let digests = digests.flat_map(|(tool, digest)| [tool, digest]);
    let timeouts = summary.timeouts.iter().flat_map(|timeouts| timeouts.tools_ms.keys());
    let features = summary.features.iter().flatten().map(|feature| feature.as_str());

    let texts = texts.into_iter().flatten().chain([&summary.server_name]);
    let texts = texts.chain(&summary.tool_names).chain(lists.into_iter().flatten().flatten());
    let texts = texts.chain(digests).chain(timeouts).map(String::as_str).chain(features);
    let bytes = texts.map(|text| size_of::<String>() + text.len());
    size_of::<McpServerSummary>() + bytes.sum::<usize>()
}

#[cfg(test)]
mod tests;
