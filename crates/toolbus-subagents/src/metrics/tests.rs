//! What is recorded of subagents, and that each point has the attributes of its definition.

use toolbus_testkit::metrics::Metrics;

use super::*;

#[test]
fn subagents_are_counted_as_they_are_spawned_run_and_end() {
    let kept = Metrics::new();
    let metrics = SubagentMetrics::of_meter(&kept.meter());
    for _ in 0..3 {
        metrics.count_spawned();
        metrics.add_running(1);
    }
    metrics.record_end(Outcome::Completed, 1_500);
    metrics.record_end(Outcome::TimedOut, -1);
    metrics.add_running(-1);
    metrics.add_running(-1);

    let expected = [
        ("toolbus.subagents.spawned", 3.0),
        ("toolbus.subagents.running", 1.0),
        ("toolbus.subagents.ended completed", 1.0),
        ("toolbus.subagents.duration completed", 1.5),
        ("toolbus.subagents.ended timed_out", 1.0),
        ("toolbus.subagents.duration timed_out", 0.0),
    ];
    let expected = expected.map(|(name, value)| (name.to_owned(), value));
    assert_eq!(kept.values(), expected.into());

    // No point has other attributes than its definition says.
    for (name, attributes) in kept.attributes() {
        let definition = METRICS.iter().find(|known| known.name == name).expect("it is defined");
        assert_eq!(attributes, definition.attributes.iter().map(ToString::to_string).collect());
    }
}

#[test]
fn an_outcome_is_that_of_the_end() {
    let text = String::new;
    let failed = SubagentEnd::Failed { text: text(), error: text() };
    assert_eq!(Outcome::of_end(&failed), Outcome::Failed);
    assert_eq!(Outcome::of_end(&SubagentEnd::Cancelled { text: text() }), Outcome::Cancelled);
    assert_eq!(Outcome::of_end(&SubagentEnd::Completed { text: text() }), Outcome::Completed);
}
