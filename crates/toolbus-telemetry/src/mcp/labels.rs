//! The attributes of metric points whose values others make up.

use opentelemetry::{KeyValue, StringValue};
use smallvec::SmallVec;

use super::{PROTOCOL, SERVER, TOOL};
use crate::Bounded;

/// Most MCP servers that are told apart.
const SERVERS_MAX: usize = 200;
/// Most tools that are told apart.
const TOOLS_MAX: usize = 500;
/// Most revisions of the protocol that are told apart: peers name the one they speak.
const PROTOCOLS_MAX: usize = 16;
/// Most error codes that are told apart: servers make up their own.
const CODES_MAX: usize = 50;

/// The attributes of a point. None has more.
pub type Tags = SmallVec<[KeyValue; 8]>;

/// Attributes with a bounded number of values each.
#[derive(Debug)]
pub struct Labels {
    servers: Bounded,
    tools: Bounded,
    protocols: Bounded,
    codes: Bounded,
}

impl Default for Labels {
    fn default() -> Self {
        Self {
            servers: Bounded::new(SERVERS_MAX),
            tools: Bounded::new(TOOLS_MAX),
            protocols: Bounded::new(PROTOCOLS_MAX),
            codes: Bounded::new(CODES_MAX),
        }
    }
}

impl Labels {
    /// An MCP server of the fleet.
    #[must_use]
    pub fn server(&self, name: &str) -> KeyValue {
        KeyValue::new(SERVER, self.servers.value(name))
    }

    /// A tool that its server lists.
    #[must_use]
    pub fn tool(&self, name: &str) -> KeyValue {
        KeyValue::new(TOOL, self.tools.value(name))
    }

    /// A revision of the protocol.
    #[must_use]
    pub fn protocol(&self, revision: &str) -> KeyValue {
        KeyValue::new(PROTOCOL, self.protocols.value(revision))
    }

    /// An error code of JSON-RPC, which two attributes have.
    #[must_use]
    pub fn code(&self, code: &str) -> StringValue {
        self.codes.value(code)
    }
}
