//! Which targets are missed, and how often that is reported.

use super::*;

fn statistics(successes: u64, failures: u64, unavailable: u64, ms: u64) -> Statistics {
    let mut statistics = Statistics { successes, failures, unavailable, ..Statistics::default() };
    (0..successes + failures).for_each(|_| statistics.add_duration(ms));
    statistics
}

#[test]
fn cx_m7_a_tool_that_misses_a_target_is_reported_once() {
    let id = ToolId::parse("a/x").expect("an id");
    let check = |statistics: Statistics, expected: &[Target]| {
        let missed: Vec<_> = misses(&id, &statistics).into_iter().map(|miss| miss.target).collect();
        assert_eq!(missed, expected, "{statistics:?}");
    };
    check(statistics(100, 0, 0, 100), &[]);
    check(statistics(100, 0, 0, 700), &[Target::P50]);
    check(statistics(100, 0, 0, 3_000), &[Target::P50, Target::P99]);
    check(statistics(99, 1, 0, 100), &[Target::ErrorRate]);
    check(statistics(95, 5, 0, 100), &[Target::ErrorRate, Target::SuccessRate]);
    check(statistics(100, 0, 1, 100), &[Target::Uptime]);
    // A few calls say nothing.
    check(statistics(0, 19, 0, 9_000), &[]);

    let mut reporter = MissReporter::default();
    let slow = || misses(&id, &statistics(100, 0, 0, 3_000));
    assert_eq!(reporter.report(slow()), 2);
    assert_eq!(reporter.report(slow()), 0);
    assert_eq!(reporter.report(Vec::new()), 0);
    assert_eq!(reporter.report(slow()), 2);
}
