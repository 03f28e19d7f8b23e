//! What follows from counts, and that counts add up.

use super::*;

#[test]
fn cx_m2_percentiles_and_rates_follow_from_the_counts() {
    let mut statistics =
        Statistics { successes: 98, failures: 1, timeouts: 1, ..Statistics::default() };
    (0..90).for_each(|_| statistics.add_duration(80));
    (0..10).for_each(|_| statistics.add_duration(1_800));
    let (p50, p99) = (statistics.p50_ms().unwrap(), statistics.p99_ms().unwrap());
    assert!((50.0..=100.0).contains(&p50), "{p50}");
    assert!((1_500.0..=2_000.0).contains(&p99), "{p99}");
    assert_eq!((statistics.success_rate(), statistics.error_rate()), (0.98, 0.02));
    statistics.unavailable = 25;
    assert_eq!(statistics.uptime(), 0.8);
    assert_eq!(Statistics::default().p50_ms(), None);
    assert_eq!(Statistics::default().uptime(), 1.0);
}

#[test]
fn a_day_at_once_is_the_same_as_each_call_by_itself() {
    let call = |ms, at| {
        let mut one =
            Statistics { successes: 1, weight: 7, last_used_ms: at, ..Statistics::default() };
        one.add_duration(ms);
        one
    };
    let (one, two, three) = (call(5, 30), call(900_000, 10), call(0, 20));
    let mut by_one = Statistics::default();
    [&one, &two, &three].into_iter().for_each(|call| by_one.add(call));
    let mut at_once = two.clone();
    at_once.add(&three);
    at_once.add(&one);
    assert_eq!(by_one, at_once);
    assert_eq!((by_one.last_used_ms, by_one.runs()), (30, 3));
}

#[test]
fn a_principal_counts_less_and_less() {
    assert_eq!(use_weight(0), WEIGHT_UNIT);
    assert_eq!(use_weight(4), WEIGHT_UNIT);
    assert_eq!(use_weight(5), WEIGHT_UNIT / 2);
    let thousand: u64 = (0..1_000).map(use_weight).sum();
    assert!(thousand < 12 * WEIGHT_UNIT, "{thousand}");
}
