use serde_json::json;

use super::{Goal, Report, Row, format_number};
use crate::bench::Rounds;

fn rounds(values: &[f64]) -> Rounds {
    let mut rounds = Rounds::new();
    values.iter().for_each(|value| rounds.add(*value));
    rounds
}

#[test]
fn a_goal_holds_up_to_its_limit() {
    let check = |ours: f64, goal: Goal, holds: bool| {
        let row = Row::new("x", "ms", rounds(&[ours])).beside(rounds(&[10.0])).with_goal(goal);
        assert_eq!(row.holds(), holds, "{ours} {goal:?}");
    };
    check(5.0, Goal::AtMost(5.0), true);
    check(5.1, Goal::AtMost(5.0), false);
    check(5.0, Goal::AtLeast(5.0), true);
    check(4.9, Goal::AtLeast(5.0), false);
    check(12.5, Goal::RatioAtMost(1.25), true);
    check(12.6, Goal::RatioAtMost(1.25), false);
    check(8.5, Goal::RatioAtLeast(0.85), true);
    check(8.4, Goal::RatioAtLeast(0.85), false);
    check(20.0, Goal::ExcessAtMost(10.0), true);
    check(20.1, Goal::ExcessAtMost(10.0), false);
}

#[test]
fn what_was_not_measured_reaches_no_goal() {
    let row = Row::new("x", "ms", Rounds::new());
    assert!(row.holds());
    assert!(!row.clone().with_goal(Goal::AtMost(1.0)).holds());
    assert!(!row.clone().with_goal(Goal::AtLeast(1.0)).holds());
    let alone = Row::new("x", "ms", rounds(&[1.0]));
    assert!(!alone.clone().with_goal(Goal::RatioAtMost(9.0)).holds());
    assert!(!alone.with_goal(Goal::ExcessAtMost(9.0)).holds());
}

#[test]
fn the_json_has_the_members_that_tools_read() {
    let mut report = Report::new("example");
    let ours = rounds(&[3.0, 1.0, 2.0]);
    report.add(Row::new("x", "ms", ours.clone()).beside(rounds(&[4.0, 4.0, 4.0])));
    report.add(Row::new("y", "calls/s", ours).with_goal(Goal::AtLeast(100_000.0)));
    let json = report.to_json();
    assert!(json["machine"].as_str().unwrap().contains("cores"));
    assert_eq!(
        json["rows"],
        json!([
            {"name": "x", "unit": "ms", "ours": 2.0, "peer": 4.0, "ratio": 0.5, "goal": null,
             "holds": true},
            {"name": "y", "unit": "calls/s", "ours": 2.0, "peer": null, "ratio": null,
             "goal": "≥ 100,000 calls/s", "holds": false},
        ])
    );
}

#[test]
fn numbers_are_short() {
    let check = |value: f64, text: &str| assert_eq!(format_number(value), text);
    check(0.256, "0.26");
    check(99.99, "99.99");
    check(100.4, "100");
    check(-1234.0, "-1,234");
    check(1_234_567.0, "1,234,567");
    check(f64::NAN, "-");
}
