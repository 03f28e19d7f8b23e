use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

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

/// The report of a benchmark of three parts, of which these are wanted.
fn begin(folder: &Path, wanted: &[&'static str]) -> Report {
    Report::begin("example", folder, &["one", "two", "three"], wanted).unwrap()
}

fn read_json(folder: &Path) -> Value {
    serde_json::from_slice(&fs::read(folder.join("example.json")).unwrap()).unwrap()
}

#[test]
fn the_json_has_the_members_that_tools_read() {
    let folder = tempfile::tempdir().unwrap();
    let mut report = begin(folder.path(), &["one"]);
    let ours = rounds(&[3.0, 1.0, 2.0]);
    report.add(Row::new("x", "ms", ours.clone()).beside(rounds(&[4.0, 4.0, 4.0])));
    report.add(Row::new("y", "calls/s", ours).with_goal(Goal::AtLeast(100_000.0)));
    let mut json = read_json(folder.path());
    assert!(json["machine"].as_str().unwrap().contains("cores"));
    for row in json["rows"].as_array_mut().unwrap() {
        let row = row.as_object_mut().unwrap();
        row.remove("cells").unwrap();
        row.remove("part").unwrap();
    }
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
fn what_was_measured_is_written_before_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let mut report = begin(folder.path(), &["one", "two", "three"]);
    report.begin_part("one");
    report.add(Row::new("x", "ms", rounds(&[1.0])));
    report.end_part("one", Duration::from_secs(3), None);
    report.begin_part("two");
    report.add(Row::new("y", "ms", rounds(&[2.0])));
    report.end_part("two", Duration::from_secs(1), Some("nobody answered".to_owned()));
    assert!(!report.holds());

    let json = read_json(folder.path());
    let names: Vec<_> = json["rows"].as_array().unwrap().iter().map(|row| &row["name"]).collect();
    assert_eq!(names, ["x", "y"]);
    assert_eq!(json["seconds"], json!({"one": 3.0}));
    assert_eq!(json["missing"], json!({"two": "nobody answered", "three": "not yet"}));
    let table = fs::read_to_string(folder.path().join("example.md")).unwrap();
    assert!(table.contains("| x "), "{table}");
    assert!(table.contains("- Not measured to its end: two, nobody answered\n"), "{table}");
}

#[test]
fn parts_that_are_not_wanted_keep_what_they_gave() {
    let folder = tempfile::tempdir().unwrap();
    let mut report = begin(folder.path(), &["one", "two", "three"]);
    for part in ["one", "two"] {
        report.begin_part(part);
        report.add(Row::new(format!("of {part}"), "ms", rounds(&[1.0])));
        report.note(format!("About {part}."));
        report.end_part(part, Duration::from_secs(5), None);
    }

    let mut report = begin(folder.path(), &["one", "three"]);
    assert_eq!(report.took_before("one"), Some(Duration::from_secs(5)));
    assert_eq!(report.took_before("three"), None);
    for part in ["one", "three"] {
        report.begin_part(part);
        report.add(Row::new(format!("{part} again"), "ms", rounds(&[1.0])));
        report.end_part(part, Duration::from_secs(1), None);
    }
    assert!(report.holds());
    let table = report.to_markdown();
    let places =
        ["one again", "of two", "three again", "- About two."].map(|text| table.find(text));
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{table}");
    assert!(!table.contains("of one") && !table.contains("About one"), "{table}");
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
