//! Calls and their outcomes.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use toolbus_bus::{Asker, CallContext, Deadline, Progress, Slot};
use toolbus_json::{Error, Limits, OverLimit};
use toolbus_wire::json::RawJson;
use toolbus_wire::message::tool::ContentBlock;

pub use crate::call_error::CallError;
pub use crate::invocation::{InnerCall, InnerCalls, Invocation};

use crate::artifact::{ArtifactFile, ArtifactInfo};
use crate::id::{CallId, ToolName};
use crate::scope::Scope;

/// A request to run a tool, as it comes in.
#[derive(Debug, Clone)]
pub struct Call {
    /// The caller's id for it.
    pub id: CallId,
    /// The tool, by name.
    pub tool: ToolName,
    /// The arguments.
    pub arguments: Arguments,
    /// The type of the call, where the model's provider makes it of a tool that it defines. `None`:
    /// the tool is called by its name.
    pub call_type: Option<Arc<str>>,
    /// The params of the request that an MCP client makes the call by, as it wrote them.
    pub mcp_params: Option<RawJson>,
    /// Who calls, and within which bounds.
    pub scope: Arc<Scope>,
    /// How long it may take.
    pub time: CallTime,
    /// Fires when nobody wants the outcome any more.
    pub cancelled: CancellationToken,
    /// Takes progress.
    pub progress: Progress,
    /// Answers the call's questions.
    pub asker: Asker,
    /// The place that it takes up where it came in, which a gate may free while the call waits.
    pub slot: Slot,
}

/// How long a call may take, by two clocks: a caller that waits for a person's approval gives the
/// tool no less time for that.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CallTime {
    /// When the caller stops waiting, whatever the call is doing. `None`: it waits for the gates as
    /// long as they let it, at most [`CALLER_TIMEOUT_DEFAULT`].
    pub caller_deadline: Option<Deadline>,
    /// How long the tool may run. `None`: as long as the caller waits, and where that is not said
    /// either, as long as the tool says.
    pub execution: Option<Duration>,
    /// Whether progress may make a call longer whose time the tool says: a caller that waits for as
    /// long as there is progress.
    pub is_extended_by_progress: bool,
}

/// How long a caller that does not say waits for the gates.
pub const CALLER_TIMEOUT_DEFAULT: Duration = Duration::from_secs(15 * 60);

/// Longest text of arguments, in bytes.
pub const ARGUMENTS_BYTES_MAX: usize = 8 << 20;
/// Most values in arguments: each takes up to a hundred bytes of memory.
pub const ARGUMENTS_VALUES_MAX: usize = 256 << 10;
/// Deepest nesting of arguments. They are put into other values, such as the events of a session,
/// whose readers take a little more.
pub const ARGUMENTS_DEPTH_MAX: usize = 100;
/// What the text of arguments may have.
pub const ARGUMENTS_LIMITS: Limits = Limits::of_bytes(ARGUMENTS_BYTES_MAX)
    .with_values(ARGUMENTS_VALUES_MAX)
    .with_depth(ARGUMENTS_DEPTH_MAX);

/// Arguments, as they come in.
#[derive(Debug, Clone)]
pub enum Arguments {
    /// JSON text, as the wire carries it. Absent or empty stands for `{}`.
    Text(Option<String>),
    /// A JSON value.
    Value(Value),
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
    pub structured: Option<RawJson>,
    /// The whole result as an MCP server wrote it, for a caller that is an MCP client. The rest is
    /// then empty.
    pub mcp: Option<RawJson>,
    /// Where the whole text is kept of which `content` is the beginning, or the whole value that
    /// `structured` sums up.
    pub artifact: Option<ArtifactInfo>,
    /// What was among its parts and is kept as files.
    pub files: Vec<ArtifactFile>,
    /// The tool says of itself that it failed, and the content says how.
    pub is_error: bool,
}

impl Output {
    /// Text.
    #[must_use]
    pub fn text(content: impl Into<String>) -> Self {
        Self { content: Some(content.into()), ..Self::default() }
    }

    /// What a reader gets who takes text alone: the content, or else the parts in words.
    #[must_use]
    pub fn to_text(&self) -> Cow<'_, str> {
        if let Some(content) = &self.content {
            return Cow::Borrowed(content);
        }
        let parts: Vec<_> = self.blocks.iter().map(ContentBlock::to_text).collect();
        Cow::Owned(parts.join("\n"))
    }

    /// How long that text is, in bytes; where an MCP server's result is whole, that of its JSON.
    #[must_use]
    pub fn text_bytes(&self) -> usize {
        if let Some(whole) = &self.mcp {
            return whole.text().len();
        }
        if let Some(content) = &self.content {
            return content.len();
        }
        let breaks = self.blocks.len().saturating_sub(1);
        self.blocks.iter().map(|block| block.to_text().len()).sum::<usize>() + breaks
    }

    /// Text that says what went wrong.
    #[must_use]
    pub fn error(content: impl Into<String>) -> Self {
        Self { is_error: true, ..Self::text(content) }
    }
}

impl Call {
    /// A call of the tool of this name, with an id of its own; otherwise as [`Call::new`].
    ///
    /// # Errors
    /// When the name is none that could be called.
    pub fn by_name(
        scope: &Arc<Scope>,
        tool: &str,
        arguments: Value,
    ) -> Result<Self, crate::id::Error> {
        let tool = ToolName::parse(tool)?;
        Ok(Self::new(scope, CallId::random(), tool, Arguments::Value(arguments)))
    }

    /// A call that takes as long as its tool says, that its scope alone cancels, and whose progress
    /// and questions nobody takes; see the `with_` functions for the rest.
    #[must_use]
    pub fn new(scope: &Arc<Scope>, id: CallId, tool: ToolName, arguments: Arguments) -> Self {
        Self {
            id,
            tool,
            arguments,
            call_type: None,
            mcp_params: None,
            scope: Arc::clone(scope),
            time: CallTime::default(),
            cancelled: scope.cancelled.child_token(),
            progress: Progress::none(),
            asker: Asker::none(),
            slot: Slot::none(),
        }
    }

    /// The same call, which the model's provider makes of a tool that it defines, by this type.
    #[must_use]
    pub fn with_call_type(self, call_type: impl Into<Arc<str>>) -> Self {
        Self { call_type: Some(call_type.into()), ..self }
    }

    /// The same call, which an MCP client makes by a request with these params.
    #[must_use]
    pub fn with_mcp_params(self, params: RawJson) -> Self {
        Self { mcp_params: Some(params), ..self }
    }

    /// Replaces the arguments of the call, also in the MCP request that it came with.
    pub(crate) fn replace_arguments(&mut self, arguments: &Value) {
        self.arguments = Arguments::Value(arguments.clone());
        let params = self.mcp_params.take();
        self.mcp_params =
            params.map(|params| params.with_member("arguments", Some(&RawJson::of(arguments))));
    }

    /// The same call with this time.
    #[must_use]
    pub fn with_time(self, time: CallTime) -> Self {
        Self { time, ..self }
    }

    /// The same call, cancelled by this token.
    #[must_use]
    pub fn with_cancelled(self, cancelled: CancellationToken) -> Self {
        Self { cancelled, ..self }
    }

    /// The same call, which reports progress here.
    #[must_use]
    pub fn with_progress(self, progress: Progress) -> Self {
        Self { progress, ..self }
    }

    /// The same call, whose questions this asker answers.
    #[must_use]
    pub fn with_asker(self, asker: Asker) -> Self {
        Self { asker, ..self }
    }

    /// The same call, which takes up this slot.
    #[must_use]
    pub fn with_slot(self, slot: Slot) -> Self {
        Self { slot, ..self }
    }

    /// The same call in the context that it came in with.
    #[must_use]
    pub fn with_context(self, context: CallContext) -> Self {
        let CallContext { deadline, cancelled, progress, asker } = context;
        Self { time: CallTime::until(deadline), cancelled, progress, asker, ..self }
    }
}

impl CallTime {
    /// The caller waits this long from now, for gates and tool together.
    #[must_use]
    pub fn within(time: Duration) -> Self {
        Self::until(Deadline::after(time))
    }

    /// The caller waits until then.
    #[must_use]
    pub const fn until(caller_deadline: Deadline) -> Self {
        let caller_deadline = Some(caller_deadline);
        Self { caller_deadline, execution: None, is_extended_by_progress: false }
    }

    /// The tool may run as long as this, whoever waits for it.
    #[must_use]
    pub const fn of_execution(time: Duration) -> Self {
        let execution = Some(time);
        Self { caller_deadline: None, execution, is_extended_by_progress: false }
    }

    /// When the caller stops waiting.
    pub(crate) fn caller_deadline_or_default(&self) -> Deadline {
        self.caller_deadline.unwrap_or_else(|| Deadline::after(CALLER_TIMEOUT_DEFAULT))
    }

    /// When a tool that starts now has to end, if it says this of itself; `extension` is how much
    /// later that may be where there is progress.
    pub(crate) fn execution_deadline(
        &self,
        tool_timeout: Duration,
        extension: Option<Duration>,
    ) -> Deadline {
        match (self.caller_deadline, self.execution) {
            (Some(caller_deadline), None) => caller_deadline,
            (None, None) if self.is_extended_by_progress => {
                let extension = extension.unwrap_or_default();
                Deadline::after(tool_timeout).extended_by_progress(extension)
            }
            (None, execution) => Deadline::after(execution.unwrap_or(tool_timeout)),
            (Some(caller_deadline), Some(execution)) => {
                let execution = Deadline::after(execution);
                if execution.at() < caller_deadline.at() { execution } else { caller_deadline }
            }
        }
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
    toolbus_json::from_str(text, &ARGUMENTS_LIMITS).map_err(|error| {
        CallError::invalid_arguments(match error {
            Error::OverLimit(OverLimit::Bytes { bytes, max }) => {
                format!("arguments of {bytes} bytes are over the limit of {max}")
            }
            Error::OverLimit(OverLimit::Values { max }) => {
                format!("arguments have more than {max} values")
            }
            Error::OverLimit(OverLimit::Depth { max }) => {
                format!("arguments are nested more than {max} deep")
            }
            error => format!("arguments are not JSON: {error}"),
        })
    })
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
