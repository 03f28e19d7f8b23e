//! `cargo xtask soak scripts`: thousands of honest scripts by both runners, on real parts.
//!
//! The soak itself is a benchmark of `toolbus-pods`, which prints what failed and what is left. It
//! is about failures, not about speed, so it runs what the tests run, built as they are.

use std::process::ExitCode;

use crate::bench;
use crate::cluster::{Cluster, KUBECONFIG};
use crate::real_parts::{self, BROKER, RealParts};
use crate::workspace;

const BENCH_NAME: &str = "soak";
/// The same for building and for running, so that nothing is built twice.
const PACKAGES: [&str; 7] =
    ["-p", "scripts-manager", "-p", "toolbus-pods", "-p", "toolbus-testkit", "--locked"];

/// Runs it with these arguments, of which `--keep` is for the table.
pub(crate) fn soak_scripts(arguments: &[&str]) -> anyhow::Result<ExitCode> {
    let (table, arguments) = bench::split_arguments(arguments);
    let folders = real_parts::prepare_all()?;
    let mut build = workspace::cargo_command(&["build", "--bins", "--bench", BENCH_NAME]);
    workspace::run_command(build.args(PACKAGES))?;
    let target = workspace::target_folder()?;
    let parts = RealParts::start(&target.join("debug"), [BROKER])?;
    let is_local = arguments.windows(2).any(|pair| pair == ["--runner", "local"]);
    let cluster = if is_local { None } else { Some(Cluster::connect_or_start()?) };
    let mut command =
        workspace::cargo_command(&["bench", "--profile", "dev", "--bench", BENCH_NAME]);
    command.args(PACKAGES).arg("--").args(&arguments);

    if let Some(cluster) = &cluster {
        command.env(KUBECONFIG, cluster.kubeconfig());
    }

    command.envs(folders).envs(parts.environment().iter().cloned());
    let outcome = bench::run_and_publish(&mut command, BENCH_NAME, table);
    drop((cluster, parts));
    outcome
}
