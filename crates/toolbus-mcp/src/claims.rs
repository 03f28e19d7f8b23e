//! Claims on tool names, for calls that name no server: the server that had a name first keeps it,
//! even if others list it later.
//!
//! A lookup is one access to a hash map, however many servers there are.

use std::collections::HashMap;

use parking_lot::RwLock;

use crate::server_name::ServerName;

/// The position of a server's name among those of one pool, in the order of the configuration. It
/// goes from a server to the one that replaces it.
pub(crate) type Position = u64;

/// The claims of all servers on names of tools.
#[derive(Debug, Default)]
pub(crate) struct Claims(RwLock<ClaimIndex>);

#[derive(Debug, Default)]
struct ClaimIndex {
    /// Claims on each name, the oldest first.
    by_tool: HashMap<Box<str>, Vec<Claim>>,
    by_server: HashMap<Position, Vec<Box<str>>>,
    positions: HashMap<ServerName, Position>,
    next: Position,
}

/// When the name was first seen, in Unix milliseconds, and then the order of the servers.
type Claim = (u64, Position);

impl Claims {
    /// The position of a server's name: the one that it has, or the next.
    pub(crate) fn position(&self, server: &ServerName) -> Position {
        let mut inner = self.0.write();
        if let Some(known) = inner.positions.get(server) {
            return *known;
        }
        let position = inner.next;
        inner.next += 1;
        inner.positions.insert(server.clone(), position);
        position
    }

    /// Puts these in the place of all claims of one server.
    pub(crate) fn set(&self, server: Position, tools: Vec<(Box<str>, u64)>) {
        let mut inner = self.0.write();
        inner.release(server);
        for (tool, since_ms) in &tools {
            let claims = inner.by_tool.entry(tool.clone()).or_default();
            let claim = (*since_ms, server);
            claims.insert(claims.partition_point(|other| *other < claim), claim);
        }
        inner.by_server.insert(server, tools.into_iter().map(|(tool, _)| tool).collect());
    }

    /// Forgets a server, and its position.
    pub(crate) fn release(&self, server: Position) {
        let mut inner = self.0.write();
        inner.release(server);
        inner.positions.retain(|_, position| *position != server);
    }

    /// The server that has the name.
    pub(crate) fn owner(&self, tool: &str) -> Option<Position> {
        self.0.read().by_tool.get(tool)?.first().map(|(_, server)| *server)
    }

    /// Names that a server lists and another has, with that other.
    pub(crate) fn name_clashes(&self, server: Position) -> Vec<(Box<str>, Position)> {
        let inner = self.0.read();
        let tools = inner.by_server.get(&server).into_iter().flatten();
        let first = |tool: &str| inner.by_tool.get(tool)?.first().map(|(_, owner)| *owner);
        let mut clashes: Vec<_> = tools
            .filter_map(|tool| Some((tool.clone(), first(tool).filter(|owner| *owner != server)?)))
            .collect();
        clashes.sort_unstable();
        clashes
    }
}

impl ClaimIndex {
    fn release(&mut self, server: Position) {
        for tool in self.by_server.remove(&server).into_iter().flatten() {
            if let Some(claims) = self.by_tool.get_mut(&tool) {
                claims.retain(|(_, other)| *other != server);
                if claims.is_empty() {
                    self.by_tool.remove(&tool);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
