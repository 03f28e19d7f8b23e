//! What a tool is: a name and a description that models read, a schema, and somebody to run it.

use std::borrow::Cow;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::{Map, Value, json};

use crate::call::{CallError, Invocation, Output};

/// How long a call may take when neither the caller nor the tool says.
pub const TIMEOUT_DEFAULT: Duration = Duration::from_secs(60);

/// A tool as callers see it.
#[derive(Debug, Clone)]
pub struct Tool {
    /// What it is called by. Names differ by case.
    pub name: String,
    /// Other names that it answers to.
    pub aliases: Vec<String>,
    /// What it does, for the model.
    pub description: String,
    /// JSON Schema of its arguments: always an object.
    pub parameters: Value,
    /// Who provides it, such as `script` or `mcp:management`.
    pub source: Cow<'static, str>,
    /// What it says of its side effects.
    pub annotations: Annotations,
    /// How long a call may take when the caller does not say.
    pub timeout: Duration,
    /// What the check says of a missing argument, with `{}` for its name, where models know a
    /// fixed text.
    pub missing_argument: Option<&'static str>,
}

/// What a tool says of its side effects. Nothing said means the worst.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Annotations {
    /// It changes nothing.
    pub read_only: bool,
    /// Running it twice is the same as once.
    pub idempotent: bool,
}

impl Annotations {
    /// Whether a call may run again when nobody knows whether it ran.
    #[must_use]
    pub fn may_repeat(self) -> bool {
        self.read_only || self.idempotent
    }
}

impl Tool {
    /// A tool without arguments; see the `with_` functions for the rest.
    #[must_use]
    pub fn new(
        name: impl Into<String>,
        description: impl Into<String>,
        source: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self {
            name: name.into(),
            aliases: Vec::new(),
            description: description.into(),
            parameters: json!({"type": "object", "properties": {}}),
            source: source.into(),
            annotations: Annotations::default(),
            timeout: TIMEOUT_DEFAULT,
            missing_argument: None,
        }
    }

    /// The same tool with this schema of its arguments.
    #[must_use]
    pub fn with_parameters(self, parameters: Value) -> Self {
        Self { parameters, ..self }
    }

    /// The same tool, changing nothing when it runs.
    #[must_use]
    pub fn read_only(self) -> Self {
        Self { annotations: Annotations { read_only: true, idempotent: true }, ..self }
    }

    /// The same tool with one more name.
    #[must_use]
    pub fn with_alias(mut self, alias: impl Into<String>) -> Self {
        self.aliases.push(alias.into());
        self
    }

    /// The same tool with this timeout.
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// The same tool with this text for a missing argument; `{}` stands for its name.
    #[must_use]
    pub fn with_missing_argument(self, text: &'static str) -> Self {
        Self { missing_argument: Some(text), ..self }
    }
}

/// Runs a tool.
pub trait Executor: Send + Sync + 'static {
    /// Runs one call. The invoker has checked the arguments, and drops the future at the deadline,
    /// so what the call started must end with it.
    fn execute(&self, call: Invocation) -> BoxFuture<'_, Result<Output, CallError>>;

    /// Forgives habits of models before the arguments are checked: other spellings of a name, a
    /// list that came as text, a number out of bounds.
    fn coerce(&self, arguments: &mut Map<String, Value>) {
        let _ = arguments;
    }

    /// How long this call may take when the caller does not say. `None`: as the tool says.
    fn timeout(&self, arguments: &Map<String, Value>) -> Option<Duration> {
        let _ = arguments;
        None
    }
}

impl<F, Fut> Executor for F
where
    F: Fn(Invocation) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Output, CallError>> + Send + 'static,
{
    fn execute(&self, call: Invocation) -> BoxFuture<'_, Result<Output, CallError>> {
        Box::pin(self(call))
    }
}
