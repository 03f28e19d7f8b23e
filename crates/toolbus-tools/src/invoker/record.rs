//! Recording: one span and one metric point for every call, whatever its outcome.

use std::time::{Duration, Instant};

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Histogram, Meter};
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
    call: &'a Call,
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
    pub(super) fn begin<'a>(&'a self, call: &'a Call) -> Recording<'a> {
        Recording { recorder: self, call, span: span(call), started: Instant::now(), ended: false }
    }

    /// A tool that was not found has no name in the metrics: names come from callers, and there
    /// is no bound to what they may send.
    fn record(&self, span: &Span, call: &Call, outcome: &Outcome, took: Duration) {
        let status = match outcome {
            Ok(_) => "ok",
            Err(error) => {
                span.record("rockbot.tool.error_code", error.code.as_str());
                span.record("otel.status_code", "ERROR");
                error.code.as_str()
            }
        };
        let status = KeyValue::new("rockbot.tool.status", status.to_owned());
        if matches!(outcome, Err(error) if error.code == ErrorCode::ToolNotFound) {
            self.invocations.add(1, &[status]);
            return;
        }
        let tags = [KeyValue::new("rockbot.tool.name", call.tool.clone()), status];
        self.duration.record(took.as_secs_f64() * 1_000.0, &tags);
        self.invocations.add(1, &tags);
    }
}

impl Recording<'_> {
    pub(super) fn span(&self) -> &Span {
        &self.span
    }

    /// The call has ended with this.
    pub(super) fn end(mut self, outcome: &Outcome) {
        self.write(outcome);
    }

    fn write(&mut self, outcome: &Outcome) {
        self.ended = true;
        self.recorder.record(&self.span, self.call, outcome, self.started.elapsed());
    }
}

impl Drop for Recording<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.write(&Err(CallError::cancelled()));
        }
    }
}
