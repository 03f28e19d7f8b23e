//! What is pinned of a server, and how people name it.

use std::fmt;

use super::findings::quote_name;

/// Something that a server says about itself and that is pinned.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum PinnedItem {
    /// The definition of a tool of this name.
    Tool(String),
    /// What a prompt of this name says of itself.
    Prompt(String),
    /// Its name, title and description, and its instructions.
    Introduction,
}

impl PinnedItem {
    /// The arguments after the server's name that name it to `mcp-bridge accept`.
    #[must_use]
    pub fn arguments(&self) -> String {
        match self {
            Self::Tool(name) => name.escape_debug().to_string(),
            Self::Prompt(name) => format!("--prompt {}", quote_name(name)),
            Self::Introduction => "--introduction".to_owned(),
        }
    }
}

/// As it stands in the middle of a sentence about its server.
impl fmt::Display for PinnedItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tool(name) => write!(f, "tool {}", quote_name(name)),
            Self::Prompt(name) => write!(f, "prompt {}", quote_name(name)),
            Self::Introduction => f.write_str("its introduction"),
        }
    }
}
