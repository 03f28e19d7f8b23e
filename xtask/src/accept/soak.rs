//! `cargo xtask accept soak`: thousands of scripts by both runners, on real parts.
//!
//! The soak itself is a benchmark of `toolbus-pods`, which prints what failed and what is left. It
//! is about failures, not about speed, so it runs what the tests run, built as they are.

use std::process::ExitCode;

use super::results::Results;
use crate::bench;
use crate::cluster::{Cluster, KUBECONFIG};
use crate::real_parts::{self, BROKER, RealParts};
use crate::workspace;

const BENCH_NAME: &str = "soak";
/// Selects the same packages for build and run as the tests do, so that nothing is built twice.
const SELECTED: [&str; 2] = ["--workspace", "--locked"];
/// The runners, each of which is a unit.
const RUNNERS: [&str; 2] = ["local", "pods"];

/// Runs it: `[--keep] [ARGUMENTS OF the benchmark]`. Without arguments for the benchmark, each
/// runner that has no result at this commit has its turn.
pub(super) fn run(arguments: &[&str]) -> anyhow::Result<ExitCode> {
    let (table, arguments) = bench::split_arguments(arguments);
    if !arguments.is_empty() {
        return run_once(&arguments, table);
    }

    let mut results = Results::read(BENCH_NAME)?;
    for runner in RUNNERS {
        if results.has(runner) {
            continue;
        }
        let outcome = run_once(&["--runner", runner], table)?;
        if outcome != ExitCode::SUCCESS {
            return Ok(outcome);
        }
        results.record(runner, true.into())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn run_once(arguments: &[&str], table: bench::BenchTable) -> anyhow::Result<ExitCode> {
    let folders = real_parts::prepare_all()?;
    let mut build = workspace::cargo_command(&["build", "--bins", "--bench", BENCH_NAME]);
    workspace::run_command(build.args(SELECTED))?;
    let target = workspace::target_folder()?;
    let parts = RealParts::start(&target.join("debug"), [BROKER])?;
    let is_local = arguments.windows(2).any(|pair| pair == ["--runner", "local"]);
    let cluster = if is_local { None } else { Some(Cluster::connect_or_start()?) };
    let mut command =
        workspace::cargo_command(&["bench", "--profile", "dev", "--bench", BENCH_NAME]);
    command.args(SELECTED).arg("--").args(arguments);

    if let Some(cluster) = &cluster {
        command.env(KUBECONFIG, cluster.kubeconfig());
    }

    command.envs(folders).envs(parts.environment().iter().cloned());
    let outcome = bench::run_and_publish(&mut command, BENCH_NAME, table);
    drop((cluster, parts));
    outcome
}
