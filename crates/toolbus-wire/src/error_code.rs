//! Error codes: how a caller tells one failure from another.

use crate::Execution;

text_enum! {
    /// Why a call has no result. On the wire it is the `code` of a
    /// [`ToolError`](crate::message::tool::ToolError).
    pub enum ErrorCode {
        /// No tool of that name, or the server that had it is not connected.
        ToolNotFound = "tool_not_found",
        /// The arguments are not a JSON object, or not what the tool's schema asks for.
        InvalidArguments = "invalid_arguments",
        /// The time that the caller gave was not enough.
        Timeout = "timeout",
        /// The tool was started and failed.
        ExecutionFailed = "execution_failed",
        /// The tool ran and said itself that it failed. Never on the wire: there it is a response
        /// with `isError`.
        ToolError = "tool_error",
        /// A policy forbids the call.
        Denied = "denied",
        /// The caller made too many calls.
        RateLimited = "rate_limited",
        /// The worker has no room for the call.
        Busy = "busy",
        /// The caller cancelled the call.
        Cancelled = "cancelled",
        /// No queue takes the request: nobody serves it.
        Unroutable = "unroutable",
        /// The call was started and its worker was lost: it may have taken effect or not.
        OutcomeUnknown = "outcome_unknown",
        /// The server behind the tool wants a credential that it was not given.
        AuthRequired = "auth_required",
    }
}

impl ErrorCode {
    /// Whether the same call may succeed when it is made again, as far as the code tells. A call
    /// that may have been started is not to be made again for that alone.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        matches!(self, Self::Timeout | Self::Busy | Self::RateLimited | Self::Unroutable)
    }

    /// Whether the work of a call that ended with this code was started, where nobody says more.
    #[must_use]
    pub const fn execution(&self) -> Execution {
        match self {
            Self::ToolNotFound
            | Self::InvalidArguments
            | Self::Denied
            | Self::RateLimited
            | Self::Busy
            | Self::Unroutable
            | Self::AuthRequired => Execution::NotStarted,
            Self::ExecutionFailed | Self::ToolError => Execution::Started,
            Self::Timeout | Self::Cancelled | Self::OutcomeUnknown | Self::Other(_) => {
                Execution::Unknown
            }
        }
    }
}
