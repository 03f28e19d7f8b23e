//! Reading what others write: requests of clients, and answers and cards of agents.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

use serde::de::{IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use toolbus_wire::message::a2a::{
    AgentArtifact, AgentCard, AgentMessage, AgentMessagePart, AgentSkill, AgentTaskResult,
    AgentTaskState, KIND_DATA, ROLE_AGENT,
};

use super::Version;

/// Most parts of a message that is read, and of an artifact.
pub(super) const PARTS_MAX: usize = 64;
/// Most artifacts of a task that are read.
const ARTIFACTS_MAX: usize = 64;
/// Most entries of a list that are read: one more than any list may have, so that whoever compares
/// sees that there are too many.
const ENTRIES_MAX: usize = PARTS_MAX + 1;

/// The first entries of a list, [`ENTRIES_MAX`] at the most. The others are passed over: nothing is
/// built of them.
#[derive(Debug, Default)]
pub(crate) struct FirstEntries<T>(Vec<T>);

impl<T> Deref for FirstEntries<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for FirstEntries<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(EntriesVisitor(PhantomData))
    }
}

struct EntriesVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for EntriesVisitor<T> {
    type Value = FirstEntries<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a sequence")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut entries = Vec::new();
        while entries.len() < ENTRIES_MAX {
            let Some(entry) = list.next_element()? else { return Ok(FirstEntries(entries)) };
            entries.push(entry);
        }

        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(FirstEntries(entries))
    }
}

/// The parameters of a message to the agent, in both versions.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SendParams {
    pub(crate) message: WrittenMessage,
    #[serde(default)]
    pub(crate) configuration: Option<SendConfiguration>,
    #[serde(default)]
    pub(crate) metadata: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SendConfiguration {
    #[serde(default)]
    return_immediately: Option<bool>,
    #[serde(default)]
    blocking: Option<bool>,
    #[serde(default)]
    task_push_notification_config: Option<Value>,
    #[serde(default)]
    push_notification_config: Option<Value>,
    #[serde(default)]
    history_length: Option<i64>,
}

impl SendParams {
    /// Whether the client waits for the end of the task.
    pub(crate) fn is_blocking(&self) -> bool {
        let Some(wished) = &self.configuration else { return true };
        match (wished.return_immediately, wished.blocking) {
            (Some(at_once), _) => !at_once,
            (None, blocking) => blocking.unwrap_or(true),
        }
    }

    pub(crate) fn wants_push(&self) -> bool {
        self.configuration.as_ref().is_some_and(|wished| {
            wished.task_push_notification_config.is_some()
                || wished.push_notification_config.is_some()
        })
    }

    pub(crate) fn history_length(&self) -> Option<i64> {
        self.configuration.as_ref().and_then(|wished| wished.history_length)
    }

    /// The skill that is asked for, where one is named.
    pub(crate) fn skill(&self) -> Option<&str> {
        let places = [&self.message.metadata, &self.metadata];
        let mut named = places.into_iter().flatten();
        named.find_map(|metadata| metadata.get(super::SKILL_METADATA)?.as_str())
    }
}

/// A message as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WrittenMessage {
    #[serde(default)]
    pub(crate) message_id: String,
    #[serde(default)]
    pub(crate) context_id: Option<String>,
    #[serde(default)]
    pub(crate) task_id: Option<String>,
    #[serde(default)]
    pub(crate) role: String,
    #[serde(default)]
    pub(crate) parts: FirstEntries<WrittenPart>,
    #[serde(default)]
    pub(crate) metadata: Option<Value>,
}

/// A part as it is written, in both versions.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WrittenPart {
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    data: Option<Value>,
    #[serde(default)]
    raw: Option<String>,
    #[serde(default)]
    url: Option<String>,
    #[serde(default)]
    file: Option<Value>,
    #[serde(default)]
    filename: Option<String>,
    #[serde(default)]
    media_type: Option<String>,
}

impl WrittenPart {
    /// Whether it is a file, or names one.
    pub(crate) fn is_file(&self) -> bool {
        self.raw.is_some() || self.url.is_some() || self.file.is_some()
    }

    /// The part as tasks have it. `None`: there is nothing in it.
    pub(crate) fn into_part(self) -> Option<AgentMessagePart> {
        if let Some(text) = self.text {
            return Some(AgentMessagePart::of_text(text));
        }
        let data = self.data?;
        Some(AgentMessagePart {
            kind: KIND_DATA.to_owned(),
            text: None,
            data: Some(data.to_string()),
            mime_type: self.media_type.or_else(|| Some("application/json".to_owned())),
        })
    }

    /// The part in words where it is a file: what is in files is not fetched.
    fn into_answer_part(self) -> Option<AgentMessagePart> {
        if !self.is_file() {
            return self.into_part();
        }
        let of_file = |name: &str| self.file.as_ref()?.get(name)?.as_str().map(str::to_owned);
        let name = self.filename.clone().or_else(|| of_file("name")).unwrap_or_default();
        let url = self.url.clone().or_else(|| of_file("uri"));
        Some(AgentMessagePart::of_text(match url {
            Some(url) => format!("[file {name:?}: {url}]"),
            None => format!("[file {name:?}: its content is left out]"),
        }))
    }
}

/// The parameters of what is about one task.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TaskParams {
    pub(crate) id: String,
    #[serde(default)]
    pub(crate) history_length: Option<i64>,
}

/// What an agent answers to a message.
pub(crate) enum Answered {
    Task(RemoteTask),
    /// It has answered at once, without a task.
    Message(AgentTaskResult),
}

/// A task of another agent.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RemoteTask {
    pub(crate) id: String,
    status: RemoteStatus,
    #[serde(default)]
    artifacts: Option<FirstEntries<RemoteArtifact>>,
}

#[derive(Debug, Deserialize)]
struct RemoteStatus {
    state: String,
    #[serde(default)]
    message: Option<WrittenMessage>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RemoteArtifact {
    #[serde(default)]
    artifact_id: String,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    parts: FirstEntries<WrittenPart>,
}

/// How the task of another agent is going.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RemoteState {
    /// It goes on, or says nothing that is known here.
    UnderWay,
    /// It is over.
    Ended(AgentTaskState),
    /// It wants credentials that nobody here has.
    WantsCredentials,
}

/// Reads the result of a message to an agent.
pub(crate) fn read_answered(mut result: Value, task_id: &str) -> Option<Answered> {
    let nested = |result: &mut Value, name| result.get_mut(name).map(Value::take);
    if let Some(task) = nested(&mut result, "task") {
        return read_task(task).map(Answered::Task);
    }
    let message = match nested(&mut result, "message") {
        Some(message) => message,
        None if result.get("messageId").is_some() => result,
        None => return read_task(result).map(Answered::Task),
    };
    let message: WrittenMessage = serde_json::from_value(message).ok()?;
    Some(Answered::Message(AgentTaskResult {
        task_id: task_id.to_owned(),
        context_id: None,
        state: AgentTaskState::Completed,
        artifacts: None,
        message: Some(message_of(message)),
    }))
}

/// Reads a task of an agent.
pub(crate) fn read_task(result: Value) -> Option<RemoteTask> {
    serde_json::from_value(result).ok()
}

impl RemoteTask {
    pub(crate) fn state(&self) -> RemoteState {
        let name = self.status.state.trim().to_ascii_lowercase().replace('_', "-");
        let ended = match name.strip_prefix("task-state-").unwrap_or(&name) {
            "completed" => AgentTaskState::Completed,
            "failed" | "rejected" => AgentTaskState::Failed,
            "canceled" => AgentTaskState::Canceled,
            "input-required" => AgentTaskState::InputRequired,
            "auth-required" => return RemoteState::WantsCredentials,
            _ => return RemoteState::UnderWay,
        };
        RemoteState::Ended(ended)
    }

    /// What it says of its state.
    pub(crate) fn into_remark(self) -> Option<AgentMessage> {
        self.status.message.map(message_of)
    }

    /// The result of a task that is over in this state.
    pub(crate) fn into_result(self, state: AgentTaskState, task_id: &str) -> AgentTaskResult {
        let artifact = |artifact: RemoteArtifact| AgentArtifact {
            name: artifact.name.filter(|name| !name.is_empty()).unwrap_or(artifact.artifact_id),
            description: artifact.description.filter(|text| !text.is_empty()),
            parts: parts_of(artifact.parts),
        };
        let artifacts = self.artifacts.map(|artifacts| {
            artifacts.0.into_iter().take(ARTIFACTS_MAX).map(artifact).collect::<Vec<_>>()
        });
        AgentTaskResult {
            task_id: task_id.to_owned(),
            context_id: None,
            state,
            artifacts,
            message: self.status.message.map(message_of),
        }
    }
}

fn message_of(message: WrittenMessage) -> AgentMessage {
    let parts = parts_of(message.parts);
    AgentMessage { role: ROLE_AGENT.to_owned(), parts, metadata: None }
}

fn parts_of(parts: FirstEntries<WrittenPart>) -> Vec<AgentMessagePart> {
    parts.0.into_iter().take(PARTS_MAX).filter_map(WrittenPart::into_answer_part).collect()
}

/// The card of another agent, in both versions.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RemoteCard {
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    version: Option<String>,
    #[serde(default)]
    skills: Option<Vec<RemoteSkill>>,
    #[serde(default)]
    supported_interfaces: Option<Vec<WrittenInterface>>,
    #[serde(default)]
    url: Option<String>,
    #[serde(default)]
    preferred_transport: Option<String>,
    #[serde(default)]
    protocol_version: Option<String>,
    #[serde(default)]
    additional_interfaces: Option<Vec<WrittenInterface>>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WrittenInterface {
    url: String,
    /// Its name in version 0.3 is `transport`.
    #[serde(default, alias = "transport")]
    protocol_binding: String,
    #[serde(default)]
    protocol_version: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RemoteSkill {
    #[serde(default)]
    id: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    tags: Option<Vec<String>>,
    #[serde(default)]
    examples: Option<Vec<String>>,
}

/// Where an agent is spoken to, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Interface {
    pub(crate) url: String,
    pub(crate) version: Version,
}

impl RemoteCard {
    /// The interface to use: JSON-RPC, of the newest version that is spoken here.
    pub(crate) fn interface(&self) -> Option<Interface> {
        let listed = self.supported_interfaces.iter().flatten().cloned();
        let main = self.url.clone().map(|url| WrittenInterface {
            url,
            protocol_binding: self.preferred_transport.clone().unwrap_or_default(),
            protocol_version: self.protocol_version.clone(),
        });
        let more = self.additional_interfaces.iter().flatten().cloned();
        let of_v03 = main.into_iter().chain(more).map(|written| {
            let version = written.protocol_version.clone().or(self.protocol_version.clone());
            WrittenInterface { protocol_version: version, ..written }
        });

        let known: Vec<_> = listed.chain(of_v03).filter_map(WrittenInterface::read).collect();
        let newest = known.iter().find(|interface| interface.version == Version::V1);
        newest.or_else(|| known.first()).cloned()
    }

    /// The card as the directory has it.
    pub(crate) fn into_card(self, name: &str, interface: &Interface) -> AgentCard {
        let skill = |skill: RemoteSkill| AgentSkill {
            name: if skill.name.is_empty() { skill.id.clone() } else { skill.name },
            id: skill.id,
            description: skill.description,
            tags: skill.tags,
            examples: skill.examples,
        };
        AgentCard {
            agent_name: name.to_owned(),
            description: self.description,
            version: self.version,
            skills: self.skills.map(|skills| skills.into_iter().map(skill).collect()),
            url: Some(interface.url.clone()),
            protocol_version: Some(interface.version.as_str().to_owned()),
            ..AgentCard::default()
        }
    }
}

impl WrittenInterface {
    fn read(self) -> Option<Interface> {
        let is_json_rpc = matches!(&*self.protocol_binding, "" | "JSONRPC");
        let version = Version::parse(self.protocol_version.as_deref().unwrap_or_default());
        version.filter(|_| is_json_rpc).map(|version| Interface { url: self.url, version })
    }
}
