//! The A2A protocol over HTTP as JSON: the versions 1.0 and 0.3, whose messages differ in names.
//!
//! What is written here is read by strangers, so it is what the protocol's own definitions say;
//! what is read is forgiven members that are not known.

mod read;
mod write;

use serde_json::{Value, json};
use toolbus_wire::message::a2a::AgentTaskState;

pub(crate) use read::{
    Answered, Interface, RemoteCard, RemoteState, RemoteTask, SendParams, TaskParams,
    WrittenMessage, read_answered, read_task,
};
pub(crate) use write::{
    artifact_event, artifacts_of, send_params, status_event, task_event, task_json,
};

/// Where an agent's card is.
pub(crate) const CARD_PATH: &str = "/.well-known/agent-card.json";
/// The header that says which version is spoken.
pub(crate) const VERSION_HEADER: &str = "a2a-version";
/// Toolbus extension: how many agents and scopes a task has come through.
pub(crate) const HTTP_DEPTH_HEADER: &str = "toolbus-agent-depth";
/// Toolbus extension: the doors that a task came through at the agents before, as on the bus.
pub(crate) const HTTP_DOORS_HEADER: &str = "toolbus-agent-doors";
/// The member of a message's metadata that names the skill which is asked for.
pub(crate) const SKILL_METADATA: &str = "skill";

/// A version of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    /// 1.0.
    V1,
    /// 0.3.
    V03,
}

impl Version {
    /// The version that a text names, whatever its last number. Without one it is 0.3.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        match text.split('.').next().unwrap_or_default() {
            "1" => Some(Self::V1),
            "" if text.is_empty() => Some(Self::V03),
            "0" if text.split('.').nth(1) == Some("3") => Some(Self::V03),
            _ => None,
        }
    }

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::V1 => "1.0",
            Self::V03 => "0.3",
        }
    }
}

/// What is asked for by the name of a method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    Send,
    Stream,
    Get,
    List,
    Cancel,
    Subscribe,
    /// Whatever is about push notifications.
    Push,
    ExtendedCard,
}

impl Method {
    /// The method of a name, and the version whose name it is.
    pub(crate) fn parse(name: &str) -> Option<(Self, Version)> {
        use Version::{V1, V03};
        Some(match name {
            "SendMessage" => (Self::Send, V1),
            "SendStreamingMessage" => (Self::Stream, V1),
            "GetTask" => (Self::Get, V1),
            "ListTasks" => (Self::List, V1),
            "CancelTask" => (Self::Cancel, V1),
            "SubscribeToTask" => (Self::Subscribe, V1),
            "GetExtendedAgentCard" => (Self::ExtendedCard, V1),
            "CreateTaskPushNotificationConfig"
            | "GetTaskPushNotificationConfig"
            | "ListTaskPushNotificationConfigs"
            | "DeleteTaskPushNotificationConfig" => (Self::Push, V1),

            "message/send" => (Self::Send, V03),
            "message/stream" => (Self::Stream, V03),
            "tasks/get" => (Self::Get, V03),
            "tasks/cancel" => (Self::Cancel, V03),
            "tasks/resubscribe" => (Self::Subscribe, V03),
            "agent/getAuthenticatedExtendedCard" => (Self::ExtendedCard, V03),
            "tasks/pushNotificationConfig/set"
            | "tasks/pushNotificationConfig/get"
            | "tasks/pushNotificationConfig/list"
            | "tasks/pushNotificationConfig/delete" => (Self::Push, V03),
            _ => return None,
        })
    }

    /// Its name in a version, for what is asked by this crate.
    pub(crate) fn name(self, version: Version) -> &'static str {
        match (self, version) {
            (Self::Send, Version::V1) => "SendMessage",
            (Self::Send, Version::V03) => "message/send",
            (Self::Cancel, Version::V1) => "CancelTask",
            (Self::Cancel, Version::V03) => "tasks/cancel",
            (_, Version::V1) => "GetTask",
            (_, Version::V03) => "tasks/get",
        }
    }
}

/// The errors of JSON-RPC and of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ErrorKind {
    Parse,
    InvalidRequest,
    MethodNotFound,
    InvalidParams,
    Internal,
    /// Ours, of those that servers may define: there is too much to do.
    Busy,
    TaskNotFound,
    TaskNotCancelable,
    PushNotSupported,
    UnsupportedOperation,
    ContentTypeNotSupported,
    ExtendedCardNotConfigured,
    VersionNotSupported,
}

impl ErrorKind {
    pub(crate) fn code(self) -> i64 {
        match self {
            Self::Parse => -32700,
            Self::InvalidRequest => -32600,
            Self::MethodNotFound => -32601,
            Self::InvalidParams => -32602,
            Self::Internal => -32603,
            Self::Busy => -32000,
            Self::TaskNotFound => -32001,
            Self::TaskNotCancelable => -32002,
            Self::PushNotSupported => -32003,
            Self::UnsupportedOperation => -32004,
            Self::ContentTypeNotSupported => -32005,
            Self::ExtendedCardNotConfigured => -32007,
            Self::VersionNotSupported => -32009,
        }
    }

    /// What version 1.0 calls the errors that are its own.
    fn reason(self) -> Option<&'static str> {
        Some(match self {
            Self::TaskNotFound => "TASK_NOT_FOUND",
            Self::TaskNotCancelable => "TASK_NOT_CANCELABLE",
            Self::PushNotSupported => "PUSH_NOTIFICATION_NOT_SUPPORTED",
            Self::UnsupportedOperation => "UNSUPPORTED_OPERATION",
            Self::ContentTypeNotSupported => "CONTENT_TYPE_NOT_SUPPORTED",
            Self::ExtendedCardNotConfigured => "EXTENDED_AGENT_CARD_NOT_CONFIGURED",
            Self::VersionNotSupported => "VERSION_NOT_SUPPORTED",
            _ => return None,
        })
    }
}

/// Why a request has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RpcError {
    pub(crate) kind: ErrorKind,
    pub(crate) message: String,
}

impl RpcError {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    pub(crate) fn invalid_params(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidParams, message)
    }

    pub(crate) fn not_found() -> Self {
        Self::new(ErrorKind::TaskNotFound, "the agent has no task of this id for this client")
    }

    /// The answer to a request of this id.
    pub(crate) fn to_response(&self, id: &Value) -> Value {
        let mut error = json!({"code": self.kind.code(), "message": self.message});
        if let Some(reason) = self.kind.reason() {
            error["data"] = json!([{
                "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                "reason": reason,
                "domain": "a2a-protocol.org",
                "metadata": {},
            }]);
        }
        json!({"jsonrpc": "2.0", "id": id, "error": error})
    }
}

/// The answer to a request of this id.
pub(crate) fn response(id: &Value, result: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

/// The name of a state.
pub(crate) fn state_name(version: Version, state: AgentTaskState) -> &'static str {
    let (v1, v03) = match state {
        AgentTaskState::Submitted => ("TASK_STATE_SUBMITTED", "submitted"),
        AgentTaskState::Working => ("TASK_STATE_WORKING", "working"),
        AgentTaskState::InputRequired => ("TASK_STATE_INPUT_REQUIRED", "input-required"),
        AgentTaskState::Completed => ("TASK_STATE_COMPLETED", "completed"),
        AgentTaskState::Failed => ("TASK_STATE_FAILED", "failed"),
        AgentTaskState::Canceled => ("TASK_STATE_CANCELED", "canceled"),
        _ => ("TASK_STATE_UNSPECIFIED", "unknown"),
    };
    match version {
        Version::V1 => v1,
        Version::V03 => v03,
    }
}

#[cfg(test)]
mod tests;
