//! What users say to an agent, and what it answers.

use serde::{Deserialize, Serialize};

use super::{Message, field};

/// A user says something, which begins a turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UserMessage {
    /// The text.
    pub content: String,
    /// The session that it is said in.
    pub session_id: String,
    /// Who says it, as the sender knows them.
    pub user_id: String,
    /// The one agent that is meant. `None`: whoever hears it.
    pub target_agent: Option<String>,
}

impl Message for UserMessage {
    const TYPE: &'static str = "RockBot.UserProxy.UserMessage";
}

/// What an agent answers. Its correlation is that of the [`UserMessage`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentReply {
    /// The text.
    pub content: String,
    /// The session that it is said in.
    pub session_id: String,
    /// The agent.
    pub agent_name: String,
    /// Whether the turn is over. What comes before that is told while the agent works.
    #[serde(default = "is_final_default")]
    pub is_final: bool,
    /// Data beside the text, as JSON text.
    pub structured_data: Option<String>,
    /// The media type of the text.
    pub content_type: Option<String>,
}

fn is_final_default() -> bool {
    true
}

impl Message for AgentReply {
    const TYPE: &'static str = "RockBot.UserProxy.AgentReply";
}

/// What a user thinks of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UserFeedback {
    /// The session of the answer.
    pub session_id: String,
    /// The message id of the answer.
    pub message_id: String,
    /// Whether it was of use.
    pub is_positive: bool,
    /// The agent that answered.
    pub agent_name: Option<String>,
}

impl Message for UserFeedback {
    const TYPE: &'static str = "RockBot.UserProxy.UserFeedback";
}

/// Asks what was said in a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConversationHistoryRequest {
    /// The session.
    pub session_id: String,
}

impl Message for ConversationHistoryRequest {
    const TYPE: &'static str = "RockBot.UserProxy.ConversationHistoryRequest";
}

/// What was said in a session, the oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConversationHistoryResponse {
    /// What each side said.
    #[serde(default, deserialize_with = "field::or_default")]
    pub turns: Vec<ConversationTurn>,
}

impl Message for ConversationHistoryResponse {
    const TYPE: &'static str = "RockBot.UserProxy.ConversationHistoryResponse";
}

/// Something that was said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConversationTurn {
    /// Who said it: `user` or `assistant`.
    pub role: String,
    /// The text.
    pub content: String,
    /// When, as ISO 8601 with an offset.
    pub timestamp: String,
}
