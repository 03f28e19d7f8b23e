//! The servers that other bridges have announced, for a bridge that is asked about them.

use toolbus_wire::message::mcp::McpServersIndexed;
use toolbus_wire::name::InstanceId;
use toolbus_wire::{Envelope, Topic, json, message};

use crate::index::Index;

/// The servers that other bridges have announced to an agent.
pub struct AnnouncedServers {
    index: Index,
    /// The bridge that listens.
    own: InstanceId,
}

impl AnnouncedServers {
    /// None yet, for this bridge.
    #[must_use]
    pub fn new(own: InstanceId) -> Self {
        Self { index: Index::default(), own }
    }

    /// Takes in what an agent is told. Anything but an announcement is passed over.
    pub fn take(&self, envelope: &Envelope) {
        if !message::is::<McpServersIndexed>(envelope) {
            return;
        }
        match json::read(&envelope.body) {
            Ok(announcement) => self.apply(announcement),
            Err(error) => tracing::warn!(%error, "dropped a malformed announcement"),
        }
    }

    fn apply(&self, mut announcement: McpServersIndexed) {
        if announcement.bridge.as_deref() == Some(self.own.as_str()) {
            // What is the bridge's own is no other's.
            let own = announcement.servers.drain(..).map(|server| server.server_name);
            announcement.removed_servers.extend(own);
        }
        self.index.apply(announcement, |_| {});
    }

    /// The topic that takes the requests to a server, by its exact name in any case.
    #[must_use]
    pub fn request_topic(&self, server: &str) -> Option<Topic> {
        self.index.request_topic(server)
    }

    /// The topic that takes the requests to the server that lists a tool of this name: the one that
    /// was announced first.
    #[must_use]
    pub fn topic_of_tool(&self, tool: &str) -> Option<Topic> {
        let servers = self.index.servers();
        let server =
            servers.iter().find(|server| server.tool_names.iter().any(|name| name == tool))?;
        self.index.request_topic(&server.server_name)
    }
}
