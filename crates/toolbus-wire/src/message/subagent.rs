//! What subagents say of their work, for whoever listens.

use serde::{Deserialize, Serialize};

use super::Message;

/// A subagent tells how its work is going.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SubagentProgressMessage {
    /// Id of the subagent.
    pub task_id: String,
    /// The session that it works in.
    pub subagent_session_id: String,
    /// The session that it was spawned in.
    pub primary_session_id: String,
    /// What it says.
    pub message: String,
    /// When, by ISO 8601.
    pub timestamp: String,
}

impl Message for SubagentProgressMessage {
    const TYPE: &'static str = "RockBot.Host.SubagentProgressMessage";
}

/// A subagent has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SubagentResultMessage {
    /// Id of the subagent.
    pub task_id: String,
    /// The session that it worked in.
    pub subagent_session_id: String,
    /// The session that it was spawned in.
    pub primary_session_id: String,
    /// Its answer, as far as it came.
    pub output: String,
    /// Whether it has done its work.
    pub is_success: bool,
    /// Why not.
    pub error: Option<String>,
    /// When, by ISO 8601.
    pub timestamp: String,
}

impl Message for SubagentResultMessage {
    const TYPE: &'static str = "RockBot.Host.SubagentResultMessage";
}
