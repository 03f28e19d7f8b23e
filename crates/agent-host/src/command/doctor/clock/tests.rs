use toolbus_config::FindingState;

use super::*;

fn reading(ahead_ms: i64) -> ClockReading {
    ClockReading { source: "PostgreSQL".to_owned(), ahead_ms, error_ms: 600 }
}

#[test]
fn the_clock_that_differs_most_counts() {
    let check = |readings: &[ClockReading], state: FindingState, detail: &str| {
        let found = describe(readings, true).unwrap();
        assert_eq!((found.state, &*found.detail), (state, detail));
    };
    check(&[reading(-400)], FindingState::Ok, "agrees with PostgreSQL");
    check(&[reading(1_500)], FindingState::Ok, "2 s behind that of PostgreSQL");
    check(&[reading(100), reading(-9_000)], FindingState::Note, "9 s ahead of that of PostgreSQL");
    check(&[reading(301_000)], FindingState::Wrong, "301 s behind that of PostgreSQL");
}

#[test]
fn without_another_clock_it_is_said_where_one_matters() {
    assert_eq!(describe(&[], false), None);
    assert!(describe(&[], true).unwrap().detail.starts_with("not compared"));
}
