//! The invoker: the one way to run a tool.
//!
//! Agent turn, command line, bus message, schedule: every call comes here, passes the same gates in
//! the same order, runs within its time, and is recorded whatever its outcome. What is no tool but
//! reaches into the same places, such as reading a resource, is admitted by the same gates and
//! leaves the same record.

mod admit;
mod builder;
mod record;
mod shape;

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolbus_bus::{CallContext, Deadline, Interruption, Progress};
use toolbus_wire::Execution;
use tracing::Instrument as _;

use crate::artifact::{ReadReferences, has_reference};
use crate::budget;
use crate::call::{Arguments, Call, CallError, InnerCalls, Invocation, Outcome};
use crate::credentials::{erase_outcome, erase_progress};
use crate::gate::{
    Gate, Passage, Verdict, charge_budget, forgive_habits, look_up, read_arguments,
    refuse_selecting_references, resolve_subject,
};
use crate::grant::{GrantSigner, Permit};
use crate::observe::ArgumentsDigest;
use crate::policy::Policy;
use crate::registry::{Registry, ToolEntry};
use crate::scope::Scope;
use crate::subject::Subject;
use crate::written::Written;
pub use admit::{Admitted, ReadContext};
pub use builder::InvokerBuilder;
use record::{Recorder, Recording};
pub use shape::{Shape, ShapeContext};

/// How long an executor may take to clean up once its call was cancelled or out of time, before it
/// is dropped.
const CANCEL_GRACE: Duration = Duration::from_millis(300);

/// Runs calls. Clones are the same invoker.
#[derive(Clone)]
pub struct Invoker {
    inner: Arc<InvokerInner>,
}

/// What the clones of an invoker share.
pub(crate) struct InvokerInner {
    registry: Arc<Registry>,
    /// Reads the artifacts that arguments refer to. Without it, references are data.
    references: Option<Box<dyn ReadReferences>>,
    /// In the order in which a call passes them.
    gates: Vec<Box<dyn Gate>>,
    shapes: Vec<Arc<dyn Shape>>,
    policy: Arc<dyn Policy>,
    recorder: Recorder,
    /// What permits are sealed with, where workers are to check them.
    grant_signer: Option<GrantSigner>,
    /// Tools that clean up after the end of their calls.
    cleanups: TaskTracker,
}

impl Invoker {
    /// An invoker of the tools of a registry, which allows everything and limits nothing. It counts
    /// with the global meter, so telemetry is to be set up before.
    #[must_use]
    pub fn new(registry: Arc<Registry>) -> Self {
        Self::builder(registry).build()
    }

    /// An invoker of the tools of a registry, to be set up.
    #[must_use]
    pub fn builder(registry: Arc<Registry>) -> InvokerBuilder {
        InvokerBuilder::new(registry)
    }

    pub(crate) fn of(inner: Arc<InvokerInner>) -> Self {
        Self { inner }
    }

    /// The tools.
    #[must_use]
    pub fn registry(&self) -> &Arc<Registry> {
        &self.inner.registry
    }

    /// What the policy lets a run of this scope spend.
    #[must_use]
    pub fn run_limits(&self, scope: &Scope) -> budget::RunLimits {
        self.inner.policy.run_limits(scope)
    }

    /// The scope of a run that begins now: the same with what the policy lets it spend, beside what
    /// it may spend already. Every door asks for the scopes that it makes.
    #[must_use]
    pub fn begin_run(&self, scope: Scope) -> Scope {
        let budget = self.run_limits(&scope).budget_of(&scope.budget);
        scope.with_budget(budget)
    }

    /// Runs a call to its one outcome. Dropping the future drops the tool's work, and the call is
    /// recorded as cancelled.
    pub async fn invoke(&self, mut call: Call) -> Outcome {
        let recording = self.inner.recorder.begin(&call);
        let span = recording.span().clone();
        let scope = Arc::clone(&call.scope);
        let cancelled = call.cancelled.child_token();
        call.cancelled = cancelled.clone();
        // What gates keep until the end is let go of after the record, so it stands outside.
        let mut held = Vec::new();

        // Boxed: it is wrapped three times, and each would keep room for kilobytes of it.
        let work = Box::pin(self.pass_and_run(call, &recording, &mut held));
        let work = AssertUnwindSafe(work).catch_unwind().instrument(span);
        let outcome = cancel_with(&scope.cancelled, &cancelled, work).await;
        let outcome = outcome.unwrap_or_else(|_| Err(panic_error(&recording)));
        let outcome = outcome.map_err(|error| recording.complete(error));

        recording.end(&outcome);
        outcome
    }

    /// The way of a call. Each step needs what the one before it found.
    async fn pass_and_run(
        &self,
        mut call: Call,
        recording: &Recording<'_>,
        held: &mut Vec<Box<dyn Any + Send>>,
    ) -> Outcome {
        let found = self.find_out(&mut call, recording).await.inspect_err(|_| {
            recording.record_arguments(|| {
                let asked = call.arguments.clone().object().ok()?;
                Some(ArgumentsDigest::measure(&Value::Object(asked)))
            });
        });
        let (entry, subject, arguments) = found?;
        recording.record_subject(&subject);

        let mut passage = Passage::new(call, Some(Arc::clone(&entry)), subject, arguments);
        let passed = self.pass_gates(&mut passage, recording).await;
        // Only now: whoever approves a call may have changed them.
        recording.record_arguments(|| Some(ArgumentsDigest::measure(&passage.arguments)));
        *held = passage.take_held();
        passed?;

        self.run_and_shape(passage, &entry, recording).await
    }

    /// Finds out what a call is about: its tool, the arguments with what they refer to, and the
    /// tool that it is really about.
    async fn find_out(
        &self,
        call: &mut Call,
        recording: &Recording<'_>,
    ) -> Result<(Arc<ToolEntry>, Subject, Value), CallError> {
        charge_budget(call).inspect_err(|_| recording.refused_by("budget"))?;
        let entry = look_up(call, &self.inner.registry.snapshot());
        let entry = entry.inspect_err(|_| recording.refused_by("look-up"))?;
        recording.record_tool(&entry);

        let arguments = read_arguments(call, &entry);
        let arguments = arguments.inspect_err(|_| recording.refused_by("arguments"))?;
        let arguments = self.read_references(call, &entry, arguments).await;
        let mut arguments = arguments.inspect_err(|_| recording.refused_by("references"))?;
        let subject = resolve_subject(call, &entry, &mut arguments);
        let subject = subject.inspect_err(|_| recording.refused_by("subject"))?;
        Ok((entry, subject, Value::Object(arguments)))
    }

    /// Replaces references among the arguments, at most until the caller stops waiting.
    async fn read_references(
        &self,
        call: &mut Call,
        entry: &ToolEntry,
        arguments: Map<String, Value>,
    ) -> Result<Map<String, Value>, CallError> {
        let Some(reader) = &self.inner.references else { return Ok(arguments) };
        if reader.keeps_references(entry) || !arguments.values().any(has_reference) {
            return Ok(arguments);
        }
        refuse_selecting_references(entry, &arguments)?;

        let mut arguments = Value::Object(arguments);
        let patience = call.time.caller_deadline_or_default();
        let reading = reader.replace(&call.scope, entry, &mut arguments);
        match patience.enforce(&call.cancelled, Duration::ZERO, reading).await {
            Ok(read) => read?,
            Err(Interruption::Cancelled) => return Err(CallError::cancelled()),
            Err(Interruption::TimedOut) => {
                return Err(CallError::timeout(call.tool.as_str(), patience.asked()));
            }
        }

        call.replace_arguments(&arguments);
        let Value::Object(mut arguments) = arguments else {
            return Err(CallError::invalid_arguments("arguments must be a JSON object"));
        };
        forgive_habits(entry, &mut arguments);
        Ok(arguments)
    }

    /// Has the call pass the gates, at most until its caller stops waiting.
    async fn pass_gates(
        &self,
        passage: &mut Passage,
        recording: &Recording<'_>,
    ) -> Result<(), CallError> {
        let tool = passage.call.tool.clone();
        let cancelled = passage.call.cancelled.clone();
        let slot = passage.call.slot.clone();

        for gate in &self.inner.gates {
            let patience = passage.caller_deadline;
            recording.enter(Some(gate.name()));
            let verdict = match gate.check(passage) {
                Verdict::Now(verdict) => verdict,
                Verdict::Later(verdict) => {
                    recording.report_wait(gate.name());
                    let passing = pin!(async {
                        let verdict = verdict.await;
                        // What the gate wrote down is of no use after its answer.
                        slot.leave_store();
                        verdict?;
                        slot.resume().await.map_err(|_| CallError::cancelled())
                    });
                    match patience.enforce(&cancelled, Duration::ZERO, passing).await {
                        // A yes in the moment of a cancel comes too late.
                        Ok(_) if cancelled.is_cancelled() => Err(CallError::cancelled()),
                        Ok(verdict) => verdict,
                        Err(Interruption::Cancelled) => Err(CallError::cancelled()),
                        Err(Interruption::TimedOut) => {
                            Err(CallError::timeout(tool.as_str(), patience.asked()))
                        }
                    }
                }
            };
            if let Err(error) = verdict {
                recording.refused_by(gate.name());
                tracing::debug!(gate = gate.name(), code = %error.code, "refused a call");
                return Err(error);
            }
        }
        recording.enter(None);
        Ok(())
    }

    /// Runs the tool of a call that has passed every gate, and shapes its output within the same
    /// time.
    async fn run_and_shape(
        &self,
        passage: Passage,
        entry: &Arc<ToolEntry>,
        recording: &Recording<'_>,
    ) -> Outcome {
        let Passage { call, subject, arguments, credentials, .. } = passage;
        let Value::Object(arguments) = arguments else {
            return Err(CallError::invalid_arguments("arguments must be a JSON object"));
        };
        let extension = entry.executor.extension(&arguments);
        let deadline = call.time.execution_deadline(entry.timeout(&arguments), extension);
        let finder = credentials.finder().map(Arc::new);
        let progress = recording.stamp_progress(call.progress);
        let progress = match &finder {
            Some(finder) => erase_progress(Arc::clone(finder), progress),
            None => progress,
        };
        let is_over = Arc::default();
        let progress = until_over(&is_over, progress);
        let context =
            CallContext { deadline, cancelled: call.cancelled, progress, asker: call.asker };

        let invoker = Arc::downgrade(&self.inner);
        let calls = InnerCalls::new(invoker, &call.scope, &call.id, &context);
        let tool = Arc::clone(entry.name());
        let limits = RunLimits {
            tool: Arc::clone(&tool),
            deadline,
            progress: context.progress.clone(),
            cancelled: context.cancelled.clone(),
            is_over,
        };
        let scope = call.scope;
        let shape_scope = Arc::clone(&scope);
        let call_id = call.id.clone();
        let permit = Permit::new(&subject, &scope, self.inner.grant_signer.as_ref());
        let inner_calls = calls.clone();
        let written = match (call.mcp_params, call.arguments) {
            (Some(params), _) => Some(Written::Params(params)),
            (None, Arguments::Text(text)) => text.map(Written::Arguments),
            (None, Arguments::Value(_)) => None,
        };
        let invocation = Invocation {
            id: call.id,
            tool,
            subject,
            permit,
            arguments,
            written,
            scope,
            credentials,
            context,
            calls,
        };

        recording.started();
        let running = Arc::clone(entry);
        let run = Box::pin(async move { running.executor.execute(invocation).await });
        let outcome = limits.wait_for_tool(run, &self.inner.cleanups).await;
        let outcome = match &finder {
            Some(finder) => erase_outcome(finder, outcome),
            None => outcome,
        };
        let output = outcome.map_err(|error| inner_calls.complete(error))?;

        let of = ShapeContext {
            scope: &shape_scope,
            call: &call_id,
            tool: &limits.tool,
            reads_stored: entry.tool.reads_stored,
        };
        let shaping = async { Ok(self.shape(output, of).await) };
        let shaped = limits.wait_for(shaping).await;
        // The tool has run, whatever keeps its output from the caller.
        shaped.map_err(|error| error.with_execution(Execution::Started))
    }
}

/// What ends the run of a tool before its work does.
struct RunLimits {
    tool: Arc<str>,
    deadline: Deadline,
    progress: Progress,
    cancelled: CancellationToken,
    /// Whether the call is over, so that nobody hears its progress any more.
    is_over: Arc<AtomicBool>,
}

impl RunLimits {
    /// Waits for the tool. At the end of its time the call is cancelled and over; the tool has a
    /// grace to clean up beside it, and is dropped then. On a cancel it has the same grace before
    /// the call is over: an executor promises that what it started ends with it.
    async fn wait_for_tool(
        &self,
        mut run: BoxFuture<'static, Outcome>,
        cleanups: &TaskTracker,
    ) -> Outcome {
        match self.enforce(&mut run).await {
            Ok(outcome) => outcome,
            Err(interruption) => {
                if interruption == Interruption::TimedOut {
                    self.is_over.store(true, Ordering::Relaxed);
                    self.cancelled.cancel();
                    let cleanup = AssertUnwindSafe(run).catch_unwind();
                    let cleanup = tokio::time::timeout(CANCEL_GRACE, cleanup);
                    cleanups.spawn(cleanup.in_current_span());
                }
                Err(self.error_of(interruption))
            }
        }
    }

    /// Waits for a step of ours, which is dropped when the time is over.
    async fn wait_for(&self, step: impl Future<Output = Outcome>) -> Outcome {
        match self.enforce(step).await {
            Ok(outcome) => outcome,
            Err(interruption) => Err(self.error_of(interruption)),
        }
    }

    async fn enforce(&self, step: impl Future<Output = Outcome>) -> Result<Outcome, Interruption> {
        self.deadline.enforce_with(&self.progress, &self.cancelled, CANCEL_GRACE, step).await
    }

    fn error_of(&self, interruption: Interruption) -> CallError {
        match interruption {
            Interruption::Cancelled => CallError::cancelled(),
            Interruption::TimedOut => {
                let timeout = CallError::timeout(&self.tool, self.deadline.asked());
                timeout.with_execution(Execution::Started)
            }
        }
    }
}

/// Progress for as long as its call is not over.
fn until_over(is_over: &Arc<AtomicBool>, progress: Progress) -> Progress {
    if !progress.is_wanted() {
        return progress;
    }
    let is_over = Arc::clone(is_over);
    Progress::to(move |step| {
        if !is_over.load(Ordering::Relaxed) {
            progress.send(step);
        }
    })
}

/// Waits for the work of a call, and cancels the call when its scope is.
async fn cancel_with<T>(
    scope: &CancellationToken,
    call: &CancellationToken,
    work: impl Future<Output = T>,
) -> T {
    let mut work = pin!(work);
    tokio::select! {
        biased;
        ended = &mut work => ended,
        () = scope.cancelled() => {
            call.cancel();
            work.await
        }
    }
}

/// A panic is caught around the gates as well: what a tool makes of its arguments runs there.
fn panic_error(recording: &Recording<'_>) -> CallError {
    let tool = recording.tool();
    let Some(gate) = recording.gate() else {
        tracing::error!(tool, "a tool panicked");
        return CallError::execution_failed(format!("tool '{tool}' failed: it panicked"));
    };
    tracing::error!(tool, gate, "a gate panicked");
    CallError::execution_failed(format!(
        "tool '{tool}' was not started: the gate '{gate}' panicked"
    ))
}

#[cfg(test)]
mod tests;
