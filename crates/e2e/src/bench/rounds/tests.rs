use std::time::Duration;

use super::{Latencies, Rounds};

const MS: Duration = Duration::from_millis(1);

fn rounds(values: &[f64]) -> Rounds {
    let mut rounds = Rounds::new();
    values.iter().for_each(|value| rounds.add(*value));
    rounds
}

#[test]
fn the_median_is_the_middle_round_or_between_the_two() {
    let check = |values: &[f64], median: f64| assert_eq!(rounds(values).median(), median);
    check(&[7.0], 7.0);
    check(&[9.0, 1.0, 2.0], 2.0);
    check(&[4.0, 1.0, 9.0, 2.0], 3.0);
    assert!(Rounds::new().median().is_nan());
}

#[test]
fn percentiles_are_of_the_nearest_rank_and_the_spread_is_over_rounds() {
    let mut rounds = Rounds::new();
    for factor in [1, 3] {
        let mut latencies = Latencies::default();
        (1..=100).rev().for_each(|ms| latencies.add(ms * factor * MS));
        rounds.add_latencies(latencies, MS);
    }
    assert_eq!(rounds.spread(), (50.0, 150.0));
    assert_eq!(rounds.median(), 100.0);
    assert_eq!(rounds.tail(), Some((180.0, 198.0)));
}

#[test]
fn a_comparison_is_made_round_by_round() {
    let ours = rounds(&[10.0, 30.0, 20.0]);
    let peer = rounds(&[10.0, 10.0, 10.0]);
    assert_eq!(ours.over(&peer).median(), 2.0);
    assert_eq!(ours.above(&peer).spread(), (0.0, 20.0));
}
