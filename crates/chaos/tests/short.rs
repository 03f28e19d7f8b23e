//! The short run: each fault strikes once, while a fleet makes calls. What it lets pass is in
//! `chaos::allowed` alone.
//!
//! The alarms run in a separate fleet, and so do the faults that need three broker nodes. `cargo
//! xtask accept chaos` runs every fault many times; it is the only run with the disk alarm of 35 s.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may panic and tell")]

use std::time::Duration;

use chaos::allowed::{ALARMS, Allowed, FAULTS, NODES};
use chaos::broker::{NodeCount, TestBroker};
use chaos::driver::{FaultRun, RunConfig, run_each_once};
use chaos::fault::{Fault, Strike};
use chaos::random::Random;
use chaos::report::{write_findings, write_table};
use toolbus_testkit::rabbit;

/// What all is drawn from.
const SEED: u64 = 15;
/// Longest strike of a fault whose strikes may be of any length.
const HOLD_TIMEOUT_MAX: Duration = Duration::from_secs(4);

fn is_alarm(fault: Fault) -> bool {
    fault.name().contains("-alarm-")
}

fn draw_strikes(is_wanted: impl Fn(Fault) -> bool) -> Vec<Strike> {
    let faults = Fault::ALL.into_iter().map(|(fault, _)| fault);
    let possible = faults.filter(|fault| *fault != Fault::None);
    let strikes = possible.filter(|fault| is_wanted(*fault)).map(|fault| {
        let mut strike = fault.draw_strike(&mut Random::new(SEED).fork(fault.name()));
        strike.after = Duration::from_millis(500);
        if !is_alarm(fault) {
            strike.hold = strike.hold.min(HOLD_TIMEOUT_MAX);
        }
        strike
    });
    strikes.collect()
}

async fn run(
    mut broker: TestBroker,
    strikes: Vec<Strike>,
    calls: u64,
    pause: Duration,
) -> FaultRun {
    let folder = tempfile::tempdir().unwrap();
    let config = RunConfig {
        seed: SEED,
        calls,
        bridges: 3,
        managers: 2,
        script_percent: 20,
        grace: None,
        callers: 2,
        in_flight: 8,
        pause,
        folder: folder.path().to_owned(),
    };

    let run = run_each_once(&mut broker, strikes, &config, &|text| println!("{text}")).await;
    run.unwrap_or_else(|error| panic!("no result: {error:?}"))
}

fn check(run: &FaultRun, allowed: &Allowed) {
    println!("{}{}", write_table(std::slice::from_ref(run)), write_findings(run));
    let excess = allowed.find_excess(&run.verdict);
    assert!(excess.is_empty(), "{excess:#?}\n{}", write_findings(run));
}

fn needs_one_node(fault: Fault) -> bool {
    fault.node_count() == NodeCount::One
}

async fn start_node() -> Option<TestBroker> {
    Some(TestBroker::Node(Box::new(rabbit::node().await?)))
}

#[tokio::test(flavor = "multi_thread")]
async fn every_call_has_one_true_outcome_under_each_fault() {
    let Some(broker) = start_node().await else { return };
    let strikes = draw_strikes(|fault| !is_alarm(fault) && needs_one_node(fault));
    let run = run(broker, strikes, 1_000, Duration::from_millis(550)).await;
    check(&run, &FAULTS);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_call_has_one_true_outcome_under_alarms() {
    let Some(broker) = start_node().await else { return };
    let strikes = draw_strikes(|fault| is_alarm(fault) && fault != Fault::DiskAlarm35s);
    let run = run(broker, strikes, 400, Duration::from_millis(300)).await;
    check(&run, &ALARMS);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_call_has_one_true_outcome_while_nodes_go() {
    let Some(cluster) = rabbit::cluster().await else { return };
    let strikes = draw_strikes(|fault| !needs_one_node(fault));
    let broker = TestBroker::Cluster(Box::new(cluster));
    let run = run(broker, strikes, 300, Duration::from_millis(550)).await;
    check(&run, &NODES);
}
