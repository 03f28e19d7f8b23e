//! Recording: one span and one metric point for every call, whatever its outcome.

use std::time::{Duration, Instant};

use opentelemetry::metrics::{Counter, Histogram, Meter};
use opentelemetry::{KeyValue, StringValue};
use toolbus_wire::ErrorCode;
use tracing::Span;

use crate::call::{Call, CallError, Outcome};

/// Instruments of the tool system; names and tags are `RockBot`'s.
pub(super) struct Recorder {
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
    )
}

impl Recorder {
    pub(super) fn new(meter: &Meter) -> Self {
        Self {
            duration: meter
                .f64_histogram("rockbot.tool.invoke.duration")
                .with_unit("ms")
                .with_description("How long calls of tools took, from the first gate to the last")
                .build(),
            invocations: meter
                .u64_counter("rockbot.tool.invocations")
                .with_unit("{invocation}")
                .with_description("Calls of tools by outcome")
                .build(),
        }
    }

    /// Begins the recording of a call.
    pub(super) fn begin(&self, call: &Call) -> Recording<'_> {
        let (tool, span) = (call.tool.clone(), span(call));
        Recording { recorder: self, tool, span, started: Instant::now(), ended: false }
    }

    /// A tool that was not found has no name in the metrics: names come from callers, and there
    /// is no bound to what they may send.
    fn record(&self, span: &Span, tool: String, outcome: &Outcome, took: Duration) {
        let status = match outcome {
            Ok(_) => StringValue::from("ok"),
            Err(error) => {
                span.record("rockbot.tool.error_code", error.code.as_str());
                span.record("otel.status_code", "ERROR");
                match &error.code {
                    // A peer may send any text as its code.
                    ErrorCode::Other(_) => StringValue::from("other"),
                    code => code.as_str().to_owned().into(),
                }
            }
        };
        let status = KeyValue::new("rockbot.tool.status", status);
        if matches!(outcome, Err(error) if error.code == ErrorCode::ToolNotFound) {
            self.invocations.add(1, &[status]);
            return;
        }
        let tags = [KeyValue::new("rockbot.tool.name", tool), status];
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
        let tool = std::mem::take(&mut self.tool);
        self.recorder.record(&self.span, tool, outcome, self.started.elapsed());
    }
}

impl Drop for Recording<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.write(&Err(CallError::cancelled()));
        }
    }
}
