//! Every schedule of one call between a caller and two workers that share a queue, up to a depth.
//!
//! The requester and the responders are the real ones. The broker between them loses, repeats,
//! delays and reorders as a schedule says, on a paused clock, so that a run is known by its choices.
//! Each test goes through all schedules that have up to so many faults at the first so many points,
//! and has a judge look at each: a call that may not repeat runs once at most, it ends once and in
//! time, what its caller is told is true, and nothing runs on that nobody waits for.
//!
//! Where a caller may be told less than a worker knows, the reason is a [`Limitation`]. A test says
//! which of them it meets: one that is not met any more is to be deleted.
//!
//! A failure prints its schedule in words, as [`replay`] takes it.
//!
//! Left out: calls that are parked, ask questions or report progress, workers that stop or start in
//! the middle, clocks that differ, and more than one call at a time.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may panic and print")]

#[path = "exploration/broker.rs"]
mod broker;
#[path = "exploration/connection.rs"]
mod connection;
#[path = "exploration/delivery.rs"]
mod delivery;
#[path = "exploration/event.rs"]
mod event;
#[path = "exploration/history.rs"]
mod history;
#[path = "exploration/judge.rs"]
mod judge;
#[path = "exploration/limitation.rs"]
mod limitation;
#[path = "exploration/link.rs"]
mod link;
#[path = "exploration/options.rs"]
mod options;
#[path = "exploration/outage.rs"]
mod outage;
#[path = "exploration/queue.rs"]
mod queue;
#[path = "exploration/schedule.rs"]
mod schedule;
#[path = "exploration/service.rs"]
mod service;
#[path = "exploration/world.rs"]
mod world;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use history::{End, Record};
use judge::{Verdict, judge};
use limitation::Limitation::{self, *};
use schedule::{Limits, NamedFault, Schedule, explore};
use toolbus_bus::requester;
use world::Scenario;

/// A call that takes a few heartbeats. Times are odd, so that they fall together with no other.
const ONCE: Scenario = Scenario {
    may_repeat: false,
    work: Duration::from_millis(2_217),
    budget: Duration::from_millis(45_317),
};
const REPEATABLE: Scenario = Scenario { may_repeat: true, ..ONCE };
/// Calls that take longer than any outage but not than their callers wait.
const LONG: Scenario = Scenario { work: Duration::from_millis(9_217), ..ONCE };
const LONG_REPEATABLE: Scenario = Scenario { may_repeat: true, ..LONG };
/// A call that takes longer than its caller waits.
const IMPATIENT: Scenario = Scenario { budget: Duration::from_millis(1_717), ..ONCE };

const RESTART: &str = "the broker restarts, the caller is back after 200 ms, workers after 6000 ms";

/// 3,673 schedules.
#[test]
fn a_call_that_may_not_repeat() {
    let met = [WorkerCutOff, RefusedUnheard];
    check(ONCE, Limits { points: 7, faults: 3 }, &met);
}

/// 1,705 schedules.
#[test]
fn a_call_that_may_repeat() {
    let met = [WorkerCutOff, RefusedUnheard];
    check(REPEATABLE, Limits { points: 5, faults: 3 }, &met);
}

/// 1,483 schedules: any two faults.
#[test]
fn a_long_call_that_may_not_repeat() {
    let met = [WorkerCutOff, RefusedUnheard];
    check(LONG, Limits { points: 40, faults: 2 }, &met);
}

/// 1,335 schedules.
#[test]
fn a_long_call_that_may_repeat() {
    let met = [WorkerCutOff, RefusedUnheard];
    check(LONG_REPEATABLE, Limits { points: 10, faults: 2 }, &met);
}

/// 482 and 785 schedules.
#[test]
fn a_call_that_is_out_of_time() {
    check(IMPATIENT, Limits { points: 10, faults: 2 }, &[]);
    let repeatable = Scenario { may_repeat: true, ..IMPATIENT };
    check(repeatable, Limits { points: 10, faults: 2 }, &[]);
}

/// A connection that is lost for a while costs no outcome, though another worker answers first.
#[test]
fn a_worker_that_is_back_soon_is_believed() {
    let lost = "worker A loses its connection for 6000 ms";
    let record = replay(ONCE, &[("worker A publishes heartbeat 2", lost)]);
    assert_eq!(record.end().unwrap().1, End::Ok("1".to_owned()));
}

#[test]
fn a_request_whose_confirm_is_lost_is_not_run_twice() {
    let record = replay(ONCE, &[("the caller publishes request 1", "the confirm is lost")]);
    assert_eq!(record.end().unwrap().1, End::Ok("1".to_owned()));
    assert_eq!(record.runs.len(), 1);
}

/// What another worker says again and again does not put off the end.
#[test]
fn a_caller_of_a_dead_worker_is_told_soon() {
    let record = replay(ONCE, &[("worker A starts run 1", "worker A is killed")]);
    let (at, end) = record.end().unwrap();
    assert!(matches!(end, End::Failed { is_tentative: true, .. }), "{end:?}");
    assert!(*at < Duration::from_secs(20), "{at:?}");
}

/// Requests may be there again before cancel messages are.
#[test]
fn a_worker_that_is_back_asks_before_it_starts_what_was_given_up() {
    let faults = [
        ("the caller publishes request 1", "the caller will cancel after 3017 ms"),
        ("worker A is handed request 1", RESTART),
        ("worker A connects again, time 1", "it takes requests before it hears cancel messages"),
    ];
    let record = replay(REPEATABLE, &faults);
    assert_eq!(record.end().unwrap().1, End::Error(requester::Error::Cancelled));
    assert!(record.runs.is_empty());
}

#[test]
fn a_call_that_was_started_before_a_restart_has_its_result() {
    let record = replay(ONCE, &[("worker A starts run 1", RESTART)]);
    assert_eq!(record.end().unwrap().1, End::Ok("1".to_owned()));
}

/// Explores, and fails at the first schedule that is wrong.
fn check(scenario: Scenario, limits: Limits, expected: &[Limitation]) {
    let started = Instant::now();
    let mut met = BTreeMap::<Limitation, usize>::new();
    let run = |schedule: &Arc<Schedule>| world::run(scenario, schedule, false);
    let count = explore(limits, run, |schedule, record| match judge(scenario, &record) {
        Verdict::Right => {}
        Verdict::Limited(limitation) => *met.entry(limitation).or_default() += 1,
        Verdict::Wrong(wrong) => fail(scenario, schedule, &wrong),
    });

    let Limits { points, faults } = limits;
    let took = started.elapsed();
    println!("{scenario:?}: {count} schedules, {faults} faults at {points} points, in {took:?}");
    for (limitation, count) in &met {
        println!("  {count:5} times: {limitation}");
    }
    let met: Vec<_> = met.into_keys().collect();
    assert_eq!(met, expected, "which limitations are met");
}

/// Tells what happened in a schedule that is wrong.
fn fail(scenario: Scenario, schedule: &Schedule, wrong: &str) {
    let names = schedule.names();
    let trace = world::run(scenario, &Arc::new(schedule.again()), true);
    panic!("{wrong}, in {scenario:?}:\n{trace}\nTo run it again, `replay` these: {names:#?}");
}

/// Runs one schedule, in which only these faults happen, and prints what happened.
fn replay(scenario: Scenario, faults: &[NamedFault]) -> Record {
    let schedule = Arc::new(Schedule::named(faults));
    let record = world::run(scenario, &schedule, true);
    println!("{record}");
    assert_eq!(schedule.unmet(), [], "faults that could not happen");
    if let Verdict::Wrong(wrong) = judge(scenario, &record) {
        panic!("{wrong}");
    }
    record
}
