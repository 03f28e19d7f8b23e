//! Recording: one span and one metric point for every call, whatever its outcome.

use std::time::{Duration, Instant};

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Histogram, Meter};
use toolbus_telemetry::Bounded;
use toolbus_wire::ErrorCode;
use tracing::Span;

use crate::call::{Call, CallError, Outcome};
use crate::metrics::{DURATION, INVOCATIONS, STATUS, TOOL};

/// Most tools that are told apart. Those of MCP servers may be any number, and a name may be
/// written in any case.
const TOOLS_MAX: usize = 500;

/// Instruments of the tool system.
pub(super) struct Recorder {
    tools: Bounded,
    duration: Histogram<f64>,
    invocations: Counter<u64>,
}

/// A call that is under way. Dropped before its end, it is recorded as cancelled.
pub(super) struct Recording<'a> {
    recorder: &'a Recorder,
    tool: String,
    span: Span,
    started: Instant,
    ended: bool,
}

/// The span of a call.
fn span(call: &Call) -> Span {
    tracing::info_span!(
        "tool.invoke",
        otel.name = format!("tool.invoke {}", call.tool),
        otel.status_code = tracing::field::Empty,
        rockbot.tool.name = call.tool,
        rockbot.tool.call_id = call.id,
        rockbot.tool.error_code = tracing::field::Empty,
        gen_ai.operation.name = "execute_tool",
        gen_ai.tool.name = call.tool,
        gen_ai.tool.call.id = call.id,
        error.type = tracing::field::Empty,
    )
}

impl Recorder {
    pub(super) fn new(meter: &Meter) -> Self {
        Self {
            tools: Bounded::new(TOOLS_MAX),
            duration: DURATION.histogram(meter),
            invocations: INVOCATIONS.counter(meter),
        }
    }

    /// Begins the recording of a call.
    pub(super) fn begin(&self, call: &Call) -> Recording<'_> {
        let (tool, span) = (call.tool.clone(), span(call));
        Recording { recorder: self, tool, span, started: Instant::now(), ended: false }
    }

    /// A tool that was not found has no name in the metrics: names come from callers, and there
    /// is no bound to what they may send.
    fn record(&self, span: &Span, tool: &str, outcome: &Outcome, took: Duration) {
        let status = match outcome {
            Ok(_) => "ok",
            Err(error) => {
                span.record("rockbot.tool.error_code", error.code.as_str());
                span.record("error.type", error.code.label());
                span.record("otel.status_code", "ERROR");
                // A peer may send any text as its code.
                error.code.label()
            }
        };
        let status = KeyValue::new(STATUS, status);
        if matches!(outcome, Err(error) if error.code == ErrorCode::ToolNotFound) {
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

    pub(super) fn tool(&self) -> &str {
        &self.tool
    }

    /// The call has ended with this.
    pub(super) fn end(mut self, outcome: &Outcome) {
        self.write(outcome);
    }

    fn write(&mut self, outcome: &Outcome) {
        self.ended = true;
        self.recorder.record(&self.span, &self.tool, outcome, self.started.elapsed());
    }
}

impl Drop for Recording<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.write(&Err(CallError::cancelled()));
        }
    }
}
