//! The metrics and spans of scripts, whatever runs them: the one place where they are defined. What
//! a runner alone can tell (its pods, its packages) is its own to define.

use std::time::Instant;

use opentelemetry::metrics::{Counter, Histogram};
use opentelemetry::{KeyValue, global};
use toolbus_telemetry::{CALL_SECONDS, Kind, Metric, Span, SpanKind};
use toolbus_wire::message::script::{ScriptInvokeResponse, ScriptReason};

/// The name of the meter, which is the scope of these metrics.
const METER: &str = "toolbus.scripts";

const RUNNER: &str = "toolbus.scripts.runner";
const REASON: &str = "toolbus.reason";

const RUNS: Metric = Metric {
    name: "toolbus.scripts.runs",
    kind: Kind::Counter,
    unit: "{run}",
    description: "Scripts by how they ended: `ok`, `exit_code` for one other than 0, else the reason \
                  that their caller was told",
    attributes: &[RUNNER, REASON],
};
const DURATION: Metric = Metric {
    name: "toolbus.scripts.run.duration",
    kind: Kind::Histogram(CALL_SECONDS),
    unit: "s",
    description: "How long scripts took, what comes before their start included",
    attributes: &[RUNNER, REASON],
};
const KILLS: Metric = Metric {
    name: "toolbus.scripts.kills",
    kind: Kind::Counter,
    unit: "{run}",
    description: "Scripts that did not end by themselves: `timed_out`, `out_of_memory`, `cancelled`, \
                  or `killed` by a signal of somebody else",
    attributes: &[RUNNER, REASON],
};

/// Every metric of this crate.
pub const METRICS: &[Metric] = &[RUNS, DURATION, KILLS];

/// Every span of this crate.
pub const SPANS: &[Span] = &[Span {
    name: "script.run",
    kind: SpanKind::Internal,
    description: "A script, from its request to its end; a runner that makes pods names the pod",
    attributes: &[
        RUNNER,
        REASON,
        "process.exit.code",
        "k8s.namespace.name",
        "k8s.pod.name",
        "error.type",
    ],
}];

/// The instruments for scripts. Create it after telemetry has started.
#[derive(Debug)]
pub(crate) struct ScriptMetrics {
    runner: &'static str,
    runs: Counter<u64>,
    duration: Histogram<f64>,
    kills: Counter<u64>,
}

/// The record of one run. Dropped before it is finished it counts as cancelled, because the script
/// is killed then.
pub(crate) struct RunRecord<'a> {
    metrics: &'a ScriptMetrics,
    span: tracing::Span,
    started: Instant,
    reason: &'static str,
}

impl ScriptMetrics {
    pub(crate) fn new(runner: &'static str) -> Self {
        let meter = &global::meter(METER);
        Self {
            runner,
            runs: RUNS.counter(meter),
            duration: DURATION.histogram(meter),
            kills: KILLS.counter(meter),
        }
    }

    pub(crate) fn record_run(&self) -> RunRecord<'_> {
        let span = tracing::info_span!(
            "script.run",
            otel.status_code = tracing::field::Empty,
            toolbus.scripts.runner = self.runner,
            toolbus.reason = tracing::field::Empty,
            process.exit.code = tracing::field::Empty,
            // For the runner to fill in, which runs within this span.
            k8s.namespace.name = tracing::field::Empty,
            k8s.pod.name = tracing::field::Empty,
            error.type = tracing::field::Empty,
        );
        RunRecord { metrics: self, span, started: Instant::now(), reason: CANCELLED }
    }
}

const CANCELLED: &str = "cancelled";

impl RunRecord<'_> {
    pub(crate) fn span(&self) -> &tracing::Span {
        &self.span
    }

    /// Records the end of the script by the response that its caller gets.
    pub(crate) fn finish(mut self, response: &ScriptInvokeResponse) {
        self.reason = match &response.reason {
            // It ran to its end, and some of what it wrote was too much to keep.
            Some(ScriptReason::OutputTruncated) | None if response.exit_code == 0 => "ok",
            Some(ScriptReason::OutputTruncated) | None => "exit_code",
            Some(reason) => reason.label(),
        };
        self.span.record("process.exit.code", response.exit_code);
    }
}

impl Drop for RunRecord<'_> {
    fn drop(&mut self) {
        let Self { metrics, span, started, reason } = self;
        span.record("toolbus.reason", *reason);

        if *reason != "ok" {
            span.record("error.type", *reason);
            span.record("otel.status_code", "ERROR");
        }

        let tags = [KeyValue::new(RUNNER, metrics.runner), KeyValue::new(REASON, *reason)];
        metrics.runs.add(1, &tags);
        metrics.duration.record(started.elapsed().as_secs_f64(), &tags);

        if matches!(*reason, "timed_out" | "out_of_memory" | "killed" | CANCELLED) {
            metrics.kills.add(1, &tags);
        }
    }
}
