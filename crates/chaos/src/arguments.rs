//! The command line, and what each command does.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use clap::{Parser, Subcommand};

use crate::broker::{NodeCount, TestBroker};
use crate::caller::CallerConfig;
use crate::driver::{FaultRun, RunConfig, run_alone, run_long};
use crate::fault::Fault;
use crate::report::{write_findings, write_page, write_table};
use crate::{caller, effects};

/// Most workers and callers: each is a process.
const PROCESSES_MAX: usize = 100;
/// Most calls of one run.
const CALLS_MAX: u64 = 1_000_000;

/// Breaks a fleet on purpose, and judges by ledgers outside of it what became of each call.
#[derive(Debug, Parser)]
#[command(name = "chaos", max_term_width = 100)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serves the tools that leave their effects in a ledger (started by `run`)
    Effects {
        /// Where; the address is printed
        #[arg(long)]
        listen: SocketAddr,
        /// Where the ledger is
        #[arg(long)]
        ledger: PathBuf,
        /// Where scripts tell their effects, a socket
        #[arg(long)]
        socket: Option<PathBuf>,
    },
    /// Makes calls (started by `run`)
    Caller(CallerConfig),
    /// Runs a fleet under each fault and prints the table
    Run(RunArguments),
    /// Lists the names of the faults
    Faults,
}

#[derive(Debug, Clone, clap::Args)]
struct RunArguments {
    /// One long run instead: 100,000 calls by 100 callers over ten bridges, with 1,000 resets of
    /// callers, 20 alarms of 35 s, and each other fault of one broker node once; half an hour or so
    #[arg(
        long,
        conflicts_with_all = [
            "calls", "fault", "nodes", "bridges", "callers", "in_flight", "pause_ms",
            "script_percent",
        ]
    )]
    long: bool,
    /// Calls under each fault
    #[arg(long, default_value_t = 1000)]
    calls: u64,
    /// What all is drawn from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// A fault; without any, all that can be done
    #[arg(long)]
    fault: Vec<String>,
    /// Nodes of the broker, 1 or 3; without it, as many as the fault needs
    #[arg(long)]
    nodes: Option<u64>,
    /// Bridges
    #[arg(long, default_value_t = 3)]
    bridges: usize,
    /// Managers of scripts
    #[arg(long, default_value_t = 3)]
    managers: usize,
    /// How many of a hundred calls are scripts, where there are managers
    #[arg(long, default_value_t = 20)]
    script_percent: u64,
    /// How long workers have to end their calls when they are asked to stop, in milliseconds;
    /// without it 20 s
    #[arg(long)]
    grace_ms: Option<u64>,
    /// Callers
    #[arg(long, default_value_t = 4)]
    callers: usize,
    /// Calls that one caller has under way
    #[arg(long, default_value_t = 8)]
    in_flight: u64,
    /// Mean pause of a lane between two calls, in milliseconds
    #[arg(long, default_value_t = 400)]
    pause_ms: u64,
    /// Writes the page with the table there, too
    #[arg(long)]
    table: Option<PathBuf>,
    /// Keeps the ledgers there
    #[arg(long)]
    ledgers: Option<PathBuf>,
}

impl Arguments {
    /// Does what was asked for.
    ///
    /// # Errors
    /// What kept it from that.
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        match self.command {
            Command::Effects { listen, ledger, socket } => {
                effects::serve(listen, ledger, socket).await?;
            }
            Command::Caller(config) => caller::run(config).await?,
            Command::Faults => Fault::ALL.iter().for_each(|(_, name)| say(name)),
            Command::Run(arguments) => return run_until_interrupted(&arguments).await,
        }
        Ok(ExitCode::SUCCESS)
    }
}

async fn run_until_interrupted(arguments: &RunArguments) -> anyhow::Result<ExitCode> {
    let arguments = arguments.clone().with_long_defaults();
    let run = run_faults(&arguments);
    // Both arms only wait: what runs ends when it is dropped.
    tokio::select! {
        ended = run => ended,
        interrupted = tokio::signal::ctrl_c() => {
            interrupted.context("waiting for an interrupt")?;
            anyhow::bail!("interrupted");
        }
    }
}

impl RunArguments {
    /// The same, or what the long run is made of.
    fn with_long_defaults(self) -> Self {
        if !self.long {
            return self;
        }
        Self {
            calls: 100_000,
            bridges: 10,
            script_percent: 5,
            callers: 100,
            in_flight: 3,
            pause_ms: 1800,
            ..self
        }
    }
}

async fn run_faults(arguments: &RunArguments) -> anyhow::Result<ExitCode> {
    ensure!(arguments.script_percent <= 100, "at most 100 of a hundred calls");
    ensure!((1..=CALLS_MAX).contains(&arguments.calls), "1 to {CALLS_MAX} calls");
    for count in [arguments.bridges, arguments.callers, arguments.managers.max(1)] {
        ensure!((1..=PROCESSES_MAX).contains(&count), "1 to {PROCESSES_MAX} of each process");
    }

    let temporary = tempfile::TempDir::with_prefix("toolbus-chaos-")?;
    let config = RunConfig {
        seed: arguments.seed,
        calls: arguments.calls,
        bridges: arguments.bridges,
        managers: arguments.managers,
        script_percent: arguments.script_percent,
        grace: arguments.grace_ms.map(Duration::from_millis),
        callers: arguments.callers,
        in_flight: arguments.in_flight,
        pause: Duration::from_millis(arguments.pause_ms),
        folder: arguments.ledgers.clone().unwrap_or_else(|| temporary.path().to_owned()),
    };

    if arguments.long {
        return run_all_together(&config, arguments).await;
    }

    let faults = choose_faults(arguments)?;
    let nodes = arguments.nodes.map(NodeCount::parse).transpose()?;
    let mut kept: Option<TestBroker> = None;
    let mut runs = Vec::new();
    let mut failed = 0;
    for fault in faults {
        say(&format!("{}, seed {}", fault.name(), config.seed));
        let nodes = nodes.unwrap_or_else(|| fault.node_count());
        let mut broker = match kept.take() {
            Some(broker) if broker.count() == nodes => broker,
            other => {
                drop(other);
                TestBroker::start(nodes).await.context("starting the broker")?
            }
        };

        match run_alone(&mut broker, fault, &config, &say).await {
            Ok(run) => {
                say(&format!(
                    "{}\n{}",
                    write_table(std::slice::from_ref(&run)),
                    write_findings(&run)
                ));
                runs.push(run);
                kept = Some(broker);
            }
            // The broker may have been left in any state.
            Err(error) => {
                failed += 1;
                say(&format!("{}: no result: {error:?}", fault.name()));
            }
        }
        save_page(&runs, &config, arguments)?;
    }

    say(&write_page(&runs, &config));
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn run_all_together(
    config: &RunConfig,
    arguments: &RunArguments,
) -> anyhow::Result<ExitCode> {
    let mut broker = TestBroker::start(NodeCount::One).await.context("starting the broker")?;
    let run = run_long(&mut broker, config, &say).await?;
    say(&write_findings(&run));

    let runs = [run];
    save_page(&runs, config, arguments)?;
    say(&write_page(&runs, config));
    Ok(ExitCode::SUCCESS)
}

/// Written after each fault, so that a run that is interrupted leaves what it has.
fn save_page(
    runs: &[FaultRun],
    config: &RunConfig,
    arguments: &RunArguments,
) -> anyhow::Result<()> {
    let Some(path) = &arguments.table else { return Ok(()) };
    std::fs::write(path, write_page(runs, config))
        .with_context(|| format!("writing {}", path.display()))
}

fn choose_faults(arguments: &RunArguments) -> anyhow::Result<Vec<Fault>> {
    if arguments.fault.is_empty() {
        let all = Fault::ALL.into_iter().map(|(fault, _)| fault);
        let is_possible = |fault: &Fault| arguments.managers > 0 || !fault.needs_managers();
        return Ok(all.filter(is_possible).collect());
    }
    arguments.fault.iter().map(|name| Fault::parse(name)).collect()
}

#[allow(clippy::print_stdout, reason = "a tool of the terminal")]
fn say(text: &str) {
    println!("{text}");
}
