//! Messages of Toolbus itself. A peer that does not know them loses nothing but what they add.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Message, field};

/// A caller does not want the outcome of a call any more. It goes to the worker that is known to
/// hold the call, else to every worker, at `tool.cancel`; the one that holds the call stops it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolCancel {
    /// Source of the request, as its envelope named it.
    pub source: String,
    /// Id of the call.
    pub tool_call_id: String,
    /// Why, for logs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Message for ToolCancel {
    const TYPE: &'static str = "Toolbus.ToolCancel";
}

/// Progress of a call, sent to the topic that its request named in the header `rb-progress-to`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolProgress {
    /// Id of the call.
    pub tool_call_id: String,
    /// Counts the messages of one call, so that a late one can be told from the latest. A piece of
    /// a script's output has the same number whichever worker sends it, from 0 on, so that a piece
    /// that another worker sends once more after taking over can be left out.
    pub seq: u64,
    /// How much is done, in units of the tool's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<f64>,
    /// How much there is to do, in the same units.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<f64>,
    /// What the tool is doing, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// How grave `message` is, where it is a line of a log: `debug`, `info`, `notice`, `warning`,
    /// `error`, `critical`, `alert` or `emergency`, as MCP and syslog have them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub level: Option<String>,
    /// The resource that has changed, where a subscription reports it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// Where `text` was written to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream: Option<OutputStream>,
    /// What was written since the last message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

impl Message for ToolProgress {
    const TYPE: &'static str = "Toolbus.ToolProgress";
}

text_enum! {
    /// Where a running tool writes text to.
    pub enum OutputStream {
        /// Standard output.
        Stdout = "stdout",
        /// Standard error.
        Stderr = "stderr",
    }
}

/// A tool asks its caller something, at the topic that the request named in the header `rb-ask-to`.
/// The answer is a [`ToolAnswer`] at the reply topic of this message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolAsk {
    /// Id of the call.
    pub tool_call_id: String,
    /// Id of the question.
    pub ask_id: String,
    /// What is asked for.
    pub kind: AskKind,
    /// Who asks, in words for people, such as the name of an MCP server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The question, as the kind has it; for the first three kinds, as MCP has it.
    #[serde(default)]
    pub params: Value,
    /// Where it has its place, when it is one of a round.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub round: Option<AskRound>,
}

/// The place of a question in a round: several that are put at the same time, and whose answers are
/// wanted together. Each of a round may be answered as if it were alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AskRound {
    /// What the asking side calls the question among them.
    #[serde(default, deserialize_with = "field::or_default")]
    pub key: String,
    /// How many there are in the round.
    #[serde(default, deserialize_with = "field::or_default")]
    pub size: u32,
}

impl Message for ToolAsk {
    const TYPE: &'static str = "Toolbus.ToolAsk";
}

text_enum! {
    /// What a tool asks for.
    pub enum AskKind {
        /// Something that the user knows.
        Elicitation = "elicitation",
        /// A completion of the caller's model.
        Sampling = "sampling",
        /// Leave to go on.
        Approval = "approval",
        /// The folders that the caller works in.
        Roots = "roots",
        /// What a script wants of whoever asked for it to be run. `params` are a
        /// [`ScriptQuestion`](super::script::ScriptQuestion), and the result is the response, any
        /// JSON value.
        Script = "script",
    }
}

/// What a caller answers a [`ToolAsk`]: either a result or an error.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolAnswer {
    /// Id of the call.
    pub tool_call_id: String,
    /// Id of the question.
    pub ask_id: String,
    /// The answer, as the kind of the question has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// Why there is no answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<AskError>,
}

impl Message for ToolAnswer {
    const TYPE: &'static str = "Toolbus.ToolAnswer";
}

/// Why a question has no answer. A person who says no has answered: that is a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "camelCase")]
#[error("{message}")]
pub struct AskError {
    /// What kind of failure it is.
    pub code: AskErrorCode,
    /// What happened, for people and for whoever asked. Never holds a secret.
    #[serde(default)]
    pub message: String,
}

impl AskError {
    /// An error of this kind.
    #[must_use]
    pub fn new(code: AskErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

text_enum! {
    /// What kind of failure an [`AskError`] is.
    pub enum AskErrorCode {
        /// The caller takes no such questions.
        Unsupported = "unsupported",
        /// No call of that id waits at the caller, or none whose questions it takes.
        UnknownCall = "unknown_call",
        /// Too many questions, at a time or in all.
        Busy = "busy",
        /// The question or its answer is over the limit.
        TooLarge = "too_large",
        /// The caller or the broker cannot be reached.
        Unroutable = "unroutable",
        /// The call's time was over before the answer came.
        Timeout = "timeout",
        /// The call was cancelled before the answer came.
        Cancelled = "cancelled",
        /// The question handler failed.
        Failed = "failed",
    }
}

/// A worker lives, sent once a second to each caller that it holds calls of and that named a
/// progress topic.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Alive {
    /// The worker.
    pub instance: String,
    /// Ids of the caller's calls that it holds.
    #[serde(default, deserialize_with = "field::or_default")]
    pub calls: Vec<String>,
    /// Those of them that have not been started and are kept in a store: they outlive the worker,
    /// so its silence says nothing about them.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "field::or_default"
    )]
    pub kept: Vec<String>,
}

impl Message for Alive {
    const TYPE: &'static str = "Toolbus.Alive";
}

/// A worker asks what is known of a call that it has been handed: its caller, at the topic of the
/// header `rb-status-to`, or the other workers, at `tool.cancel`. Answered at the reply topic by a
/// [`CallStatus`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallQuery {
    /// The worker that asks.
    pub instance: String,
    /// Source of the request, as its envelope named it.
    pub source: String,
    /// Id of the call.
    pub tool_call_id: String,
    /// Correlation id of the request.
    pub correlation_id: String,
}

impl Message for CallQuery {
    const TYPE: &'static str = "Toolbus.CallQuery";
}

/// What is known of a call, as an answer to a [`CallQuery`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallStatus {
    /// Correlation id of the request.
    pub correlation_id: String,
    /// What is known.
    pub state: CallState,
}

impl Message for CallStatus {
    const TYPE: &'static str = "Toolbus.CallStatus";
}

text_enum! {
    /// What is known of a call.
    pub enum CallState {
        /// Its caller waits for it.
        Awaited = "awaited",
        /// Its caller does not wait for it any more.
        Abandoned = "abandoned",
        /// A worker runs it, and will answer it.
        Running = "running",
        /// A worker has run it, and has answered it.
        Ended = "ended",
    }
}

/// A caller that was cut off asks for the replies that it may have missed. Every worker hears it,
/// at `tool.cancel`, and sends those that it remembers once more, to where they went before.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplyRequest {
    /// Source of the requests, as their envelopes named it.
    pub source: String,
    /// Correlation ids of the requests.
    #[serde(default, deserialize_with = "field::or_default")]
    pub correlation_ids: Vec<String>,
}

impl Message for ReplyRequest {
    const TYPE: &'static str = "Toolbus.ReplyRequest";
}
