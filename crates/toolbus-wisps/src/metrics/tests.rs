//! What is recorded of wisps, and that each point has the attributes of its definition.

use std::time::Duration;

use serde_json::json;
use toolbus_testkit::metrics::Metrics;
use toolbus_tools::id::CallId;
use toolbus_tools::{Door, Principal, Scope};
use toolbus_wire::name::AgentName;

use super::*;
use crate::ids::BatchId;

#[test]
fn wisps_are_counted_by_how_they_ended_and_why_they_failed() {
    let kept = Metrics::new();
    let metrics = WispMetrics::of_meter(&kept.meter());
    let scope = Scope::new(Door::Turn, Principal::claimed("model"), AgentName::standard());
    let id = BatchId::of(&scope, &CallId::random(), &json!([])).wisp(0);
    let stopped = WispReport::stopped(id, "x");
    let failed = |category| {
        let failure = Some((None, StepFailure::new(category, "as it is told")));
        WispReport { failure, took: Duration::from_secs(1), ..stopped.clone() }
    };
    let well = WispReport { failure: None, took: Duration::from_secs(2), ..stopped.clone() };
    for report in [well, stopped.clone(), failed(Category::Data), failed(Category::External)] {
        metrics.record(&report);
    }

    let expected = [
        ("toolbus.wisps.runs ok", 1.0),
        ("toolbus.wisps.runs stopped", 1.0),
        ("toolbus.wisps.runs failed data", 1.0),
        ("toolbus.wisps.runs failed external", 1.0),
        ("toolbus.wisps.run.duration ok", 2.0),
        ("toolbus.wisps.run.duration failed", 2.0),
    ];
    let expected = expected.map(|(name, value)| (name.to_owned(), value));
    assert_eq!(kept.values(), expected.into());

    // No point has other attributes than its definition says.
    for (name, attributes) in kept.attributes() {
        let definition = METRICS.iter().find(|known| known.name == name).expect("it is defined");
        assert_eq!(attributes, definition.attributes.iter().map(ToString::to_string).collect());
    }
}
