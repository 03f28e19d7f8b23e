//! What users and agents say to each other.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::Message;

/// A user says something.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UserMessage {
    /// What is said.
    pub content: String,
    /// The conversation.
    pub session_id: String,
    /// Who says it.
    pub user_id: String,
    /// The one agent that is meant.
    pub target_agent: Option<String>,
}

impl Message for UserMessage {
    const TYPE: &'static str = "RockBot.UserProxy.UserMessage";
}

/// An agent answers a user.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentReply {
    /// What is said.
    pub content: String,
    /// The conversation.
    pub session_id: String,
    /// Who says it.
    pub agent_name: String,
    /// Whether no more of this answer follows.
    #[serde(default = "final_default", deserialize_with = "final_or_default")]
    pub is_final: bool,
    /// The answer as data, passed on as it is.
    pub structured_data: Option<Value>,
    /// What the content is.
    pub content_type: Option<String>,
}

impl Message for AgentReply {
    const TYPE: &'static str = "RockBot.UserProxy.AgentReply";
}

/// A user likes an answer or not.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UserFeedback {
    /// The conversation.
    pub session_id: String,
    /// The answer that is meant.
    pub message_id: String,
    /// Whether the user likes it.
    pub is_positive: bool,
    /// Whose answer it is.
    pub agent_name: Option<String>,
}

impl Message for UserFeedback {
    const TYPE: &'static str = "RockBot.UserProxy.UserFeedback";
}

/// Asks an agent for a conversation so far.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConversationHistoryRequest {
    /// The conversation.
    pub session_id: String,
}

impl Message for ConversationHistoryRequest {
    const TYPE: &'static str = "RockBot.UserProxy.ConversationHistoryRequest";
}

/// A conversation so far.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConversationHistoryResponse {
    /// What was said, in order.
    pub turns: Vec<ConversationTurn>,
}

impl Message for ConversationHistoryResponse {
    const TYPE: &'static str = "RockBot.UserProxy.ConversationHistoryResponse";
}

/// One turn of a conversation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConversationTurn {
    /// Who said it: `user` or `assistant`.
    pub role: String,
    /// What was said.
    pub content: String,
    /// When: ISO 8601 text with an offset, kept as it came.
    pub timestamp: String,
}

const fn final_default() -> bool {
    true
}

fn final_or_default<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or(true))
}
