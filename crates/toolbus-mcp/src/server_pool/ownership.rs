//! Which servers of a pool are this bridge's to run.

use std::num::NonZeroU16;
use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::timeout;
use toolbus_wire::message::mcp::McpServerSummary;

use super::{REMOVE_GRACE, ServerPool};
use crate::server::{LOOKUPS_PER_SERVER_MAX, SUBSCRIPTIONS_PER_SERVER_MAX, Server};
use crate::server_name::ServerName;

/// Which bridge has a server.
pub(crate) enum Whereabouts {
    /// This one.
    Here,
    /// Another, which has the server of this name.
    Elsewhere(ServerName),
    /// There is no such server in the list of this bridge.
    Unknown,
}

impl ServerPool {
    /// Which bridge has the server that a name means.
    pub(crate) fn find_whereabouts(&self, server: &str) -> Whereabouts {
        whereabouts_of(self.shared_router().find_server(server).ok())
    }

    /// Which bridge has the server that a tool is called of whose call names none.
    pub(crate) fn find_whereabouts_of_tool(&self, tool: &str) -> Whereabouts {
        let route = self.shared_router().find_route(None, tool);
        whereabouts_of(route.ok().map(|route| route.server))
    }

    /// Whether a server is run only while this bridge has been elected for it.
    pub(crate) fn elects_owners(&self) -> bool {
        self.0.context.options.elects_owners
    }

    /// How many requests of one server are handled at a time, of every kind together.
    pub(crate) fn requests_per_server_max(&self) -> NonZeroU16 {
        let calls = self.0.context.options.calls_per_server_max;
        let calls = u16::try_from(calls).unwrap_or(u16::MAX);
        let others = LOOKUPS_PER_SERVER_MAX + SUBSCRIPTIONS_PER_SERVER_MAX;
        NonZeroU16::new(calls.saturating_add(others)).unwrap_or(NonZeroU16::MAX)
    }

    /// Changes whenever there may be another list of servers.
    pub(crate) fn change_signal(&self) -> watch::Receiver<()> {
        self.0.context.change_signal.subscribe()
    }

    /// The names of the servers that are not disabled.
    pub(crate) fn enabled_names(&self) -> Vec<ServerName> {
        let servers = self.0.roster.list();
        let enabled = servers.iter().filter(|server| !server.entry.is_disabled());
        enabled.map(|server| server.entry.name.clone()).collect()
    }

    /// The summaries, for agents, of the servers that are this bridge's to run.
    pub(crate) fn owned_summaries(&self) -> Vec<McpServerSummary> {
        let servers = self.0.roster.list();
        let owned = servers.iter().filter(|server| server.ownership.is_owned());
        owned.filter_map(|server| server.summary()).collect()
    }

    /// Whether a server is this bridge's to run.
    pub(crate) fn owns(&self, name: &ServerName) -> bool {
        self.0.context.ownerships.of(name).is_owned()
    }

    /// The server is this bridge's to run from now on.
    pub(crate) fn own(&self, name: &ServerName) {
        self.0.context.ownerships.of(name).take();
        self.0.context.announce();
    }

    /// The server is another's: calls that run on it may go on for a while, then its connection is
    /// closed.
    pub(crate) async fn release(&self, name: &ServerName) {
        if let Some(server) = self.0.roster.find(name.as_str()) {
            let _ = timeout(REMOVE_GRACE, server.wait_idle()).await;
        }
        self.0.context.ownerships.of(name).give_up();
        self.0.context.announce();
    }

    /// Forgets whose a server is that there is no more.
    pub(crate) fn forget_ownership(&self, name: &ServerName) {
        self.0.context.ownerships.forget(name);
    }
}

fn whereabouts_of(server: Option<Arc<Server>>) -> Whereabouts {
    match server {
        Some(server) if server.ownership.is_owned() || server.entry.is_disabled() => {
            Whereabouts::Here
        }
        Some(server) => Whereabouts::Elsewhere(server.entry.name.clone()),
        None => Whereabouts::Unknown,
    }
}
