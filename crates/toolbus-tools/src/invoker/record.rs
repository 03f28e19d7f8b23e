//! Recording: one span, one metric point and one line of events for every call, whatever its
//! outcome.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Histogram, Meter};
use parking_lot::Mutex;
use toolbus_bus::Progress;
use toolbus_telemetry::Bounded;
use toolbus_wire::{ErrorCode, Execution};
use tracing::Span;

use crate::call::{Call, CallError, Outcome, Output};
use crate::id::{CallId, ToolName};
use crate::metrics::{DURATION, INVOCATIONS, STATUS, SUBJECT, TOOL};
use crate::observe::{ArgumentsDigest, CallEvent, CallEventKind, CallRecord, CallStatus, Observe};
use crate::registry::ToolEntry;
use crate::scope::Scope;
use crate::subject::Subject;

/// Most tools that are told apart. Those of MCP servers may be any number.
const TOOLS_MAX: usize = 500;

/// Instruments of the tool system, and who observes it.
pub(super) struct Recorder {
    tools: Bounded,
    duration: Histogram<f64>,
    invocations: Counter<u64>,
    observers: Observers,
}

type Observers = Arc<[Arc<dyn Observe>]>;

/// A call that is under way. Dropped before its end, it is recorded as cancelled.
pub(super) struct Recording<'a> {
    recorder: &'a Recorder,
    /// The tool, as it was called.
    called: String,
    /// Its registered name.
    tool: OnceLock<Arc<str>>,
    subject: OnceLock<Subject>,
    events: Option<Arc<Events>>,
    span: Span,
    begun_at: Instant,
    /// The gate that the call is in.
    gate: Mutex<Option<&'static str>>,
    /// The gate that refused it.
    refused_by: OnceLock<&'static str>,
    is_started: AtomicBool,
    /// How long the text of its output is.
    output_bytes: Option<usize>,
    has_ended: bool,
}

/// The events of one call.
struct Events {
    observers: Observers,
    call: CallId,
    tool: ToolName,
    scope: Arc<Scope>,
    sequence: AtomicU64,
    /// The digest of the arguments, and how long their text is.
    arguments: OnceLock<(ArgumentsDigest, usize)>,
}

impl Events {
    fn send(&self, kind: CallEventKind<'_>) {
        let event = CallEvent {
            call: &self.call,
            tool: &self.tool,
            scope: &self.scope,
            sequence: self.sequence.fetch_add(1, Ordering::Relaxed),
            kind,
        };
        for observer in &*self.observers {
            let heard = catch_unwind(AssertUnwindSafe(|| observer.on_event(&event)));
            if heard.is_err() {
                tracing::error!(call_id = self.call.as_str(), "an observer of calls panicked");
            }
        }
    }
}

/// The span of a call.
fn call_span(call: &Call) -> Span {
    tracing::info_span!(
        "tool.invoke",
        otel.name = format!("tool.invoke {}", call.tool),
        otel.status_code = tracing::field::Empty,
        rockbot.tool.name = call.tool.as_str(),
        rockbot.tool.call_id = call.id.as_str(),
        rockbot.tool.error_code = tracing::field::Empty,
        toolbus.tool.subject = tracing::field::Empty,
        gen_ai.operation.name = "execute_tool",
        gen_ai.tool.name = call.tool.as_str(),
        gen_ai.tool.call.id = call.id.as_str(),
        error.type = tracing::field::Empty,
    )
}

impl Recorder {
    pub(super) fn new(meter: &Meter, observers: Vec<Arc<dyn Observe>>) -> Self {
        Self {
            tools: Bounded::new(TOOLS_MAX),
            duration: DURATION.histogram(meter),
            invocations: INVOCATIONS.counter(meter),
            observers: observers.into(),
        }
    }

    /// Begins the recording of a call.
    pub(super) fn begin(&self, call: &Call) -> Recording<'_> {
        let events = (!self.observers.is_empty()).then(|| {
            Arc::new(Events {
                observers: Arc::clone(&self.observers),
                call: call.id.clone(),
                tool: call.tool.clone(),
                scope: Arc::clone(&call.scope),
                sequence: AtomicU64::new(0),
                arguments: OnceLock::new(),
            })
        });
        if let Some(events) = &events {
            events.send(CallEventKind::Began(call));
        }

        Recording {
            recorder: self,
            called: call.tool.as_str().to_owned(),
            tool: OnceLock::new(),
            subject: OnceLock::new(),
            events,
            span: call_span(call),
            begun_at: Instant::now(),
            gate: Mutex::new(None),
            refused_by: OnceLock::new(),
            is_started: AtomicBool::new(false),
            output_bytes: None,
            has_ended: false,
        }
    }

    /// A tool that was not found has no name in the metrics: names come from callers, and there
    /// is no bound to what they may send.
    fn count(&self, tool: &str, error: Option<&ErrorCode>, took: Duration) {
        // A peer may send any text as its code.
        let status = KeyValue::new(STATUS, error.map_or("ok", ErrorCode::label));
        if error == Some(&ErrorCode::ToolNotFound) {
            self.invocations.add(1, &[status]);
            return;
        }

        let tags = [KeyValue::new(TOOL, self.tools.value(tool)), status];
        self.duration.record(took.as_secs_f64() * 1_000.0, &tags);
        self.invocations.add(1, &tags);
    }
}

impl Recording<'_> {
    pub(super) fn span(&self) -> &Span {
        &self.span
    }

    /// The tool by its registered name, once it was found; before that as it was called.
    pub(super) fn tool(&self) -> &str {
        self.tool.get().map_or(&self.called, |tool| tool)
    }

    /// Records the tool that was found.
    pub(super) fn record_tool(&self, entry: &ToolEntry) {
        let _ = self.tool.set(Arc::clone(entry.name()));
    }

    /// Records the call's subject.
    pub(super) fn record_subject(&self, subject: &Subject) {
        self.span.record(SUBJECT, subject.id.as_str());
        let _ = self.subject.set(subject.clone());
    }

    /// Records what the call's arguments are, as far as is known by now. The first counts.
    pub(super) fn record_arguments(
        &self,
        arguments: impl FnOnce() -> Option<(ArgumentsDigest, usize)>,
    ) {
        if let Some(events) = &self.events
            && events.arguments.get().is_none()
            && let Some(measured) = arguments()
        {
            let _ = events.arguments.set(measured);
        }
    }

    /// The call comes to this gate, or has passed them all.
    pub(super) fn enter(&self, gate: Option<&'static str>) {
        *self.gate.lock() = gate;
    }

    /// The gate that the call is in.
    pub(super) fn gate(&self) -> Option<&'static str> {
        *self.gate.lock()
    }

    /// Records that this gate refused the call.
    pub(super) fn refused_by(&self, gate: &'static str) {
        let _ = self.refused_by.set(gate);
    }

    /// Reports that a gate keeps the call waiting.
    pub(super) fn report_wait(&self, gate: &'static str) {
        if let Some(events) = &self.events {
            events.send(CallEventKind::Waiting { gate });
        }
    }

    /// Records that the tool is about to be started.
    pub(super) fn started(&self) {
        self.is_started.store(true, Ordering::Release);
        if let Some(events) = &self.events {
            events.send(CallEventKind::Started);
        }
    }

    /// The same progress, which observers hear too.
    pub(super) fn stamp_progress(&self, progress: Progress) -> Progress {
        let Some(events) = &self.events else { return progress };
        let events = Arc::clone(events);
        Progress::to(move |report| {
            events.send(CallEventKind::Progress(&report));
            progress.send(report);
        })
    }

    /// The error with all that is known of the call: nothing was started before every gate was
    /// passed, a tool that may run twice may be called again, and any other only where it was not
    /// started, whatever a peer advises.
    pub(super) fn complete(&self, error: CallError) -> CallError {
        if !self.is_started.load(Ordering::Acquire) {
            // A gate may know of the same call that it was let begin before.
            let execution = match error.code {
                ErrorCode::OutcomeUnknown => Execution::Unknown,
                _ => Execution::NotStarted,
            };
            return error.with_execution(execution);
        }
        let may_repeat = self.subject.get().is_some_and(|s| s.annotations.may_repeat());
        if may_repeat {
            return error.of_repeatable();
        }

        let is_retryable = error.is_retryable && error.execution == Execution::NotStarted;
        CallError { is_retryable, ..error }
    }

    /// The call has ended with this.
    pub(super) fn end(mut self, outcome: &Outcome) {
        if self.events.is_some() {
            self.output_bytes = outcome.as_ref().ok().map(Output::text_bytes);
        }
        let status = match outcome {
            Ok(output) if output.is_error => CallStatus::Error,
            _ => CallStatus::Ok,
        };
        self.end_with(outcome.as_ref().map(|_| status));
    }

    /// The call has ended so.
    pub(super) fn end_with(mut self, ended: Result<CallStatus, &CallError>) {
        match ended {
            Ok(status) => self.write(status, None, Execution::Started),
            Err(error) => {
                self.write(CallStatus::of_error(&error.code), Some(&error.code), error.execution);
            }
        }
    }

    fn write(&mut self, status: CallStatus, error: Option<&ErrorCode>, execution: Execution) {
        self.has_ended = true;
        let took = self.begun_at.elapsed();

        if let Some(code) = error {
            self.span.record("rockbot.tool.error_code", code.as_str());
            self.span.record("error.type", code.label());
            self.span.record("otel.status_code", "ERROR");
        }
        self.recorder.count(self.tool(), error, took);

        if let Some(events) = &self.events {
            let record = CallRecord {
                subject: self.subject.get().map(|subject| subject.id.clone()),
                arguments: events.arguments.get().map(|(digest, _)| *digest),
                input_bytes: events.arguments.get().map(|(_, bytes)| *bytes),
                output_bytes: self.output_bytes,
                status,
                error: error.cloned(),
                refused_by: self.refused_by.get().copied(),
                execution,
                took,
            };
            events.send(CallEventKind::Ended(&record));
        }
    }
}

impl Drop for Recording<'_> {
    fn drop(&mut self) {
        if !self.has_ended {
            let is_started = self.is_started.load(Ordering::Acquire);
            let execution = if is_started { Execution::Unknown } else { Execution::NotStarted };
            self.write(CallStatus::Error, Some(&ErrorCode::Cancelled), execution);
        }
    }
}
