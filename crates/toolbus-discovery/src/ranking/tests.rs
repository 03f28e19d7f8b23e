//! The formula, with worked examples.

use std::time::Duration;

use super::*;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

fn near(one: f64, other: f64) {
    assert!((one - other).abs() < 1e-9, "{one} is not {other}");
}

fn used(successes: u64, failures: u64, ms: u64) -> Statistics {
    let mut statistics = Statistics {
        successes,
        failures,
        weight: successes * crate::statistics::WEIGHT_UNIT,
        ..Statistics::default()
    };
    (0..successes + failures).for_each(|_| statistics.add_duration(ms));
    statistics
}

#[test]
fn cx_d3_the_score_is_the_weighted_sum_times_the_boosts() {
    let factors = FactorScores {
        similarity: 0.9,
        popularity: 0.8,
        user_history: 0.5,
        performance: 0.6,
        boost: 1.15,
    };
    let score = Score::of(factors);
    near(score.product, (0.36 + 0.2 + 0.1 + 0.09) * 1.15);
    near(score.reported(), score.product);

    let best = FactorScores {
        similarity: 1.0,
        popularity: 1.0,
        user_history: 1.0,
        performance: 1.0,
        boost: 1.25,
    };
    near(Score::of(best).product, 1.25);
    near(Score::of(best).reported(), 1.0);
}

#[test]
fn rule_3c_2_performance_is_what_the_formula_says() {
    near(performance_of(1.0 - 1_500.0 / 5_000.0, 0.005, 0.9995), 0.847_251_25);
    near((performance_of(0.7, 0.005, 0.9995) * PERFORMANCE_WEIGHT * 1_000.0).round(), 127.0);
}

#[test]
fn rule_3c_3_user_history_is_clamped() {
    let of = |successes, failures, days: u32| {
        user_history(&UserHistory { successes, failures, last_used: Some(DAY * days) })
    };
    near(of(14, 1, 1), 1.0);
    near(of(1, 0, 30), 1.0);
    near(of(0, 3, 1), 0.0);
    near(of(1, 1, 1), 0.6);
    near(user_history(&UserHistory::default()), 0.0);
}

#[test]
fn rule_3c_4_a_slow_tool_does_not_go_below_zero() {
    let slow = used(1, 0, 100_000);
    near(performance(&slow, false), 0.5);
    near(performance(&slow, true), 0.0);
}

#[test]
fn rule_3c_19_a_tool_that_is_away_has_the_penalty() {
    let known = used(10, 0, 100);
    assert!(performance(&known, true) < performance(&known, false));
    near(performance(&Statistics::default(), true), 0.25);
}

#[test]
fn rule_3c_20_learning_is_bounded() {
    let often = used(1_000, 0, 1);
    assert!((0.0..=1.0).contains(&popularity(&often, 1.0)));
    let broken = used(0, 1_000, 10_000);
    assert!((0.0..=1.0).contains(&performance(&broken, false)));
    near(performance(&used(0, 1, 100_000), false), 0.0);
    // A fresh tool is not starved.
    near(popularity(&Statistics { unavailable: 9, ..Statistics::default() }, 0.0), 0.5);
    near(popularity(&Statistics::default(), 0.0), 0.5);
    near(performance(&Statistics::default(), false), 0.5);
}

#[test]
fn rule_3c_21_exactly_seven_days_ago_is_not_recent() {
    let of = |ago| user_history(&UserHistory { successes: 1, failures: 1, last_used: Some(ago) });
    near(of(DAY * 7), 0.5);
    near(of(DAY * 7 - Duration::from_millis(1)), 0.6);
}

#[test]
fn cx_m5_each_use_and_each_error_is_one_step() {
    // Nothing but the number of steps differs: the place among others is given.
    let one = popularity(&used(1, 0, 1), 0.3);
    let two = popularity(&used(2, 0, 1), 0.3);
    near(two - one, 0.02);

    let (fine, failing) = (used(99, 0, 1), used(98, 1, 1));
    let known = performance_of(1.0 - failing.p99_ms().unwrap() / 5_000.0, 0.01, 0.0) + 0.99 / 99.0;
    assert!(known > 0.0);
    let lost = performance(&fine, false) - performance(&failing, false);
    near(lost, 0.05 + (1.0 / 99.0) / 2.0);

    let of = |successes| {
        let last_used = Some(DAY * 10);
        user_history(&UserHistory { successes, failures: 10, last_used })
    };
    near(of(2), 2.0 / 12.0 + 0.10);
    near(of(3), 3.0 / 13.0 + 0.20);
}

#[test]
fn boosts_are_multiplied() {
    let all = Boosts {
        is_of_same_server: true,
        is_certified: true,
        is_asynchronous_after_hours: true,
        is_fast_in_hours: false,
    };
    near(all.product(), 1.15 * 1.25 * 1.2);
    near(Boosts { is_fast_in_hours: true, ..Boosts::default() }.product(), 1.1);
    near(Boosts::default().product(), 1.0);
}
