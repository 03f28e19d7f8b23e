//! What a tool is: a name and a description that models read, a schema, and somebody to run it.

use std::borrow::Cow;
use std::time::Duration;

use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use toolbus_wire::json::RawJson;

use crate::audience::Audience;
use crate::call::{CallError, Invocation, Output};
use crate::subject::Subject;
use crate::tool_kind::{ProviderSpecs, ToolKind};

/// How long a call may take when neither the caller nor the tool says.
pub const TIMEOUT_DEFAULT: Duration = Duration::from_secs(60);

/// A tool as callers see it.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    /// What it is called by. Names differ by case.
    pub name: String,
    /// Other names that it answers to.
    pub aliases: Vec<String>,
    /// What it is called before people.
    pub title: Option<String>,
    /// What it does, for the model.
    pub description: String,
    /// JSON Schema of its arguments: always an object.
    pub parameters: Value,
    /// JSON Schema of its structured output.
    pub output_schema: Option<Value>,
    /// Pictures that stand for it, as MCP has them.
    pub icons: Vec<Value>,
    /// Who provides it, such as `script` or `mcp:management`.
    pub source: Cow<'static, str>,
    /// The group of tools that it belongs to; the guide of that name explains it.
    pub group: Option<Cow<'static, str>>,
    /// Words that it is found by.
    pub tags: Vec<String>,
    /// What it says of its side effects.
    pub annotations: Annotations,
    /// Its definition as an MCP server wrote it, for MCP clients, who read more of it.
    pub mcp_definition: Option<RawJson>,
    /// How much harm it says it can do. `None`: it does not say, and gates take it for
    /// [`Risk::UNDECLARED`].
    pub risk: Option<Risk>,
    /// For whom it is there. For everybody else it is found nowhere and cannot be called, whatever
    /// a policy says.
    pub audience: Audience,
    /// Who runs it.
    pub kind: ToolKind,
    /// Models are not shown it until they search for it.
    pub defer: bool,
    /// Its outputs are parts of what is stored already, and bounded by itself: no step stores them
    /// again in place of giving them out.
    pub reads_stored: bool,
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
    /// The tool declares that it deletes, overwrites or sends data irreversibly. A tool without a
    /// declaration counts as not destructive: few tools have one, and asking for each of their
    /// calls would train people to approve without looking.
    pub destructive: bool,
}

/// How much harm a tool can do, from the least to the most. It is compared by this rank, never by
/// its name.
///
/// Where other systems know `safe`, `high` and `critical`, those are [`Low`](Risk::Low),
/// [`High`](Risk::High) and [`Critical`](Risk::Critical). [`Medium`](Risk::Medium) lies between
/// `safe` and `high`: what lets only `safe` tools through without asking asks for it.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Risk {
    /// It changes nothing.
    Low,
    /// What it changes can be undone.
    Medium,
    /// What it changes may not be undone. It is what holds where nothing is said.
    High,
    /// It can do anything that its host can.
    Critical,
}

impl Risk {
    /// Every risk, from the least to the most.
    pub const ALL: [Self; 4] = [Self::Low, Self::Medium, Self::High, Self::Critical];

    /// What gates take a tool for that does not say.
    pub const UNDECLARED: Self = Self::High;

    /// Its name, as operators write it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Critical => "critical",
        }
    }
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
            title: None,
            description: description.into(),
            parameters: json!({"type": "object", "properties": {}}),
            output_schema: None,
            icons: Vec::new(),
            mcp_definition: None,
            source: source.into(),
            group: None,
            tags: Vec::new(),
            annotations: Annotations::default(),
            risk: None,
            audience: Audience::everybody(),
            kind: ToolKind::Local,
            defer: false,
            reads_stored: false,
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
        let annotations = Annotations { read_only: true, idempotent: true, destructive: false };
        Self { annotations, risk: Some(Risk::Low), ..self }
    }

    /// Marks the tool as one that deletes, overwrites or sends data irreversibly.
    #[must_use]
    pub fn destructive(self) -> Self {
        let annotations = Annotations { read_only: false, destructive: true, ..self.annotations };
        Self { annotations, ..self }
    }

    /// The same tool of this group, which has a guide.
    #[must_use]
    pub fn in_group(self, group: impl Into<Cow<'static, str>>) -> Self {
        Self { group: Some(group.into()), ..self }
    }

    /// The same tool with this risk.
    #[must_use]
    pub fn with_risk(self, risk: Risk) -> Self {
        Self { risk: Some(risk), ..self }
    }

    /// The same tool, which is there for this audience alone.
    #[must_use]
    pub fn for_audience(self, audience: Audience) -> Self {
        Self { audience, ..self }
    }

    /// How much harm gates take it to do.
    #[must_use]
    pub fn risk_at_gates(&self) -> Risk {
        self.risk.unwrap_or(Risk::UNDECLARED)
    }

    /// The same tool, which models are not shown until they search for it.
    #[must_use]
    pub fn deferred(self) -> Self {
        Self { defer: true, ..self }
    }

    /// The same tool, whose outputs are parts of what is stored already, and bounded by itself.
    #[must_use]
    pub fn reading_stored(self) -> Self {
        Self { reads_stored: true, ..self }
    }

    /// The same tool, run by the model's provider; offer it by
    /// [`Offer::hosted`](crate::registry::Offer::hosted).
    #[must_use]
    pub fn hosted_by_provider(self, specs: ProviderSpecs) -> Self {
        Self { kind: ToolKind::ProviderHosted(specs), ..self }
    }

    /// The same tool, defined by the model's provider and run here, where it answers calls of these
    /// types.
    #[must_use]
    pub fn defined_by_provider<T: Into<String>>(
        self,
        specs: ProviderSpecs,
        call_types: impl IntoIterator<Item = T>,
    ) -> Self {
        let call_types = call_types.into_iter().map(Into::into).collect();
        Self { kind: ToolKind::ProviderDefined { specs, call_types }, ..self }
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
    /// Runs one call. The invoker has checked the arguments. At the deadline it cancels the call,
    /// and drops the future a moment later, so what the call started must end with it.
    fn execute(&self, call: Invocation) -> BoxFuture<'_, Result<Output, CallError>>;

    /// Forgives habits of models before the arguments are checked: other spellings of a name, a
    /// list that came as text, a number out of bounds.
    fn coerce(&self, arguments: &mut Map<String, Value>) {
        let _ = arguments;
    }

    /// The members of the arguments that [`resolve`](Executor::resolve) reads. They select the tool
    /// that a call is about, so they take no references to artifacts.
    fn subject_members(&self) -> &'static [&'static str] {
        &[]
    }

    /// Which tool a call with these arguments is really about, where it is not the tool that was
    /// called; and makes the names of it in the arguments exact. It answers at once, from what is
    /// known here.
    ///
    /// # Errors
    /// When the arguments name nothing that there is.
    fn resolve(&self, arguments: &mut Map<String, Value>) -> Result<Option<Subject>, CallError> {
        let _ = arguments;
        Ok(None)
    }

    /// Waits until what a call with these arguments names is there, where it may yet come: a server
    /// that its worker has yet to announce. It is given up at any time, and then the call goes on.
    fn await_target<'a>(&'a self, arguments: &'a Map<String, Value>) -> BoxFuture<'a, ()> {
        let _ = arguments;
        Box::pin(std::future::ready(()))
    }

    /// How long this call may take when the caller does not say. `None`: as the tool says.
    fn timeout(&self, arguments: &Map<String, Value>) -> Option<Duration> {
        let _ = arguments;
        None
    }

    /// How much longer than that the call may take while it reports progress, where its caller
    /// allows it: each report gives it the same time once more. `None`: no longer.
    fn extension(&self, arguments: &Map<String, Value>) -> Option<Duration> {
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
