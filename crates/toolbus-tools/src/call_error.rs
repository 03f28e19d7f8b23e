//! Why a call has no output, and what its caller may conclude from that.

use std::time::Duration;

use serde_json::{Value, json};
use toolbus_wire::{ErrorCode, Execution};

/// Why a call has no output.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct CallError {
    /// What kind of failure it is.
    pub code: ErrorCode,
    /// What happened, for the model and for people. Never holds a secret, and is never read by a
    /// program.
    pub message: String,
    /// Whether the tool was started.
    pub execution: Execution,
    /// Whether the same call may succeed, and does no harm, when it is made again.
    pub is_retryable: bool,
    /// How long to wait before that.
    pub retry_after: Option<Duration>,
    /// What a program may read of it.
    pub details: Option<Box<Value>>,
}

impl CallError {
    /// An error of this kind. Whether the tool was started is what its code says, and it is
    /// retryable only where it was not; see the `with_` functions for who knows more.
    #[must_use]
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        let execution = code.execution();
        Self {
            is_retryable: code.is_retryable() && execution == Execution::NotStarted,
            code,
            message: message.into(),
            execution,
            retry_after: None,
            details: None,
        }
    }

    /// The same error by somebody who knows whether the tool was started.
    #[must_use]
    pub fn with_execution(mut self, execution: Execution) -> Self {
        self.execution = execution;
        self.is_retryable = self.code.is_retryable() && execution == Execution::NotStarted;
        self
    }

    /// The same error of a tool that may run twice: it is retryable whenever its code is.
    #[must_use]
    pub fn of_repeatable(mut self) -> Self {
        self.is_retryable = self.code.is_retryable();
        self
    }

    /// The same error, after which to wait this long.
    #[must_use]
    pub fn with_retry_after(self, wait: Duration) -> Self {
        Self { retry_after: Some(wait), ..self }
    }

    /// The same error with this for programs to read.
    #[must_use]
    pub fn with_details(self, details: Value) -> Self {
        Self { details: Some(Box::new(details)), ..self }
    }

    /// The error for programs: the members that it has on the wire, and those only that it has.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut error = json!({
            "code": self.code.as_str(),
            "message": self.message,
            "isRetryable": self.is_retryable,
            "execution": self.execution.as_str(),
        });

        if let Some(wait) = self.retry_after {
            error["retryAfterMs"] = json!(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
        }
        if let Some(details) = &self.details {
            error["details"] = Value::clone(details);
        }
        error
    }

    /// The arguments are not what the tool takes.
    #[must_use]
    pub fn invalid_arguments(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::InvalidArguments, message)
    }

    /// The tool was run and failed.
    #[must_use]
    pub fn execution_failed(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::ExecutionFailed, message)
    }

    /// The time that the caller gave was not enough.
    #[must_use]
    pub fn timeout(tool: &str, asked: Duration) -> Self {
        Self::new(
            ErrorCode::Timeout,
            format!("tool '{tool}' did not end within {} ms", asked.as_millis()),
        )
    }

    /// The caller cancelled.
    #[must_use]
    pub fn cancelled() -> Self {
        Self::new(ErrorCode::Cancelled, "the call was cancelled")
    }

    /// No tool of that name.
    #[must_use]
    pub fn not_registered(tool: &str) -> Self {
        Self::new(ErrorCode::ToolNotFound, format!("Tool '{tool}' is not registered."))
    }
}

#[cfg(test)]
mod tests;
