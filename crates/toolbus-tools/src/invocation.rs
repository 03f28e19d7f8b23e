//! What an executor is handed: a call that has passed every gate.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use serde_json::{Map, Value};
use toolbus_bus::CallContext;
use toolbus_wire::json::RawJson;
use toolbus_wire::{ErrorCode, Execution};
use tracing::{Instrument as _, Span};

use crate::call::{Arguments, Call, CallTime, Outcome};
use crate::call_error::CallError;
use crate::credentials::Credentials;
use crate::grant::Permit;
use crate::id::{CallId, ToolName};
use crate::invoker::{Invoker, InvokerInner};
use crate::registry::Snapshot;
use crate::scope::{Door, Scope};
use crate::subject::Subject;
use crate::written::{Written, params_of};

/// A call that has passed every gate, as its executor sees it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Invocation {
    /// The caller's id for it.
    pub id: CallId,
    /// The tool, by its registered name.
    pub tool: Arc<str>,
    /// The tool that it is really about.
    pub subject: Subject,
    /// Leave to have a worker run it.
    pub permit: Permit,
    /// The arguments, checked.
    pub arguments: Map<String, Value>,
    /// Who calls, and within which bounds.
    pub scope: Arc<Scope>,
    /// What it may be run with, and tell nobody.
    pub credentials: Credentials,
    /// Deadline, cancellation, progress and questions.
    pub context: CallContext,
    /// Makes calls of its own.
    pub calls: InnerCalls,
    pub(crate) written: Option<Written>,
}

impl Invocation {
    /// The params by which a tool is called with these arguments, which may be part of the call's:
    /// an object of `name` and `arguments`, those as their caller wrote them, and of what an MCP
    /// client wrote beside them.
    #[must_use]
    pub fn params(&self, tool: &str, arguments: &Value) -> RawJson {
        params_of(self.written.as_ref(), tool, arguments)
    }
}

/// A call that another makes, under an id of its own choice: the same id for the same work, so that
/// whoever looks at calls sees what belongs together.
#[derive(Debug, Clone)]
pub struct InnerCall {
    /// Its id.
    pub id: CallId,
    /// The tool.
    pub tool: ToolName,
    /// The arguments.
    pub arguments: Value,
    /// How long the tool may run, without what its approval takes. `None`: until the deadline of
    /// the call that makes it.
    pub execution: Option<Duration>,
}

/// Makes calls in the name of a call that runs, through the same gates: for chains and whatever
/// else calls tools. Clones belong to the same call.
#[derive(Clone)]
pub struct InnerCalls {
    invoker: Weak<InvokerInner>,
    scope: Arc<Scope>,
    parent: CallId,
    context: CallContext,
    span: Span,
    /// How many of the calls were started, or may have been: those that run and those that were
    /// dropped are among them.
    maybe_started: Arc<AtomicUsize>,
}

impl InnerCalls {
    pub(crate) fn new(
        invoker: Weak<InvokerInner>,
        scope: &Arc<Scope>,
        parent: &CallId,
        context: &CallContext,
    ) -> Self {
        Self {
            invoker,
            scope: Arc::clone(scope),
            parent: parent.clone(),
            context: context.clone(),
            span: Span::current(),
            maybe_started: Arc::default(),
        }
    }

    /// The scope of the calls to come, for who narrows it.
    ///
    /// # Errors
    /// When calls are nested too deep.
    pub fn scope(&self, door: Door) -> Result<Scope, CallError> {
        self.scope.child(door, &self.parent).ok_or_else(|| {
            CallError::new(ErrorCode::Denied, "calls are nested too deep")
                .with_execution(Execution::NotStarted)
        })
    }

    /// The tools of this moment, whoever sees them. None are there once the invoker is gone.
    #[must_use]
    pub fn tools(&self) -> Arc<Snapshot> {
        let invoker = self.invoker.upgrade().map(Invoker::of);
        invoker.map(|invoker| invoker.registry().snapshot()).unwrap_or_default()
    }

    /// Whether a call of this tool with these arguments may change something, as far as the tool
    /// that it is really about says. One that is not there changes nothing.
    #[must_use]
    pub fn may_change(&self, tool: &str, arguments: &Map<String, Value>) -> bool {
        self.tools().may_change(tool, arguments)
    }

    /// Makes a call in such a scope. It ends with the call that makes it, at the latest at that
    /// one's deadline.
    pub async fn call(&self, scope: &Arc<Scope>, tool: ToolName, arguments: Value) -> Outcome {
        let call = InnerCall { id: CallId::random(), tool, arguments, execution: None };
        self.make(scope, call).await
    }

    /// The same, whose tool may run as long as this. What its approval takes does not count.
    pub async fn call_within(
        &self,
        scope: &Arc<Scope>,
        tool: ToolName,
        arguments: Value,
        execution: Duration,
    ) -> Outcome {
        let execution = Some(execution);
        let call = InnerCall { id: CallId::random(), tool, arguments, execution };
        self.make(scope, call).await
    }

    /// The same, with an id that its maker gives it.
    pub async fn make(&self, scope: &Arc<Scope>, call: InnerCall) -> Outcome {
        let InnerCall { id, tool, arguments, execution } = call;
        let time = CallTime { execution, ..CallTime::until(self.context.deadline) };
        let Some(inner) = self.invoker.upgrade() else {
            return Err(CallError::cancelled().with_execution(Execution::NotStarted));
        };
        let arguments = Arguments::Value(arguments);
        let call = Call::new(scope, id, tool, arguments)
            .with_time(time)
            .with_cancelled(self.context.cancelled.child_token())
            .with_asker(self.context.asker.clone());

        // Counted first: a call that is dropped never comes to say how it ended.
        self.maybe_started.fetch_add(1, Ordering::AcqRel);
        // The span is named, not inherited: whoever calls may have come back in another task.
        let outcome = Invoker::of(inner).invoke(call).instrument(self.span.clone()).await;

        if matches!(&outcome, Err(error) if error.execution == Execution::NotStarted) {
            self.maybe_started.fetch_sub(1, Ordering::AcqRel);
        }
        outcome
    }

    /// The error of the tool that makes the calls. Where one of them was started, making the whole
    /// again would repeat it, so the error of another does not stand for the tool's own: the tool
    /// was started, too, and is not retryable for it.
    pub(crate) fn complete(&self, error: CallError) -> CallError {
        if self.maybe_started.load(Ordering::Acquire) == 0 {
            return error;
        }

        match error.execution {
            Execution::NotStarted => error.with_execution(Execution::Started),
            known => error.with_execution(known),
        }
    }
}

impl fmt::Debug for InnerCalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InnerCalls").field("parent", &self.parent).finish_non_exhaustive()
    }
}
