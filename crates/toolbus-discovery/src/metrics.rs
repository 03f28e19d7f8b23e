//! The metrics of discovery: the one place where they are defined.

use std::time::Duration;

use opentelemetry::metrics::{Counter, Histogram, Meter};
use opentelemetry::{KeyValue, global};
use toolbus_telemetry::{Kind, Metric};

use crate::lifecycle::Lifecycle;

/// The name of the meter, which is the scope of these metrics.
const METER: &str = "toolbus.discovery";

const RESULT: &str = "toolbus.discovery.result";
const STATE: &str = "toolbus.discovery.lifecycle";

/// Bounds in milliseconds: from an answer that is known to a search of many tools by a model.
const MILLISECONDS: &[f64] =
    &[1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 250.0, 500.0, 1_000.0, 5_000.0];

const DURATION: Metric = Metric {
    name: "toolbus.discovery.query.duration",
    kind: Kind::Histogram(MILLISECONDS),
    unit: "ms",
    description: "How long queries for tools took, by where the answer came from: `cached`, \
                  `ranked` by a model and words, `words` alone, `empty` or `invalid`",
    attributes: &[RESULT],
};
const UPDATES: Metric = Metric {
    name: "toolbus.discovery.index.updates",
    kind: Kind::Counter,
    unit: "{tool}",
    description: "Tools that the index was told of: `changed`, which new ones are too, or `gone`",
    attributes: &[RESULT],
};
const EVENTS: Metric = Metric {
    name: "toolbus.discovery.events",
    kind: Kind::Counter,
    unit: "{event}",
    description: "Ends of calls and queries to learn from: `learned`, or `dropped` because too \
                  many waited",
    attributes: &[RESULT],
};

const LIFECYCLE_CHANGES: Metric = Metric {
    name: "toolbus.discovery.lifecycle.changes",
    kind: Kind::Counter,
    unit: "{tool}",
    description: "Tools that came into a state of their lives: `registered`, `discoverable`, \
                  `optimized`, or `available, not recommended`",
    attributes: &[STATE],
};

/// Every metric of this crate.
pub const METRICS: &[Metric] = &[DURATION, UPDATES, EVENTS, LIFECYCLE_CHANGES];

/// The instruments of discovery. Create it after telemetry has started.
#[derive(Debug)]
pub(crate) struct DiscoveryMetrics {
    duration: Histogram<f64>,
    updates: Counter<u64>,
    events: Counter<u64>,
    lifecycle_changes: Counter<u64>,
}

impl DiscoveryMetrics {
    pub(crate) fn new() -> Self {
        Self::of_meter(&global::meter(METER))
    }

    fn of_meter(meter: &Meter) -> Self {
        Self {
            duration: DURATION.histogram(meter),
            updates: UPDATES.counter(meter),
            events: EVENTS.counter(meter),
            lifecycle_changes: LIFECYCLE_CHANGES.counter(meter),
        }
    }

    pub(crate) fn record_query(&self, result: &'static str, took: Duration) {
        self.duration.record(took.as_secs_f64() * 1_000.0, &[KeyValue::new(RESULT, result)]);
    }

    pub(crate) fn count_updates(&self, changed: usize, gone: usize) {
        for (count, result) in [(changed, "changed"), (gone, "gone")] {
            if count > 0 {
                self.updates.add(count as u64, &[KeyValue::new(RESULT, result)]);
            }
        }
    }

    pub(crate) fn count_lifecycle_changes(&self, state: Lifecycle, count: usize) {
        if count > 0 {
            self.lifecycle_changes.add(count as u64, &[KeyValue::new(STATE, state.as_str())]);
        }
    }

    pub(crate) fn count_events(&self, result: &'static str, count: u64) {
        if count > 0 {
            self.events.add(count, &[KeyValue::new(RESULT, result)]);
        }
    }
}

#[cfg(test)]
mod tests;
