//! What is recorded of schedules, and that each point has the attributes of its definition.

use toolbus_testkit::metrics::Metrics;

use super::*;

#[test]
fn occurrences_are_counted_by_what_became_of_them_and_starts_by_how_late_they_are() {
    let kept = Metrics::new();
    let metrics = ScheduleMetrics::of_meter(&kept.meter());
    metrics.count(OccurrenceState::Done, 1);
    metrics.count(OccurrenceState::Missed, 7);
    metrics.count(OccurrenceState::Skipped, 0);
    metrics.record_start(250);
    metrics.record_start(-5);

    let expected = [
        ("toolbus.schedule.occurrences done", 1.0),
        ("toolbus.schedule.occurrences missed", 7.0),
        ("toolbus.schedule.start.lateness", 250.0),
    ];
    let expected = expected.map(|(name, value)| (name.to_owned(), value));
    assert_eq!(kept.values(), expected.into());

    // No point has other attributes than its definition says.
    for (name, attributes) in kept.attributes() {
        let definition = METRICS.iter().find(|known| known.name == name).expect("it is defined");
        assert_eq!(attributes, definition.attributes.iter().map(ToString::to_string).collect());
    }
}
