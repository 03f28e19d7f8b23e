//! A call of a server's tool, and the errors that it may end with.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;
use toolbus_bus::{Asker, CallContext, Deadline, Progress};
use toolbus_wire::json::RawJson;
use toolbus_wire::message::mcp::McpServerError;
use toolbus_wire::{ErrorCode, Execution};

use crate::trust::PinnedItem;

/// How the names of a call are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Naming {
    /// To the letter: whoever calls has looked them up, and decided about just this tool.
    Exact,
    /// As a model may have misspelled them.
    Forgiving,
}

/// Who calls, where a server keeps something for each: an agent in one of its sessions. Clones are
/// the same.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Caller(Arc<str>);

impl Caller {
    /// The caller of a message, by what its sender calls itself and its session.
    #[must_use]
    pub fn of(source: &str, session: Option<&str>) -> Self {
        // Nobody's name or session has a line break; who has one is somebody else, at most.
        Self(format!("{source}\n{}", session.unwrap_or_default()).into())
    }
}

/// A call of a tool.
#[derive(Debug, Clone)]
pub struct Call {
    /// The server, in any case. Without one, the server that had the tool's name first takes the
    /// call.
    pub server: Option<String>,
    /// The tool, by the exact name that it has on its server.
    pub tool: String,
    /// The arguments.
    pub arguments: Map<String, Value>,
    /// All params of the request as their caller wrote them; the server gets these. `None`: they
    /// are made of the tool and the arguments.
    pub params: Option<RawJson>,
    /// Whether the names are exact, or may be what a model made of them.
    pub naming: Naming,
    /// Who calls.
    pub caller: Caller,
    /// What the call brings along. The configuration may grant less time; a cancelled call is
    /// cancelled at the server too; progress comes in order and before the result; without an asker
    /// the server is told at once that there is no answer.
    pub context: CallContext,
}

impl Call {
    /// The same call of a tool that has another name than the caller thought.
    pub(crate) fn renamed(self, tool: String) -> Self {
        let name = RawJson::of(&tool);
        let params = self.params.map(|params| params.with_member("name", Some(&name)));
        Self { tool, params, ..self }
    }

    /// The params of the request to the server.
    pub(crate) fn params(&self) -> RawJson {
        let made = || RawJson::of(&json!({"name": self.tool, "arguments": self.arguments}));
        self.params.clone().unwrap_or_else(made)
    }

    /// A call that cannot be cancelled, without a receiver for progress or questions.
    #[must_use]
    pub fn new(
        server: Option<&str>,
        tool: impl Into<String>,
        arguments: Map<String, Value>,
        deadline: Deadline,
    ) -> Self {
        Self {
            server: server.map(str::to_owned),
            tool: tool.into(),
            arguments,
            params: None,
            naming: Naming::Forgiving,
            caller: Caller::default(),
            context: CallContext::until(deadline),
        }
    }

    /// The same call of this caller.
    #[must_use]
    pub fn with_caller(self, caller: Caller) -> Self {
        Self { caller, ..self }
    }

    /// The same call in this context.
    #[must_use]
    pub fn with_context(self, context: CallContext) -> Self {
        Self { context, ..self }
    }

    /// The same call with this deadline.
    #[must_use]
    pub fn with_deadline(mut self, deadline: Deadline) -> Self {
        self.context.deadline = deadline;
        self
    }

    /// The same call, cancelled by this token.
    #[must_use]
    pub fn with_cancelled(mut self, cancelled: CancellationToken) -> Self {
        self.context.cancelled = cancelled;
        self
    }

    /// The same call, which reports progress here.
    #[must_use]
    pub fn with_progress(mut self, progress: Progress) -> Self {
        self.context.progress = progress;
        self
    }

    /// The same call, whose questions this asker answers.
    #[must_use]
    pub fn with_asker(mut self, asker: Asker) -> Self {
        self.context.asker = asker;
        self
    }
}

/// Why a call has no result.
///
/// The texts are for the model; those that the C# bridge has too are worded as it words them, so
/// they begin with a capital letter. No text holds a credential of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The server cannot be reached.
    #[error("MCP server '{server}' is not connected{}", reason_suffix(reason.as_deref()))]
    NotConnected {
        /// The server as the caller named it.
        server: String,
        /// Why, when the server is configured.
        reason: Option<String>,
        /// When it is tried again, where it has stayed away and calls are refused until then.
        retry_after: Option<Duration>,
    },
    /// There is no server of this name.
    #[error("MCP server '{server}' is not connected{}", name_list("Servers", names))]
    ServerUnknown {
        /// The server as the caller named it.
        server: String,
        /// The nearest names that there are.
        names: Vec<String>,
    },
    /// No server was named, and none lists the tool.
    #[error("Tool '{tool}' not found on any connected MCP server{}", name_list("Tools", names))]
    ToolNotListed {
        /// The tool.
        tool: String,
        /// The nearest names that there are.
        names: Vec<String>,
    },
    /// The server says that it has no such tool.
    #[error("Tool '{tool}' not found on MCP server '{server}': {message}")]
    ToolUnknown {
        /// The server.
        server: String,
        /// The tool.
        tool: String,
        /// What the server says.
        message: String,
        /// The server's own error, where it answered with one.
        server_error: Option<Box<McpServerError>>,
    },
    /// The operator's lists do not allow the tool.
    #[error("Tool '{tool}' of MCP server '{server}' is not allowed here")]
    Denied {
        /// The server.
        server: String,
        /// The tool.
        tool: String,
    },
    /// The tool or prompt is new or has changed, and no operator has accepted that. The text says
    /// which parts of it have changed, and not a word of what they are now.
    #[error(
        "{} of MCP server '{server}' is held back: {reason}. An operator can look at it and accept \
         it: mcp-bridge accept {server} {}",
        capitalized(item),
        item.arguments()
    )]
    Withheld {
        /// The server.
        server: String,
        /// What is held back.
        item: PinnedItem,
        /// Why, without a word of the server's.
        reason: String,
    },
    /// As many calls as the server may have at a time are running.
    #[error("MCP server '{server}' is busy with {running} calls — try again later")]
    Busy {
        /// The server.
        server: String,
        /// How many those are.
        running: usize,
    },
    /// The call timed out. The server was told to stop.
    #[error(
        "MCP server '{server}' timed out after {timeout_ms}ms. {}",
        timeout_advice(*execution, *may_repeat)
    )]
    Timeout {
        /// The server.
        server: String,
        /// What the caller asked for, or less when the configuration grants less.
        timeout_ms: u128,
        /// Whether the server had been sent the call.
        execution: Execution,
        /// Whether the tool says that running it twice does no harm.
        may_repeat: bool,
    },
    /// The caller cancelled. The server was told to stop.
    #[error("the call of '{tool}' on MCP server '{server}' was cancelled")]
    Cancelled {
        /// The server.
        server: String,
        /// The tool.
        tool: String,
        /// Whether the server had been sent the call.
        execution: Execution,
    },
    /// The server does not take the arguments.
    #[error("{message}")]
    InvalidArguments {
        /// What the server says.
        message: String,
        /// The server's own error, where it answered with one.
        server_error: Option<Box<McpServerError>>,
    },
    /// The server requires a credential, or another one.
    #[error("MCP server '{server}' asks for authorization")]
    Unauthorized {
        /// The server.
        server: String,
    },
    /// A person has to log in at the server.
    #[error("MCP server '{server}' {reason}")]
    NeedsLogin {
        /// The server.
        server: String,
        /// How that is done, and what for.
        reason: String,
    },
    /// The server is not connected, for want of a credential of the vault.
    #[error("MCP server '{server}' is not connected: {reason}")]
    NoCredential {
        /// The server.
        server: String,
        /// Which one, and why it cannot be had.
        reason: String,
    },
    /// The server wants more than its token is for, and asking for that was in vain.
    #[error("MCP server '{server}' {reason}")]
    NotGranted {
        /// The server.
        server: String,
        /// What it wants.
        reason: String,
    },
    /// The server has had too many calls.
    #[error("MCP server '{server}' takes no more calls for now (HTTP 429)")]
    RateLimited {
        /// The server.
        server: String,
        /// How long to wait, where the server says so.
        retry_after: Option<Duration>,
    },
    /// The server has asked for a pause, and was not sent the call.
    #[error(
        "MCP server '{server}' has asked for a pause — try again in {} s",
        left.as_millis().div_ceil(1_000)
    )]
    Paused {
        /// The server.
        server: String,
        /// What is left of the pause.
        left: Duration,
    },
    /// The server took the call and was lost before it answered.
    #[error(
        "MCP server '{server}' was lost during the call, which may have taken effect: {reason}"
    )]
    OutcomeUnknown {
        /// The server.
        server: String,
        /// What happened to it.
        reason: String,
    },
    /// The server answered, and the answer is no result.
    #[error("{message}")]
    Failed {
        /// What happened.
        message: String,
        /// The server's own error, where it answered with one.
        server_error: Option<Box<McpServerError>>,
        /// How long to wait before another call, where the server says so.
        retry_after: Option<Duration>,
    },
}

impl CallError {
    /// Whether the server had been sent the call.
    #[must_use]
    pub fn execution(&self) -> Execution {
        match self {
            Self::Timeout { execution, .. } | Self::Cancelled { execution, .. } => *execution,
            error => error.code().execution(),
        }
    }

    /// The server's own error, where it answered with one.
    #[must_use]
    pub fn server_error(&self) -> Option<&McpServerError> {
        match self {
            Self::Failed { server_error, .. }
            | Self::InvalidArguments { server_error, .. }
            | Self::ToolUnknown { server_error, .. } => server_error.as_deref(),
            _ => None,
        }
    }

    /// The nearest names that there are, where no server has the one that was named.
    pub(crate) fn nearest_servers(&self) -> Option<&[String]> {
        match self {
            Self::ServerUnknown { names, .. } => Some(names),
            _ => None,
        }
    }

    /// How long to wait before another call, where that is known.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::NotConnected { retry_after, .. }
            | Self::RateLimited { retry_after, .. }
            | Self::Failed { retry_after, .. } => *retry_after,
            Self::Paused { left, .. } => Some(*left),
            _ => None,
        }
    }

    /// Whether the tool says that running it twice does no harm.
    #[must_use]
    pub fn may_repeat(&self) -> bool {
        matches!(self, Self::Timeout { may_repeat: true, .. })
    }

    /// The error code on the wire, which says whether the call may be repeated.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::NotConnected { .. }
            | Self::ServerUnknown { .. }
            | Self::ToolNotListed { .. }
            | Self::ToolUnknown { .. } => ErrorCode::ToolNotFound,
            Self::Denied { .. }
            | Self::Withheld { .. }
            | Self::NoCredential { .. }
            | Self::NotGranted { .. } => ErrorCode::Denied,
            Self::Busy { .. } => ErrorCode::Busy,
            Self::Timeout { .. } => ErrorCode::Timeout,
            Self::Cancelled { .. } => ErrorCode::Cancelled,
            Self::InvalidArguments { .. } => ErrorCode::InvalidArguments,
            Self::Unauthorized { .. } | Self::NeedsLogin { .. } => ErrorCode::AuthRequired,
            Self::RateLimited { .. } | Self::Paused { .. } => ErrorCode::RateLimited,
            Self::OutcomeUnknown { .. } => ErrorCode::OutcomeUnknown,
            Self::Failed { .. } => ErrorCode::ExecutionFailed,
        }
    }
}

/// The item at the beginning of a sentence.
fn capitalized(item: &PinnedItem) -> String {
    let text = item.to_string();
    text[..1].to_uppercase() + &text[1..]
}

/// A list of names as the end of a sentence, where there are any.
pub(crate) fn name_list(what: &str, names: &[String]) -> String {
    if names.is_empty() { String::new() } else { format!(". {what}: {}", names.join(", ")) }
}

/// A reason as the end of a sentence, where there is one.
fn reason_suffix(reason: Option<&str>) -> String {
    reason.map_or_else(String::new, |reason| format!(": {reason}"))
}

/// What to do after a timeout: a call that the server was sent may have taken effect.
fn timeout_advice(execution: Execution, may_repeat: bool) -> &'static str {
    if may_repeat || execution == Execution::NotStarted {
        "This is a transient error — retry the same tool call to continue."
    } else {
        "The server had been sent the call, which may have taken effect: check that before you call \
         the tool again."
    }
}
