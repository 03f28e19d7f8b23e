//! A call of a server's tool, and the errors that it may end with.

use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use toolbus_bus::{Asker, Deadline, Progress};
use toolbus_wire::ErrorCode;

/// A call of a tool.
#[derive(Debug, Clone)]
pub struct Call {
    /// The server, in any case. Without one, the server that had the tool's name first takes the
    /// call.
    pub server: Option<String>,
    /// The tool, by the exact name that it has on its server.
    pub tool: String,
    /// The arguments, passed on untouched.
    pub arguments: Map<String, Value>,
    /// The deadline of the outcome. The configuration may grant less.
    pub deadline: Deadline,
    /// Fires when the caller cancels; the server is told.
    pub cancelled: CancellationToken,
    /// Receives the progress that the server reports, in order and before the result.
    pub progress: Progress,
    /// Answers what the server asks its client during the call. Without one, the server is told at
    /// once that there is no answer.
    pub asker: Asker,
}

impl Call {
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
            deadline,
            cancelled: CancellationToken::new(),
            progress: Progress::none(),
            asker: Asker::none(),
        }
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
    },
    /// The operator's lists do not allow the tool.
    #[error("Tool '{tool}' of MCP server '{server}' is not allowed here")]
    Denied {
        /// The server.
        server: String,
        /// The tool.
        tool: String,
    },
    /// The tool has changed, and no operator has accepted that. The text says which parts of
    /// it have changed, and not a word of what they are now.
    #[error(
        "Tool '{tool}' of MCP server '{server}' is held back: it is not what it was when it was first seen ({what} changed). An operator can look at the change and accept it: mcp-bridge accept {server} {tool}"
    )]
    Withheld {
        /// The server.
        server: String,
        /// The tool.
        tool: String,
        /// What has changed.
        what: String,
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
        "MCP server '{server}' timed out after {timeout_ms}ms. This is a transient error — retry the same tool call to continue."
    )]
    Timeout {
        /// The server.
        server: String,
        /// What the caller asked for, or less when the configuration grants less.
        timeout_ms: u128,
    },
    /// The caller cancelled. The server was told to stop.
    #[error("the call of '{tool}' on MCP server '{server}' was cancelled")]
    Cancelled {
        /// The server.
        server: String,
        /// The tool.
        tool: String,
    },
    /// The server does not take the arguments.
    #[error("{message}")]
    InvalidArguments {
        /// What the server says.
        message: String,
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
    },
}

impl CallError {
    /// The error code on the wire, which says whether the call may be repeated.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::NotConnected { .. }
            | Self::ServerUnknown { .. }
            | Self::ToolNotListed { .. }
            | Self::ToolUnknown { .. } => ErrorCode::ToolNotFound,
            Self::Denied { .. } | Self::Withheld { .. } | Self::NotGranted { .. } => {
                ErrorCode::Denied
            }
            Self::Busy { .. } => ErrorCode::Busy,
            Self::Timeout { .. } => ErrorCode::Timeout,
            Self::Cancelled { .. } => ErrorCode::Cancelled,
            Self::InvalidArguments { .. } => ErrorCode::InvalidArguments,
            Self::Unauthorized { .. } | Self::NeedsLogin { .. } => ErrorCode::AuthRequired,
            Self::RateLimited { .. } => ErrorCode::RateLimited,
            Self::OutcomeUnknown { .. } => ErrorCode::OutcomeUnknown,
            Self::Failed { .. } => ErrorCode::ExecutionFailed,
        }
    }
}

/// A list of names as the end of a sentence, where there are any.
pub(crate) fn name_list(what: &str, names: &[String]) -> String {
    if names.is_empty() { String::new() } else { format!(". {what}: {}", names.join(", ")) }
}

/// A reason as the end of a sentence, where there is one.
fn reason_suffix(reason: Option<&str>) -> String {
    reason.map_or_else(String::new, |reason| format!(": {reason}"))
}
