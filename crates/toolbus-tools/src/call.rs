//! Calls and their outcomes.

use std::time::Duration;

use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use toolbus_bus::{Asker, Deadline, Progress};
use toolbus_wire::ErrorCode;
use toolbus_wire::message::tool::ContentBlock;

/// A request to run a tool, as it comes in.
pub struct Call {
    /// The caller's id for it.
    pub id: String,
    /// The tool, by name.
    pub tool: String,
    /// The arguments.
    pub arguments: Arguments,
    /// Who calls.
    pub caller: String,
    /// The namespace that the call's memory lives under.
    pub session: Option<String>,
    /// How long it may take.
    pub time: Time,
    /// Fires when nobody wants the outcome any more.
    pub cancelled: CancellationToken,
    /// Takes progress.
    pub progress: Progress,
    /// Answers the call's questions.
    pub asker: Asker,
}

/// How long a call may take.
#[derive(Debug, Clone, Copy)]
pub enum Time {
    /// As long as the tool says.
    Default,
    /// This long from now.
    Budget(Duration),
    /// Until then.
    Until(Deadline),
}

/// Longest text of arguments, in bytes.
pub const ARGUMENTS_BYTES_MAX: usize = 8 << 20;

/// Arguments, as they come in.
#[derive(Debug, Clone)]
pub enum Arguments {
    /// JSON text, as the wire carries it. Absent or empty stands for `{}`.
    Text(Option<String>),
    /// A JSON value.
    Value(Value),
}

/// A call that has passed every gate, as its executor sees it.
pub struct Invocation {
    /// The caller's id for it.
    pub id: String,
    /// The tool, by its registered name.
    pub tool: String,
    /// The arguments, checked.
    pub arguments: Map<String, Value>,
    /// Who calls.
    pub caller: String,
    /// The namespace that the call's memory lives under.
    pub session: Option<String>,
    /// When it must have ended.
    pub deadline: Deadline,
    /// Fires when nobody wants the outcome any more.
    pub cancelled: CancellationToken,
    /// Takes progress.
    pub progress: Progress,
    /// Answers the call's questions.
    pub asker: Asker,
}

/// What becomes of a call, once.
pub type Outcome = Result<Output, CallError>;

/// What a tool gave back.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Output {
    /// Text for the model.
    pub content: Option<String>,
    /// The same and more in parts, when the tool gives parts.
    pub blocks: Vec<ContentBlock>,
    /// The same as a value, when the tool gives one.
    pub structured: Option<Value>,
    /// The tool says of itself that it failed, and the content says how.
    pub is_error: bool,
}

impl Output {
    /// Text.
    #[must_use]
    pub fn text(content: impl Into<String>) -> Self {
        Self { content: Some(content.into()), ..Self::default() }
    }

    /// Text that says what went wrong.
    #[must_use]
    pub fn error(content: impl Into<String>) -> Self {
        Self { is_error: true, ..Self::text(content) }
    }
}

/// Why a call has no output.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct CallError {
    /// What kind of failure it is.
    pub code: ErrorCode,
    /// What happened, for the model and for people. Never holds a secret.
    pub message: String,
}

impl CallError {
    /// An error of this kind.
    #[must_use]
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
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

impl Arguments {
    /// The object that they are. Text is unwrapped twice at most: the wire carries JSON text, and
    /// models like to wrap it once more.
    ///
    /// # Errors
    /// [`CallError::invalid_arguments`] when there is no object in them.
    pub fn object(&self) -> Result<Map<String, Value>, CallError> {
        match self {
            Self::Text(None) => Ok(Map::new()),
            Self::Text(Some(text)) if text.trim().is_empty() => Ok(Map::new()),
            Self::Text(Some(text)) => object(parse(text)?),
            Self::Value(value) => object(value.clone()),
        }
    }
}

fn object(value: Value) -> Result<Map<String, Value>, CallError> {
    match value {
        Value::Object(map) => Ok(map),
        Value::Null => Ok(Map::new()),
        Value::String(text) => match parse(&text)? {
            Value::Object(map) => Ok(map),
            other => Err(not_an_object(&other)),
        },
        other => Err(not_an_object(&other)),
    }
}

fn parse(text: &str) -> Result<Value, CallError> {
    if text.len() > ARGUMENTS_BYTES_MAX {
        return Err(CallError::invalid_arguments(format!(
            "arguments of {} bytes are over the limit of {ARGUMENTS_BYTES_MAX}",
            text.len()
        )));
    }
    serde_json::from_str(text)
        .map_err(|error| CallError::invalid_arguments(format!("arguments are not JSON: {error}")))
}

fn not_an_object(value: &Value) -> CallError {
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    };
    CallError::invalid_arguments(format!("arguments must be a JSON object, not {kind}"))
}

#[cfg(test)]
mod tests;
