//! `cargo xtask accept NAME`: runs that take long, each of which writes a table.
//!
//! A run that was interrupted continues where it stopped: what has a result at this commit is not
//! run again.

mod chaos;
mod flaky;
mod fuzz;
mod results;
mod soak;
mod upgrade;

use std::process::ExitCode;

/// Runs one of them.
pub(crate) fn run(name: &str, arguments: &[&str]) -> anyhow::Result<ExitCode> {
    match name {
        "chaos" => chaos::run(arguments),
        "flaky" => flaky::run(arguments),
        "fuzz" => fuzz::run(arguments),
        "soak" => soak::run(arguments),
        "upgrade" => upgrade::run(arguments),
        _ => anyhow::bail!("unknown run {name}: expected chaos, flaky, fuzz, soak or upgrade"),
    }
}

/// Runs a sample of what no test covers, of at most a minute. Samples of chaos, of scripts by
/// both runners and of inputs that a fuzzer kept are among the tests.
pub(crate) fn run_samples() -> anyhow::Result<()> {
    flaky::run_sample()
}
