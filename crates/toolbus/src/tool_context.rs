//! What a tool's function knows of the call that it runs for.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use toolbus_bus::CallContext;
use toolbus_tools::call::{InnerCalls, Invocation, Outcome};
use toolbus_tools::id::{CallId, ToolName};
use toolbus_tools::{CallError, Credentials, Door, Scope};
use toolbus_wire::message::toolbus::ToolProgress;

/// What a tool's function knows of the call that it runs for, and what it can do meanwhile. Clones
/// belong to the same call.
#[derive(Debug, Clone)]
pub struct ToolContext {
    id: CallId,
    scope: Arc<Scope>,
    context: CallContext,
    calls: InnerCalls,
    credentials: Arc<Credentials>,
}

impl ToolContext {
    /// Takes a call apart: its arguments, and what else is known of it.
    pub(crate) fn of(call: Invocation) -> (Map<String, Value>, Self) {
        let Invocation { id, arguments, scope, context, calls, credentials, .. } = call;
        let credentials = Arc::new(credentials);
        (arguments, Self { id, scope, context, calls, credentials })
    }

    /// The caller's id for the call. It may be any text of at most 256 bytes, and is unique within
    /// a run at most.
    #[must_use]
    pub fn call_id(&self) -> &CallId {
        &self.id
    }

    /// Who calls, and within which bounds.
    #[must_use]
    pub fn scope(&self) -> &Arc<Scope> {
        &self.scope
    }

    /// The credential of this name that the call is made with, where there is a gate that finds
    /// them (see [`ToolbusBuilder::credentials`](crate::ToolbusBuilder::credentials)) and there is
    /// one for this tool and caller. It is erased from what the tool returns and reports, from six
    /// bytes on; what the tool hands it to is the tool's affair.
    #[must_use]
    pub fn credential(&self, name: &str) -> Option<&str> {
        self.credentials.get(name)
    }

    /// How much time is left. When it is over, the function's future is dropped.
    #[must_use]
    pub fn time_left(&self) -> Duration {
        self.context.deadline.left()
    }

    /// Whether nobody wants the outcome any more.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.context.cancelled.is_cancelled()
    }

    /// Waits until nobody wants the outcome any more. From then on the function has 300 ms to tidy
    /// up, and is dropped after that.
    pub async fn cancelled(&self) {
        self.context.cancelled.cancelled().await;
    }

    /// Tells the caller what is being done. It may be lost, and never waits.
    pub fn report(&self, message: impl Into<String>) {
        self.send(ToolProgress { message: Some(message.into()), ..ToolProgress::default() });
    }

    /// Tells the caller how much of how much is done, in units of the tool's own. It may be lost,
    /// and never waits.
    pub fn report_progress(&self, done: f64, total: Option<f64>) {
        self.send(ToolProgress { progress: Some(done), total, ..ToolProgress::default() });
    }

    /// Calls another tool of the same agent in the caller's name, through the same gates, within
    /// the same budget and view. It ends with this call.
    ///
    /// Once such a call was started, an error of this tool says that the tool was started, and is
    /// retryable only where the tool may run twice: `?` on the error of a second call does not
    /// invite anybody to repeat the first.
    ///
    /// # Errors
    /// Those of the other tool; `denied` where calls are nested too deep.
    pub async fn call(&self, tool: &str, arguments: Value) -> Outcome {
        let tool = ToolName::parse(tool)
            .map_err(|error| CallError::invalid_arguments(error.to_string()))?;
        let scope = Arc::new(self.calls.scope(Door::Embedded)?);
        self.calls.call(&scope, tool, arguments).await
    }

    /// Deadline, cancellation, progress and questions of the call as they are, to be handed on or
    /// to ask the caller something.
    #[must_use]
    pub fn call_context(&self) -> &CallContext {
        &self.context
    }

    /// Makes calls in a scope that is narrower than the caller's.
    #[must_use]
    pub fn inner_calls(&self) -> &InnerCalls {
        &self.calls
    }

    fn send(&self, progress: ToolProgress) {
        self.context.progress.send(progress);
    }
}
