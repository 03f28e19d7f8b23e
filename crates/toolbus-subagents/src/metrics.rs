//! The metrics and spans of subagents: the one place where they are defined.

use opentelemetry::metrics::{Counter, Histogram, Meter, UpDownCounter};
use opentelemetry::{KeyValue, global};
use toolbus_telemetry::{Kind, Metric, Span, SpanKind};

use crate::SubagentEnd;

/// The name of the meter, which is the scope of these metrics.
const METER: &str = "toolbus.subagents";

const OUTCOME: &str = "toolbus.outcome";

/// Bounds in seconds: from a turn without a tool to a task that is given hours.
const SECONDS: &[f64] =
    &[0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1_800.0, 3_600.0, 14_400.0];

const SPAWNED: Metric = Metric {
    name: "toolbus.subagents.spawned",
    kind: Kind::Counter,
    unit: "{subagent}",
    description: "Subagents that were spawned; the same call, made again, spawns none",
    attributes: &[],
};
const ENDED: Metric = Metric {
    name: "toolbus.subagents.ended",
    kind: Kind::Counter,
    unit: "{subagent}",
    description: "Subagents that have ended: `completed`, `failed`, `cancelled` or `timed_out`",
    attributes: &[OUTCOME],
};
const DURATION: Metric = Metric {
    name: "toolbus.subagents.duration",
    kind: Kind::Histogram(SECONDS),
    unit: "s",
    description: "How long subagents took, from when they were spawned to their end, pauses and what \
                  another process did of them included",
    attributes: &[OUTCOME],
};
const RUNNING: Metric = Metric {
    name: "toolbus.subagents.running",
    kind: Kind::UpDownCounter,
    unit: "{subagent}",
    description: "Subagents that this process runs, those that are paused included",
    attributes: &[],
};

/// Every metric of this crate.
pub const METRICS: &[Metric] = &[SPAWNED, ENDED, DURATION, RUNNING];

/// Every span of this crate.
pub const SPANS: &[Span] = &[Span {
    name: "subagent",
    kind: SpanKind::Internal,
    description: "The work of a subagent in one process: a trace of its own, for it may outlive the \
                  call that has spawned it, and linked to that call",
    attributes: &["toolbus.subagent.id", "error.type"],
}];

/// How a subagent ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Completed,
    Failed,
    Cancelled,
    TimedOut,
}

/// The instruments for subagents. Create it after telemetry has started.
#[derive(Debug)]
pub(crate) struct SubagentMetrics {
    spawned: Counter<u64>,
    ended: Counter<u64>,
    duration: Histogram<f64>,
    running: UpDownCounter<i64>,
}

/// The span of a subagent's work, linked to that of whoever has spawned it.
pub(crate) fn subagent_span(id: &str, spawner: &tracing::Span) -> tracing::Span {
    let span = tracing::info_span!(
        parent: None,
        "subagent",
        otel.kind = "internal",
        otel.status_code = tracing::field::Empty,
        toolbus.subagent.id = id,
        error.type = tracing::field::Empty,
    );
    span.follows_from(spawner);
    span
}

/// Marks the span of a subagent that has not done its work.
pub(crate) fn fail(span: &tracing::Span, outcome: Outcome) {
    span.record("error.type", outcome.as_str());
    span.record("otel.status_code", "ERROR");
}

impl SubagentMetrics {
    pub(crate) fn new() -> Self {
        Self::of_meter(&global::meter(METER))
    }

    fn of_meter(meter: &Meter) -> Self {
        Self {
            spawned: SPAWNED.counter(meter),
            ended: ENDED.counter(meter),
            duration: DURATION.histogram(meter),
            running: RUNNING.up_down_counter(meter),
        }
    }

    pub(crate) fn count_spawned(&self) {
        self.spawned.add(1, &[]);
    }

    pub(crate) fn add_running(&self, change: i64) {
        self.running.add(change, &[]);
    }

    pub(crate) fn record_end(&self, outcome: Outcome, took_ms: i64) {
        let tags = [KeyValue::new(OUTCOME, outcome.as_str())];
        self.ended.add(1, &tags);
        // A clock that was set back may make it negative.
        self.duration.record(took_ms.max(0) as f64 / 1_000.0, &tags);
    }
}

impl Outcome {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::TimedOut => "timed_out",
        }
    }

    pub(crate) const fn of_end(end: &SubagentEnd) -> Self {
        match end {
            SubagentEnd::Completed { .. } => Self::Completed,
            SubagentEnd::Cancelled { .. } => Self::Cancelled,
            SubagentEnd::Failed { .. } => Self::Failed,
        }
    }
}

#[cfg(test)]
mod tests;
