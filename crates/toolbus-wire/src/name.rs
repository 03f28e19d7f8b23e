//! Names that become segments of topics and queues.
//!
//! They are checked once, here. A checked name holds no dot and no wildcard, so that a topic made
//! of it is always one topic, and never somebody else's.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize, Serializer};
use uuid::Uuid;

/// Longest name, in bytes.
pub const NAME_BYTES_MAX: usize = 64;

/// What the scripts manager calls itself: its source and the first part of its queue's name.
pub const SCRIPTS_MANAGER: &str = "scripts-manager";

/// Names that no agent may have: after `tool.meta.mcp.`, or `agent.task.` of the C# code, each
/// would be a topic that means something else.
const RESERVED_AGENT_NAMES: [&str; 4] = ["refresh", "status", "cancel", "mcp"];

/// Why a text is not a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The text is empty.
    #[error("a name is never empty")]
    Empty,
    /// The text is too long.
    #[error("a name has at most {NAME_BYTES_MAX} bytes, this one has {0}")]
    TooLong(usize),
    /// A character that would mean something in a topic, or might.
    #[error("a name has only letters and digits of ASCII, `_` and `-`")]
    Character,
    /// The name would make a topic that means something else.
    #[error("an agent is never called `refresh`, `status`, `cancel` or `mcp`")]
    Reserved,
}

macro_rules! name {
    ($(#[$attribute:meta])* $name:ident, $check:path) => {
        $(#[$attribute])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
        #[serde(try_from = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks `text` and takes it as a name.
            ///
            /// # Errors
            /// When it does not have the form described at the type.
            pub fn parse(text: impl AsRef<str>) -> Result<Self, Error> {
                let text = text.as_ref();
                $check(text)?;
                Ok(Self(text.into()))
            }

            /// The text of the name.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), &self.0)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = Error;
            fn from_str(text: &str) -> Result<Self, Error> {
                Self::parse(text)
            }
        }

        impl TryFrom<String> for $name {
            type Error = Error;
            fn try_from(text: String) -> Result<Self, Error> {
                Self::parse(text)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }
    };
}

name! {
    /// Name of an agent: 1 to 64 of `[A-Za-z0-9_-]`, and none of `refresh`, `status`, `cancel`,
    /// `mcp`.
    AgentName, check_agent_name
}

name! {
    /// What tells one process from the others that bear the same name: 1 to 64 of
    /// `[A-Za-z0-9_-]`.
    InstanceId, check_name
}

/// The name of an MCP server as a segment of topics: in lower case, since such names are compared
/// without regard to it, and with `~` for each dot and whatever else a segment does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpServerSegment(Box<str>);

impl McpServerSegment {
    /// The segment of this name, of which no more than 64 characters count.
    #[must_use]
    pub fn of(server: &str) -> Self {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let segment = server.chars().take(NAME_BYTES_MAX).map(|c| match c {
            plain if is_plain(plain) => plain.to_ascii_lowercase(),
            _ => '~',
        });
        Self(segment.collect())
    }

    /// The text of the segment.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl AgentName {
    /// The name of an agent that was given none: `RockBot`, as in the C# code.
    #[must_use]
    pub fn standard() -> Self {
        Self("RockBot".into())
    }
}

impl InstanceId {
    /// A fresh id: a GUID of 32 lower-case hexadecimal digits.
    #[must_use]
    pub fn random() -> Self {
        let mut buffer = Uuid::encode_buffer();
        Self((*Uuid::new_v4().simple().encode_lower(&mut buffer)).into())
    }
}

/// What the bridge of an agent calls itself: `mcp-bridge.{agent}`, its source and its subscription.
#[must_use]
pub fn mcp_bridge(agent: &AgentName) -> String {
    format!("mcp-bridge.{agent}")
}

fn check_name(text: &str) -> Result<(), Error> {
    match text.len() {
        0 => Err(Error::Empty),
        1..=NAME_BYTES_MAX => text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
            .then_some(())
            .ok_or(Error::Character),
        length => Err(Error::TooLong(length)),
    }
}

fn check_agent_name(text: &str) -> Result<(), Error> {
    check_name(text)?;
    if RESERVED_AGENT_NAMES.contains(&text) { Err(Error::Reserved) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
