//! The metrics of schedules: the one place where they are defined.

use opentelemetry::metrics::{Counter, Histogram, Meter};
use opentelemetry::{KeyValue, global};
use toolbus_telemetry::{Kind, Metric};

use crate::OccurrenceState;

/// The name of the meter, which is the scope of these metrics.
const METER: &str = "toolbus.schedule";

const OUTCOME: &str = "toolbus.outcome";

/// Bounds in milliseconds: from a scheduler that is there to one that comes back after a day.
const MILLISECONDS: &[f64] = &[
    10.0,
    50.0,
    100.0,
    500.0,
    1_000.0,
    5_000.0,
    10_000.0,
    30_000.0,
    60_000.0,
    300_000.0,
    900_000.0,
    3_600_000.0,
    86_400_000.0,
];

const OCCURRENCES: Metric = Metric {
    name: "toolbus.schedule.occurrences",
    kind: Kind::Counter,
    unit: "{occurrence}",
    description: "Times that scheduled tasks were due, by what became of them: `done`, `failed`, \
                  `lost` with its process, `missed` because nobody was there, `skipped` because the \
                  run before it or the agent was busy, or `cancelled` while it waited for another \
                  attempt",
    attributes: &[OUTCOME],
};
const LATENESS: Metric = Metric {
    name: "toolbus.schedule.start.lateness",
    kind: Kind::Histogram(MILLISECONDS),
    unit: "ms",
    description: "How long after they were due runs of scheduled tasks began, each attempt by itself",
    attributes: &[],
};

/// Every metric of this crate.
pub const METRICS: &[Metric] = &[OCCURRENCES, LATENESS];

/// The instruments for schedules. Create it after telemetry has started.
#[derive(Debug)]
pub(crate) struct ScheduleMetrics {
    occurrences: Counter<u64>,
    lateness: Histogram<f64>,
}

impl ScheduleMetrics {
    pub(crate) fn new() -> Self {
        Self::of_meter(&global::meter(METER))
    }

    fn of_meter(meter: &Meter) -> Self {
        Self { occurrences: OCCURRENCES.counter(meter), lateness: LATENESS.histogram(meter) }
    }

    /// Counts times of a task that came to an end in this state.
    pub(crate) fn count(&self, state: OccurrenceState, times: u64) {
        if times > 0 {
            self.occurrences.add(times, &[KeyValue::new(OUTCOME, state.as_str())]);
        }
    }

    /// Records the start of a run.
    pub(crate) fn record_start(&self, late_ms: i64) {
        // A clock that was set back may make it negative.
        self.lateness.record(late_ms.max(0) as f64, &[]);
    }
}

#[cfg(test)]
mod tests;
