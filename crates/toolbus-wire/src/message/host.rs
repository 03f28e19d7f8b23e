//! What happens inside an agent: subagents and scheduled tasks.
//!
//! A timestamp is ISO 8601 text with an offset and is kept as it came.

use serde::{Deserialize, Serialize};

use super::Message;

/// A subagent tells how far it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SubagentProgressMessage {
    /// Id of the subagent's task.
    pub task_id: String,
    /// Session of the subagent.
    pub subagent_session_id: String,
    /// Session that started it.
    pub primary_session_id: String,
    /// How far it is, in words.
    pub message: String,
    /// When it was said.
    pub timestamp: String,
}

impl Message for SubagentProgressMessage {
    const TYPE: &'static str = "RockBot.Host.SubagentProgressMessage";
}

/// A subagent tells its result.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SubagentResultMessage {
    /// Id of the subagent's task.
    pub task_id: String,
    /// Session of the subagent.
    pub subagent_session_id: String,
    /// Session that started it.
    pub primary_session_id: String,
    /// What it found.
    pub output: String,
    /// Whether it succeeded.
    pub is_success: bool,
    /// Why it did not.
    pub error: Option<String>,
    /// When it was said.
    pub timestamp: String,
}

impl Message for SubagentResultMessage {
    const TYPE: &'static str = "RockBot.Host.SubagentResultMessage";
}

/// A scheduled task is due. Never on the bus: the agent tells it to itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScheduledTaskMessage {
    /// Name of the task.
    pub task_name: String,
    /// What is to be done.
    pub description: String,
}

impl Message for ScheduledTaskMessage {
    const TYPE: &'static str = "RockBot.Host.ScheduledTaskMessage";
}
