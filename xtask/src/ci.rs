//! `cargo xtask ci`: all that must hold before a change is taken. Every part runs, whatever the
//! others came to; the run fails when one did.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context as _;

use crate::conformance::{self, ConformanceTable};
use crate::test_run::{self, TestOutcome};
use crate::tidy;
use crate::workspace::{self, cargo_command};

/// One part's name, how it ended and how long it took.
struct CiPart {
    name: &'static str,
    error: Option<anyhow::Error>,
    took: Duration,
}

/// Runs all parts and says at the end how each went; the sum of the tests is the last line.
pub(crate) fn run_all_parts() -> anyhow::Result<ExitCode> {
    let mut tests = Ok(TestOutcome::not_run());
    let clippy = ["clippy", "--workspace", "--all-targets", "--locked", "--", "--deny", "warnings"];
    let agent_alone = ["clippy", "--package", "toolbus", "--locked", "--", "--deny", "warnings"];
    let parts = [
        run_part("format", || {
            workspace::run_command(&mut cargo_command(&["fmt", "--all", "--check"]))
        }),
        run_part("tidy", tidy::check_tree),
        run_part("dependencies", check_dependencies),
        run_part("lints", || workspace::run_command(&mut cargo_command(&clippy))),
        // Everything else builds the facade with what the services want of it.
        run_part("facade", || workspace::run_command(&mut cargo_command(&agent_alone))),
        run_part("tests", || {
            tests = test_run::run_tests(&[]);
            match &tests {
                Ok(outcome) if outcome.success => Ok(()),
                Ok(_) => anyhow::bail!("not every test passed"),
                Err(error) => anyhow::bail!("{error:#}"),
            }
        }),
        // After the tests, which have built what it runs; it takes half a minute.
        run_part("conformance", || conformance::run_suite(ConformanceTable::Compare)),
    ];
    println!();

    let tests = tests.unwrap_or_else(|_| TestOutcome::not_run());
    for line in &tests.failures {
        println!("{line}");
    }

    for part in &parts {
        let seconds = part.took.as_secs();
        match &part.error {
            None => println!("{:14}ok       {seconds:>5} s", part.name),
            Some(error) => println!("{:14}FAILED   {seconds:>5} s  {error:#}", part.name),
        }
    }

    println!("{}", tests.counts);
    let failed = parts.iter().any(|part| part.error.is_some());
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn run_part(name: &'static str, work: impl FnOnce() -> anyhow::Result<()>) -> CiPart {
    println!("\n== {name}");
    let start = Instant::now();
    let error = work().err();
    CiPart { name, error, took: start.elapsed() }
}

/// Licences, sources and banned crates, as `deny.toml` has them.
fn check_dependencies() -> anyhow::Result<()> {
    let fetched =
        workspace::read_output(workspace::script_command("dev/parts/fetch").arg("cargo-deny"))?;
    let folder = fetched.trim().strip_prefix("cargo-deny=").context("output of dev/parts/fetch")?;
    let mut command = std::process::Command::new(format!("{folder}/cargo-deny"));
    command.current_dir(workspace::root());
    command.args(["--locked", "check", "--hide-inclusion-graph", "bans", "licenses", "sources"]);
    workspace::run_command(&mut command)
}
