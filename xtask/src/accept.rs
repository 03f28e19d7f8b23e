//! `cargo xtask accept NAME`: runs that take long, each of which writes a table.
//!
//! A run that was interrupted continues where it stopped: what has a result at this commit is not
//! run again.

mod chaos;
mod flaky;
mod results;
mod soak;

use std::process::ExitCode;

/// Runs one of them.
pub(crate) fn run(name: &str, arguments: &[&str]) -> anyhow::Result<ExitCode> {
    match name {
        "chaos" => chaos::run(arguments),
        "flaky" => flaky::run(arguments),
        "soak" => soak::run(arguments),
        _ => anyhow::bail!("unknown run {name}: expected chaos, flaky or soak"),
    }
}

/// Runs a sample of what no test covers, of at most a minute. Samples of chaos and of scripts by
/// both runners are among the tests.
pub(crate) fn run_samples() -> anyhow::Result<()> {
    flaky::run_sample()
}
