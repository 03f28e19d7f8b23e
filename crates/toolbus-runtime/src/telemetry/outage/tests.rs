//! When something is said.

use super::*;

#[test]
fn an_outage_of_all_signals_is_told_once_and_so_is_its_end() {
    let outages = Outages::default();
    let failed = |signal| outages.record_failure(signal, "connection refused");
    assert!(!outages.record_success("traces"), "nothing was the matter");
    let told = ["traces", "logs", "metrics", "traces", "logs"].map(failed);
    assert_eq!(told, [true, false, false, false, false]);
    let over = ["traces", "metrics", "logs", "logs"].map(|signal| outages.record_success(signal));
    assert_eq!(over, [false, false, true, false], "the last signal ends it");
}

#[test]
fn a_signal_that_is_refused_hides_no_outage_of_the_others() {
    let outages = Outages::default();
    assert!(outages.record_failure("logs", "HTTP status 404"));
    assert!(outages.record_failure("traces", "connection refused"));
    assert!(!outages.record_failure("metrics", "connection refused"));
    assert!(!outages.record_success("metrics"));
    assert!(outages.record_success("traces"));
}

#[test]
fn a_collector_that_comes_and_goes_is_not_told_each_time() {
    let outages = Outages::default();
    assert!(outages.record_failure("traces", "connection refused"));
    assert!(outages.record_success("traces"));
    assert!(!outages.record_failure("traces", "connection refused"));
    assert!(!outages.record_success("traces"), "its beginning was not told");
}

#[test]
fn what_is_remembered_of_causes_is_bounded() {
    let outages = Outages::default();
    for number in 0..1_000 {
        outages.record_failure("traces", &format!("cause {number}"));
        outages.record_success("traces");
    }
    let state = outages.0.lock();
    assert!(state.warned.len() <= CAUSES_MAX && state.reported.is_empty(), "{state:?}");
}
