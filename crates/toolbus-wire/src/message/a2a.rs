//! What agents say to each other: who they are, and tasks.

use std::fmt;

use serde::de::{Deserializer, Visitor};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};

use super::{Message, Secret, field};
use crate::json::{self, RawJson};

/// Toolbus extension, a logical header of a task: how many agents and scopes it has come through
/// already, so that agents that ask each other in a circle come to an end.
pub const DEPTH_HEADER: &str = "agent-depth";

/// Toolbus extension, a logical header of a task: the doors that it came through at the agents
/// before, such as `mcp,chain`.
pub const DOORS_HEADER: &str = "agent-doors";

/// The role of whoever asks, in a message.
pub const ROLE_USER: &str = "user";
/// The role of the agent that answers.
pub const ROLE_AGENT: &str = "agent";
/// The kind of a part that is text.
pub const KIND_TEXT: &str = "text";
/// The kind of a part that is data.
pub const KIND_DATA: &str = "data";

/// An agent says that it is there, and what it can do; or that it goes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentCard {
    /// The name that it is asked by.
    pub agent_name: String,
    /// What it is for.
    pub description: Option<String>,
    /// The version of it.
    pub version: Option<String>,
    /// What it can be asked for.
    pub skills: Option<Vec<AgentSkill>>,
    /// Whether it goes.
    #[serde(default, deserialize_with = "field::or_default")]
    pub is_deregistering: bool,
    /// Newer peers: where it is reached otherwise than over the bus.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Newer peers: the version of the protocol that is spoken there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol_version: Option<String>,
    /// Newer peers: the header that says who asks there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth_header_name: Option<String>,
    /// Newer peers: the value of that header, in base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth_header_value_base64: Option<Secret>,
}

impl Message for AgentCard {
    const TYPE: &'static str = "RockBot.A2A.AgentCard";
}

/// Toolbus extension: a process wants to know which agents there are. Each announces itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentDiscoveryRequest {
    /// The agent of that process.
    pub agent_name: String,
}

impl Message for AgentDiscoveryRequest {
    const TYPE: &'static str = "Toolbus.AgentDiscoveryRequest";
}

/// Something that an agent can be asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentSkill {
    /// What a task names it by.
    pub id: String,
    /// Its name before people.
    pub name: String,
    /// What it does.
    pub description: Option<String>,
    /// Words that it is found by.
    pub tags: Option<Vec<String>>,
    /// What it may be asked.
    pub examples: Option<Vec<String>>,
}

/// A message of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentMessage {
    /// Who says it: [`ROLE_USER`] or [`ROLE_AGENT`].
    pub role: String,
    /// What is said.
    pub parts: Vec<AgentMessagePart>,
    /// Newer peers: what else is known of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<RawJson>,
}

/// A part of a message or of an artifact.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentMessagePart {
    /// [`KIND_TEXT`], [`KIND_DATA`], or what a newer peer has.
    pub kind: String,
    /// Its text.
    pub text: Option<String>,
    /// Its data, such as JSON, as a text.
    pub data: Option<String>,
    /// The media type of it.
    pub mime_type: Option<String>,
}

/// Asks an agent to do something. Its correlation is the id of the task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentTaskRequest {
    /// Id of the task, any text. Ours are GUIDs.
    pub task_id: String,
    /// What the task belongs to.
    pub context_id: Option<String>,
    /// The id of the skill that is asked for.
    pub skill: String,
    /// What is to be done.
    pub message: AgentMessage,
}

impl Message for AgentTaskRequest {
    const TYPE: &'static str = "RockBot.A2A.AgentTaskRequest";
}

/// An agent says how a task is going.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentTaskStatusUpdate {
    /// Id of the task.
    pub task_id: String,
    /// What the task belongs to.
    pub context_id: Option<String>,
    /// How it is going.
    pub state: AgentTaskState,
    /// What there is to say of that.
    pub message: Option<AgentMessage>,
}

impl Message for AgentTaskStatusUpdate {
    const TYPE: &'static str = "RockBot.A2A.AgentTaskStatusUpdate";
}

/// What came of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentTaskResult {
    /// Id of the task.
    pub task_id: String,
    /// What the task belongs to.
    pub context_id: Option<String>,
    /// How it ended.
    pub state: AgentTaskState,
    /// What was made.
    pub artifacts: Option<Vec<AgentArtifact>>,
    /// What the agent says.
    pub message: Option<AgentMessage>,
}

impl Message for AgentTaskResult {
    const TYPE: &'static str = "RockBot.A2A.AgentTaskResult";
}

/// Something that an agent made for a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentArtifact {
    /// Its name.
    pub name: String,
    /// What it is.
    pub description: Option<String>,
    /// What is in it.
    pub parts: Vec<AgentMessagePart>,
}

/// Why nothing came of a task, or why it was not cancelled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentTaskError {
    /// Id of the task.
    pub task_id: String,
    /// What the task belongs to.
    pub context_id: Option<String>,
    /// Which error it is.
    pub code: AgentErrorCode,
    /// What went wrong, in words.
    pub message: String,
    /// Whether it may go well when it is tried again.
    #[serde(default, deserialize_with = "field::or_default")]
    pub is_retryable: bool,
}

impl Message for AgentTaskError {
    const TYPE: &'static str = "RockBot.A2A.AgentTaskError";
}

/// Asks an agent to give a task up. Its correlation is the id of the task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentTaskCancelRequest {
    /// Id of the task.
    pub task_id: String,
    /// What the task belongs to.
    pub context_id: Option<String>,
}

impl Message for AgentTaskCancelRequest {
    const TYPE: &'static str = "RockBot.A2A.AgentTaskCancelRequest";
}

text_enum! {
    /// Why a task has no result. On the wire it is the `code` of an [`AgentTaskError`].
    pub enum AgentErrorCode {
        /// The agent has no task of that id.
        TaskNotFound = "task_not_found",
        /// The task goes on, or has ended already.
        TaskNotCancelable = "task_not_cancelable",
        /// The agent cannot be asked for that.
        SkillNotSupported = "skill_not_supported",
        /// The task was begun and failed, or could not be begun.
        ExecutionFailed = "execution_failed",
        /// The request makes no sense.
        InvalidRequest = "invalid_request",
    }
}

/// How a task is going. On the wire it is a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AgentTaskState {
    /// It was sent.
    Submitted,
    /// It is under way.
    Working,
    /// It does not go on without an answer of whoever asked.
    InputRequired,
    /// It is done.
    Completed,
    /// Nothing came of it.
    Failed,
    /// It was cancelled.
    Canceled,
    /// A number that this version does not know, from a newer peer.
    Other(i64),
}

impl AgentTaskState {
    /// The number on the wire.
    #[must_use]
    pub const fn number(self) -> i64 {
        match self {
            Self::Submitted => 0,
            Self::Working => 1,
            Self::InputRequired => 2,
            Self::Completed => 3,
            Self::Failed => 4,
            Self::Canceled => 5,
            Self::Other(number) => number,
        }
    }
}

impl From<i64> for AgentTaskState {
    fn from(number: i64) -> Self {
        match number {
            0 => Self::Submitted,
            1 => Self::Working,
            2 => Self::InputRequired,
            3 => Self::Completed,
            4 => Self::Failed,
            5 => Self::Canceled,
            other => Self::Other(other),
        }
    }
}

impl Serialize for AgentTaskState {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_i64(self.number())
    }
}

impl<'de> Deserialize<'de> for AgentTaskState {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Number;

        impl Visitor<'_> for Number {
            type Value = AgentTaskState;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the number of a state")
            }

            fn visit_i64<E>(self, number: i64) -> Result<AgentTaskState, E> {
                Ok(number.into())
            }

            fn visit_u64<E>(self, number: u64) -> Result<AgentTaskState, E> {
                Ok(i64::try_from(number).unwrap_or(i64::MAX).into())
            }
        }

        deserializer.deserialize_i64(Number)
    }
}

impl AgentMessage {
    /// A message of one text.
    #[must_use]
    pub fn of_text(role: &str, text: impl Into<String>) -> Self {
        Self { role: role.to_owned(), parts: vec![AgentMessagePart::of_text(text)], metadata: None }
    }
}

impl AgentMessagePart {
    /// A part that is text.
    #[must_use]
    pub fn of_text(text: impl Into<String>) -> Self {
        Self { kind: KIND_TEXT.to_owned(), text: Some(text.into()), ..Self::default() }
    }
}

/// The id of a task whose request may be malformed, so that it can be answered; empty where there
/// is none.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct TaskIdOfMalformed {
    #[serde(default, deserialize_with = "field::text_or_empty")]
    task_id: String,
}

/// Whatever id of a task there is in the body of a request that may be malformed.
#[must_use]
pub fn task_id_of_malformed(body: &[u8]) -> Option<String> {
    let read = json::read_value::<TaskIdOfMalformed>(body).unwrap_or_default();
    Some(read.task_id).filter(|id| !id.is_empty())
}
