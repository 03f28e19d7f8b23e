//! Runs: a broker, a fleet, calls, and strikes at times that the seed decides.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

use crate::broker::{NodeCount, TestBroker};
use crate::fault::{Fault, Strike};
use crate::fleet::{Fleet, FleetConfig};
use crate::judge::{Verdict, judge};
use crate::random::Random;
use crate::strike::strike;

/// How long calls go on before the first strike: the callers are at work by then.
const WARM_UP_TIMEOUT: Duration = Duration::from_secs(30);
/// Calls that must have been made by then.
const WARM_UP_CALLS: u64 = 10;
/// How long the callers may take after the last strike: the longest deadline, and the start of a
/// caller that was killed at last.
const CALLERS_TIMEOUT: Duration = Duration::from_secs(600);
/// Maximum number of calls for callers that continue until the end file exists.
const CALLS_MAX: u64 = 100_000;
/// Time between two looks at the callers.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// What a run is made of.
#[derive(Debug, Clone)]
pub struct RunConfig {
    /// What all is drawn from.
    pub seed: u64,
    /// Calls of one run. In [`run_each_once`] this is a minimum: its callers continue until the
    /// last strike is over.
    pub calls: u64,
    /// Bridges.
    pub bridges: usize,
    /// Managers of scripts.
    pub managers: usize,
    /// How many of a hundred calls are scripts where there are managers.
    pub script_percent: u64,
    /// How long workers have to end their calls when they are asked to stop, where that is not the
    /// default.
    pub grace: Option<Duration>,
    /// Callers.
    pub callers: usize,
    /// Calls that one caller has under way.
    pub in_flight: u64,
    /// Mean pause of a lane between two calls.
    pub pause: Duration,
    /// Where ledgers and logs go.
    pub folder: PathBuf,
}

/// What became of a run.
#[derive(Debug, Clone)]
pub struct FaultRun {
    /// The fault, or what stands for several.
    pub name: String,
    /// How many nodes the broker had.
    pub nodes: NodeCount,
    /// How often it struck.
    pub strikes: usize,
    /// How long the calls took.
    pub took: Duration,
    /// What the judge counted.
    pub verdict: Verdict,
}

/// Takes what happens, as it happens.
pub type Say<'a> = &'a (dyn Fn(&str) + Sync);

/// Runs a fleet under one fault alone, for as long as it takes its callers to make their calls.
///
/// # Errors
/// When the fault needs managers and there are none, or a part of the run fails that no fault may
/// touch.
pub async fn run_alone(
    broker: &mut TestBroker,
    fault: Fault,
    config: &RunConfig,
    say: Say<'_>,
) -> anyhow::Result<FaultRun> {
    ensure!(config.managers > 0 || !fault.needs_managers(), "{} needs managers", fault.name());
    let strikes = fault.draw_strikes(&mut Random::new(config.seed).fork(fault.name()));
    let bridges_at_start = if fault == Fault::Scale { 1 } else { config.bridges };
    let clock_error = fault.clock_error();
    let run = Run { config, say, clock_error, bridges_at_start, calls: Calls::Exactly };
    run_strikes(broker, fault.name(), strikes, &run).await
}

/// Runs one fleet for long, under resets of its callers, alarms, and all else that one broker node
/// can have.
///
/// # Errors
/// As [`run_alone`].
pub async fn run_long(
    broker: &mut TestBroker,
    config: &RunConfig,
    say: Say<'_>,
) -> anyhow::Result<FaultRun> {
    let strikes = Fault::draw_long_run(&mut Random::new(config.seed).fork("long"));
    let count = strikes.len();
    let run = Run::of_all(config, say, Calls::Exactly);
    let run = run_strikes(broker, "long", strikes, &run).await?;
    if run.strikes < count {
        say(&format!("the calls ended after {} of {count} strikes", run.strikes));
    }
    Ok(run)
}

/// Runs one fleet under each of these faults once, one after the other.
///
/// # Errors
/// As [`run_alone`].
pub async fn run_each_once(
    broker: &mut TestBroker,
    strikes: Vec<Strike>,
    config: &RunConfig,
    say: Say<'_>,
) -> anyhow::Result<FaultRun> {
    let count = strikes.len();
    let run = Run::of_all(config, say, Calls::UntilTheLastStrike);
    let run = run_strikes(broker, "each once", strikes, &run).await?;
    ensure!(run.strikes == count, "the calls ended after {} of {count} strikes", run.strikes);
    Ok(run)
}

/// The condition that ends the callers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Calls {
    /// With the number of calls that was asked for.
    Exactly,
    /// With that number, and not before the last strike is over, however slow the machine is.
    UntilTheLastStrike,
}

struct Run<'a> {
    config: &'a RunConfig,
    say: Say<'a>,
    clock_error: Option<Duration>,
    bridges_at_start: usize,
    calls: Calls,
}

impl<'a> Run<'a> {
    /// A run of several faults.
    fn of_all(config: &'a RunConfig, say: Say<'a>, calls: Calls) -> Self {
        Self { config, say, clock_error: None, bridges_at_start: config.bridges, calls }
    }
}

async fn run_strikes(
    broker: &mut TestBroker,
    name: &str,
    strikes: Vec<Strike>,
    run: &Run<'_>,
) -> anyhow::Result<FaultRun> {
    let RunConfig { seed, calls, bridges, managers, grace, .. } = *run.config;
    let RunConfig { callers, in_flight, pause, script_percent, .. } = *run.config;
    let folder = run.config.folder.join(name);
    std::fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    let config = FleetConfig {
        bridges,
        bridges_at_start: run.bridges_at_start,
        managers,
        script_percent,
        grace,
        callers,
        calls: if run.calls == Calls::Exactly { calls } else { CALLS_MAX },
        in_flight,
        pause,
        seed,
        clock_error: run.clock_error,
        folder,
    };

    let nodes = broker.count();
    let mut fleet = Fleet::start(broker, config).await.context("starting the fleet")?;
    warm_up(&mut fleet).await?;
    let start = Instant::now();
    let mut struck = 0;
    for next in strikes {
        if !fleet.sleep_while_calling(next.after).await? {
            break;
        }
        let at = start.elapsed();
        (run.say)(&format!(
            "{:>7.1} s  {}, drawn {}, for {:?}",
            at.as_secs_f64(),
            next.fault.name(),
            next.victim % 1000,
            next.hold
        ));
        strike(&mut fleet, next).await.with_context(|| next.fault.name())?;
        struck += 1;
    }

    if run.calls == Calls::UntilTheLastStrike {
        wait_for_calls(&mut fleet, calls).await?;
        fleet.end_calls()?;
    }
    wait_for_callers(&mut fleet).await?;
    let took = start.elapsed();
    let verdict = judge(&fleet.finish().await?);
    Ok(FaultRun { name: name.to_owned(), nodes, strikes: struck, took, verdict })
}

async fn warm_up(fleet: &mut Fleet<'_>) -> anyhow::Result<()> {
    let end = Instant::now() + WARM_UP_TIMEOUT;
    while fleet.count_calls()? < WARM_UP_CALLS && fleet.is_calling()? {
        ensure!(Instant::now() < end, "the callers do not begin");
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    Ok(())
}

async fn wait_for_calls(fleet: &mut Fleet<'_>, calls: u64) -> anyhow::Result<()> {
    let end = Instant::now() + CALLERS_TIMEOUT;
    while fleet.count_calls()? < calls && fleet.is_calling()? {
        ensure!(Instant::now() < end, "there are not {calls} calls after {CALLERS_TIMEOUT:?}");
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    Ok(())
}

async fn wait_for_callers(fleet: &mut Fleet<'_>) -> anyhow::Result<()> {
    let is_calling = fleet.sleep_while_calling(CALLERS_TIMEOUT).await?;
    ensure!(!is_calling, "the callers still call after {CALLERS_TIMEOUT:?}");
    Ok(())
}
