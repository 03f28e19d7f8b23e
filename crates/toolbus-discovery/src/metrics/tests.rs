//! What is recorded of discovery, and that each point has the attributes of its definition.

use toolbus_testkit::metrics::Metrics;

use super::*;

#[test]
fn queries_updates_and_events_are_recorded_by_their_result() {
    let kept = Metrics::new();
    let metrics = DiscoveryMetrics::of_meter(&kept.meter());
    metrics.record_query("cached", Duration::from_millis(2));
    metrics.count_updates(3, 0);
    metrics.count_events("learned", 5);
    metrics.count_lifecycle_changes(Lifecycle::Optimized, 2);

    let expected = [
        ("toolbus.discovery.events learned", 5.0),
        ("toolbus.discovery.index.updates changed", 3.0),
        ("toolbus.discovery.lifecycle.changes optimized", 2.0),
        ("toolbus.discovery.query.duration cached", 2.0),
    ];
    let expected = expected.map(|(name, value)| (name.to_owned(), value));
    assert_eq!(kept.values(), expected.into());
    for (name, attributes) in kept.attributes() {
        let definition = METRICS.iter().find(|known| known.name == name).expect("it is defined");
        assert_eq!(attributes, definition.attributes.iter().map(ToString::to_string).collect());
    }
}
