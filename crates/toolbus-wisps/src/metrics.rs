//! The metrics of wisps: the one place where they are defined. Their steps are calls of tools, and
//! counted as such.

use opentelemetry::metrics::{Counter, Histogram, Meter};
use opentelemetry::{KeyValue, global};
use toolbus_telemetry::{CALL_SECONDS, Kind, Metric};

use crate::report::{Category, StepFailure, WispReport};

/// The name of the meter, which is the scope of these metrics.
const METER: &str = "toolbus.wisps";

const OUTCOME: &str = "toolbus.outcome";
const CATEGORY: &str = "toolbus.wisps.category";

const RUNS: Metric = Metric {
    name: "toolbus.wisps.runs",
    kind: Kind::Counter,
    unit: "{wisp}",
    description: "Wisps by how they ended: `ok`, `stopped` before their end, or `failed` with the \
                  category of the failure: `structural`, `external`, `judgment` or `data`",
    attributes: &[OUTCOME, CATEGORY],
};
const DURATION: Metric = Metric {
    name: "toolbus.wisps.run.duration",
    kind: Kind::Histogram(CALL_SECONDS),
    unit: "s",
    description: "How long wisps took that were not stopped before their end",
    attributes: &[OUTCOME],
};

/// Every metric of this crate.
pub const METRICS: &[Metric] = &[RUNS, DURATION];

/// The instruments for wisps. Create it after telemetry has started.
#[derive(Debug)]
pub(crate) struct WispMetrics {
    runs: Counter<u64>,
    duration: Histogram<f64>,
}

impl WispMetrics {
    pub(crate) fn new() -> Self {
        Self::of_meter(&global::meter(METER))
    }

    fn of_meter(meter: &Meter) -> Self {
        Self { runs: RUNS.counter(meter), duration: DURATION.histogram(meter) }
    }

    /// Records how a wisp ended.
    pub(crate) fn record(&self, report: &WispReport) {
        let (outcome, category) = match &report.failure {
            None => ("ok", None),
            Some((_, failure)) if *failure == StepFailure::stopped() => ("stopped", None),
            Some((_, failure)) => ("failed", Some(label_of(failure.category))),
        };

        let outcome_tag = [KeyValue::new(OUTCOME, outcome)];
        let category_tag = category.map(|category| KeyValue::new(CATEGORY, category));
        let tags: Vec<_> = outcome_tag.iter().cloned().chain(category_tag).collect();
        self.runs.add(1, &tags);
        if outcome != "stopped" {
            self.duration.record(report.took.as_secs_f64(), &outcome_tag);
        }
    }
}

const fn label_of(category: Category) -> &'static str {
    match category {
        Category::Structural => "structural",
        Category::External => "external",
        Category::Judgment => "judgment",
        Category::Data => "data",
    }
}

#[cfg(test)]
mod tests;
