//! Tasks that agents give each other, and how agents announce themselves.
//!
//! The correlation id of each of these messages but the card is the task's id.

use std::fmt;

use serde::de::{Deserializer, Error, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use super::{Message, Secret, field};

/// Who an agent is and what it can do.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentCard {
    /// Name of the agent, compared without case.
    pub agent_name: String,
    /// What it is for.
    pub description: Option<String>,
    /// Its version.
    pub version: Option<String>,
    /// What it can do.
    pub skills: Option<Vec<AgentSkill>>,
    /// Whether it says goodbye.
    #[serde(default, deserialize_with = "field::or_default")]
    pub is_deregistering: bool,
    /// Where it is reached outside the bus.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Version of the protocol that it speaks there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol_version: Option<String>,
    /// Name of the HTTP header that lets a caller in there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth_header_name: Option<String>,
    /// Value of that header, in base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth_header_value_base64: Option<Secret>,
}

impl Message for AgentCard {
    const TYPE: &'static str = "RockBot.A2A.AgentCard";
}

/// Something that an agent can do.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentSkill {
    /// What a task calls it.
    pub id: String,
    /// Name for people.
    pub name: String,
    /// What it does.
    pub description: Option<String>,
    /// Words to find it by.
    pub tags: Option<Vec<String>>,
    /// Examples of what to ask.
    pub examples: Option<Vec<String>>,
}

/// Gives an agent a task.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentTaskRequest {
    /// Id of the task.
    pub task_id: String,
    /// Id of the conversation that the task belongs to.
    pub context_id: Option<String>,
    /// Which skill is asked for.
    pub skill: String,
    /// What is asked.
    pub message: AgentMessage,
}

impl Message for AgentTaskRequest {
    const TYPE: &'static str = "RockBot.A2A.AgentTaskRequest";
}

/// Something said by an agent or to it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentMessage {
    /// Who says it: `user` or `agent`.
    pub role: String,
    /// What is said.
    pub parts: Vec<AgentMessagePart>,
    /// What else a newer peer tells, passed on as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Value>,
}

/// One part of a message or an artifact.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentMessagePart {
    /// What it is: `text` or `data`.
    pub kind: String,
    /// Its text.
    pub text: Option<String>,
    /// Its data, as text.
    pub data: Option<String>,
    /// What the data is.
    pub mime_type: Option<String>,
}

/// Tells everybody how a task goes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentTaskStatusUpdate {
    /// Id of the task.
    pub task_id: String,
    /// Id of the conversation, from the request.
    pub context_id: Option<String>,
    /// How far the task is.
    pub state: AgentTaskState,
    /// What the agent says about it.
    pub message: Option<AgentMessage>,
}

impl Message for AgentTaskStatusUpdate {
    const TYPE: &'static str = "RockBot.A2A.AgentTaskStatusUpdate";
}

/// What a task came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentTaskResult {
    /// Id of the task.
    pub task_id: String,
    /// Id of the conversation, from the request.
    pub context_id: Option<String>,
    /// How the task ended.
    pub state: AgentTaskState,
    /// What was made.
    pub artifacts: Option<Vec<AgentArtifact>>,
    /// What the agent says.
    pub message: Option<AgentMessage>,
}

impl Message for AgentTaskResult {
    const TYPE: &'static str = "RockBot.A2A.AgentTaskResult";
}

/// Something that a task made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentArtifact {
    /// Its name.
    pub name: String,
    /// What it is.
    pub description: Option<String>,
    /// Its content.
    pub parts: Vec<AgentMessagePart>,
}

/// Why a task came to nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentTaskError {
    /// Id of the task.
    pub task_id: String,
    /// Id of the conversation, from the request.
    pub context_id: Option<String>,
    /// What kind of failure it is.
    pub code: AgentErrorCode,
    /// What went wrong.
    pub message: String,
    /// Whether the same task may succeed when it is given again.
    #[serde(default, deserialize_with = "field::or_default")]
    pub is_retryable: bool,
}

impl Message for AgentTaskError {
    const TYPE: &'static str = "RockBot.A2A.AgentTaskError";
}

text_enum! {
    /// Why a task came to nothing.
    pub enum AgentErrorCode {
        /// No task of that id.
        TaskNotFound = "task_not_found",
        /// The task cannot be cancelled.
        TaskNotCancelable = "task_not_cancelable",
        /// The agent has no such skill.
        SkillNotSupported = "skill_not_supported",
        /// The agent failed.
        ExecutionFailed = "execution_failed",
        /// The request makes no sense.
        InvalidRequest = "invalid_request",
    }
}

/// Asks an agent to give up a task.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentTaskCancelRequest {
    /// Id of the task.
    pub task_id: String,
    /// Id of the conversation.
    pub context_id: Option<String>,
}

impl Message for AgentTaskCancelRequest {
    const TYPE: &'static str = "RockBot.A2A.AgentTaskCancelRequest";
}

/// How far a task is. An integer on the wire.
///
/// When it is read, the name of a state is taken too, without regard to case, for peers that write
/// enumerations as texts. An integer that we do not know is kept; an unknown name is an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AgentTaskState {
    /// 0: nobody works on it yet.
    Submitted,
    /// 1: an agent works on it.
    Working,
    /// 2: the agent asks back.
    InputRequired,
    /// 3: done.
    Completed,
    /// 4: failed.
    Failed,
    /// 5: given up.
    Canceled,
    /// A state that this version does not know, from a newer peer.
    Other(i32),
}

impl AgentTaskState {
    const NAMED: [(Self, &'static str); 6] = [
        (Self::Submitted, "Submitted"),
        (Self::Working, "Working"),
        (Self::InputRequired, "InputRequired"),
        (Self::Completed, "Completed"),
        (Self::Failed, "Failed"),
        (Self::Canceled, "Canceled"),
    ];

    /// The integer on the wire.
    #[must_use]
    pub const fn number(self) -> i32 {
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

impl From<i32> for AgentTaskState {
    fn from(number: i32) -> Self {
        Self::NAMED
            .into_iter()
            .map(|(state, _)| state)
            .find(|state| state.number() == number)
            .unwrap_or(Self::Other(number))
    }
}

impl Serialize for AgentTaskState {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_i32(self.number())
    }
}

impl<'de> Deserialize<'de> for AgentTaskState {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StateVisitor)
    }
}

struct StateVisitor;

impl Visitor<'_> for StateVisitor {
    type Value = AgentTaskState;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the number of a task's state")
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Self::Value, E> {
        i32::try_from(number)
            .map(AgentTaskState::from)
            .map_err(|_| E::custom("the number of a task's state fits into 32 bits"))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Self::Value, E> {
        self.visit_i64(i64::try_from(number).unwrap_or(i64::MAX))
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
        AgentTaskState::NAMED
            .into_iter()
            .find(|(_, known)| known.eq_ignore_ascii_case(name))
            .map(|(state, _)| state)
            .ok_or_else(|| E::custom("unknown name of a task's state"))
    }
}
