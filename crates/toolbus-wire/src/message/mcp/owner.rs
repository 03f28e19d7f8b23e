//! Which bridge has an MCP server.

use serde::{Deserialize, Serialize};

use crate::Message;

/// Toolbus extension: says which bridge has a server. It lies in a queue that one bridge has at a
/// time, and whoever is handed it may have the server: it takes the message for one of its own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct McpServerOwner {
    /// The bridge's instance. Absent where a bridge only stands for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
}

impl Message for McpServerOwner {
    const TYPE: &'static str = "Toolbus.McpServerOwner";
}
