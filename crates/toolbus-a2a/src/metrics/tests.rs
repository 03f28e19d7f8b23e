//! What is recorded of tasks, and that each point has the attributes of its definition.

use std::collections::BTreeMap;

use toolbus_testkit::metrics::Metrics;
use toolbus_wire::message::a2a::AgentErrorCode;

use super::*;

fn check(record: impl FnOnce(&Meter), expected: &[(&str, f64)]) {
    let kept = Metrics::new();
    record(&kept.meter());
    let expected: BTreeMap<_, _> =
        expected.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
    assert_eq!(kept.values(), expected);

    // No point has other attributes than its definition says.
    for (name, attributes) in kept.attributes() {
        let definition = METRICS.iter().find(|known| known.name == name).expect("it is defined");
        assert_eq!(attributes, definition.attributes.iter().map(ToString::to_string).collect());
    }
}

#[test]
fn tasks_are_counted_by_who_asked_how_they_travel_and_how_they_end() {
    let record = |meter: &Meter| {
        let metrics = TaskMetrics::of_meter(meter);
        let task = EndedTask {
            direction: Direction::Asked,
            transport: Transport::Bus,
            outcome: Outcome::Completed,
            took_ms: 250,
        };
        metrics.record(task);
        metrics.record(EndedTask { took_ms: 50, ..task });
        metrics.record(EndedTask { took_ms: -1, outcome: Outcome::TimedOut, ..task });
        let (direction, transport) = (Direction::Received, Transport::Http);
        metrics.record(EndedTask { direction, transport, outcome: Outcome::InputRequired, ..task });
    };

    check(
        record,
        &[
            ("rockbot.a2a.tasks asked completed bus", 2.0),
            ("rockbot.a2a.task.duration asked completed bus", 300.0),
            ("rockbot.a2a.tasks asked timed_out bus", 1.0),
            ("rockbot.a2a.task.duration asked timed_out bus", 0.0),
            ("rockbot.a2a.tasks received input_required http", 1.0),
            ("rockbot.a2a.task.duration received input_required http", 250.0),
        ],
    );
}

#[test]
fn agents_are_counted_as_long_as_there_is_a_directory() {
    check(|meter| observe_agents(|| Some(3), meter), &[("rockbot.a2a.agents", 3.0)]);
    check(|meter| observe_agents(|| None, meter), &[]);
}

#[test]
fn an_outcome_is_what_the_other_agent_says_and_what_was_answered() {
    let answered = |state: AgentTaskState| {
        let change = TaskChange::Answered { state: state.number(), text: String::new() };
        Outcome::of_change(&change)
    };
    assert_eq!(answered(AgentTaskState::Completed), Outcome::Completed);
    assert_eq!(answered(AgentTaskState::InputRequired), Outcome::InputRequired);
    assert_eq!(answered(AgentTaskState::Canceled), Outcome::Canceled);
    assert_eq!(answered(AgentTaskState::Failed), Outcome::Failed);
    assert_eq!(answered(AgentTaskState::Other(77)), Outcome::Failed);
    assert_eq!(Outcome::of_change(&TaskChange::TimedOut { seconds: 1 }), Outcome::TimedOut);

    let failed = TaskEnd::Failed {
        code: AgentErrorCode::ExecutionFailed,
        message: String::new(),
        is_retryable: false,
    };
    assert_eq!(Outcome::of_end(&failed), Outcome::Failed);
    assert_eq!(Outcome::of_end(&TaskEnd::Canceled), Outcome::Canceled);
}
