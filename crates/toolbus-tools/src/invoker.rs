//! The invoker: the one way to run a tool.
//!
//! Agent turn, command line, bus message, schedule: every call comes here, passes the same gates in
//! the same order, runs within its deadline, and is recorded whatever its outcome.

mod record;
mod shape;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use toolbus_bus::Deadline;
use tracing::Instrument as _;

use crate::call::{Call, CallError, Invocation, Outcome, Time};
use crate::gate::{FitsSchema, Gate, LookUp, NotCancelled, Open, Passage, ReadArguments, Verdict};
use crate::registry::Registry;
use crate::tool::TIMEOUT_DEFAULT;
use record::Recorder;

/// How long an executor may take to tidy up once its call was cancelled, before it is dropped.
const CANCEL_GRACE: Duration = Duration::from_millis(300);

/// Every gate, in the order in which a call passes them.
#[must_use]
pub fn gates() -> Vec<Box<dyn Gate>> {
    vec![
        Box::new(Open("budget")),
        Box::new(LookUp),
        Box::new(Open("kind")),
        Box::new(Open("permission")),
        Box::new(ReadArguments),
        Box::new(FitsSchema),
        Box::new(Open("rate limit")),
        Box::new(Open("approval")),
        Box::new(Open("artifacts")),
        Box::new(NotCancelled),
        Box::new(Open("credentials")),
    ]
}

/// Runs calls. Clones are the same invoker.
#[derive(Clone)]
pub struct Invoker {
    inner: Arc<Inner>,
}

struct Inner {
    registry: Arc<Registry>,
    gates: Vec<Box<dyn Gate>>,
    recorder: Recorder,
}

impl Invoker {
    /// An invoker of the tools of a registry, with every gate. It counts with the global meter, so
    /// telemetry is to be set up before.
    #[must_use]
    pub fn new(registry: Arc<Registry>) -> Self {
        let recorder = Recorder::new(&opentelemetry::global::meter(crate::metrics::METER));
        Self { inner: Arc::new(Inner { registry, gates: gates(), recorder }) }
    }

    /// The tools.
    #[must_use]
    pub fn registry(&self) -> &Arc<Registry> {
        &self.inner.registry
    }

    /// Runs a call to its one outcome. Dropping the future drops the tool's work, and the call is
    /// recorded as cancelled.
    pub async fn invoke(&self, call: Call) -> Outcome {
        let recording = self.inner.recorder.begin(&call);
        let span = recording.span().clone();
        let outcome = AssertUnwindSafe(self.pass_and_run(call)).catch_unwind().instrument(span);
        let outcome = outcome.await.unwrap_or_else(|_| Err(panicked(recording.tool())));
        let outcome = outcome.map(shape::shape);
        recording.end(&outcome);
        outcome
    }

    async fn pass_and_run(&self, call: Call) -> Outcome {
        let cancelled = call.cancelled.clone();
        let deadline = match call.time {
            Time::Default => Deadline::after(TIMEOUT_DEFAULT),
            Time::Budget(budget) => Deadline::after(budget),
            Time::Until(deadline) => deadline,
        };
        let registry = &self.inner.registry;
        let mut passage = Passage { call, registry, tool: None, arguments: Value::Null, deadline };
        for gate in &self.inner.gates {
            let deadline = passage.deadline;
            let in_time = match gate.check(&mut passage) {
                Verdict::Now(verdict) => Some(verdict),
                // No gate may keep a call past its deadline, whomever it waits for.
                Verdict::Later(verdict) => tokio::select! {
                    biased;
                    verdict = verdict => Some(verdict),
                    () = cancelled.cancelled() => Some(Err(CallError::cancelled())),
                    () = tokio::time::sleep_until(deadline.at()) => None,
                },
            };
            let late = || CallError::timeout(&passage.call.tool, deadline.asked());
            if let Err(error) = in_time.unwrap_or_else(|| Err(late())) {
                tracing::debug!(gate = gate.name(), code = %error.code, "refused a call");
                return Err(error);
            }
        }
        run(passage, &cancelled).await
    }
}

async fn run(passage: Passage<'_>, cancelled: &CancellationToken) -> Outcome {
    let registered = Arc::clone(passage.tool()?);
    let Passage { call, arguments, deadline, .. } = passage;
    let Value::Object(arguments) = arguments else {
        return Err(CallError::invalid_arguments("arguments must be a JSON object"));
    };
    let invocation = Invocation {
        id: call.id,
        tool: registered.tool.name.clone(),
        arguments,
        caller: call.caller,
        session: call.session,
        deadline,
        cancelled: call.cancelled,
        progress: call.progress,
        asker: call.asker,
    };
    let mut work = registered.executor.execute(invocation);
    // The work is dropped when its time is over or when it does not end on being told to: an
    // executor promises that what it started ends with it.
    tokio::select! {
        biased;
        outcome = &mut work => outcome,
        () = cancelled.cancelled() => {
            let ended = tokio::time::timeout(CANCEL_GRACE, work).await;
            ended.unwrap_or_else(|_| Err(CallError::cancelled()))
        }
        () = tokio::time::sleep_until(deadline.at()) => {
            Err(CallError::timeout(&registered.tool.name, deadline.asked()))
        }
    }
}

/// A panic is caught around the gates as well: what a tool makes of its arguments runs there.
fn panicked(tool: &str) -> CallError {
    tracing::error!(tool, "a tool panicked");
    CallError::execution_failed(format!("tool '{tool}' failed: it panicked"))
}

#[cfg(test)]
mod tests;
