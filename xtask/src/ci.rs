//! `cargo xtask ci`: all that must hold before a change is taken. Every part runs, whatever the
//! others came to; the run fails when one did.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context as _;

use crate::conformance::{self, Table};
use crate::test::{self, Outcome};
use crate::tidy::{self, Pending};
use crate::workspace::{self, cargo};

/// One part's name, how it ended and how long it took.
struct Part {
    name: &'static str,
    error: Option<anyhow::Error>,
    took: Duration,
}

/// Runs all parts and says at the end how each went; the sum of the tests is the last line.
pub(crate) fn run() -> anyhow::Result<ExitCode> {
    let mut tests = Ok(Outcome::none());
    let clippy = ["clippy", "--workspace", "--all-targets", "--locked", "--", "--deny", "warnings"];
    let parts = [
        part("format", || workspace::run(&mut cargo(&["fmt", "--all", "--check"]))),
        part("tidy", || tidy::check(Pending::Count)),
        part("dependencies", dependencies),
        part("lints", || workspace::run(&mut cargo(&clippy))),
        part("tests", || {
            tests = test::test(&[]);
            match &tests {
                Ok(outcome) if outcome.success => Ok(()),
                Ok(_) => anyhow::bail!("not every test passed"),
                Err(error) => anyhow::bail!("{error:#}"),
            }
        }),
        // After the tests, which have built what it runs; it takes half a minute.
        part("conformance", || conformance::check(Table::Compare)),
    ];
    println!();
    for part in &parts {
        let seconds = part.took.as_secs();
        match &part.error {
            None => println!("{:14}ok       {seconds:>5} s", part.name),
            Some(error) => println!("{:14}FAILED   {seconds:>5} s  {error:#}", part.name),
        }
    }
    println!("{}", tests.unwrap_or_else(|_| Outcome::none()).counts);
    let failed = parts.iter().any(|part| part.error.is_some());
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn part(name: &'static str, work: impl FnOnce() -> anyhow::Result<()>) -> Part {
    println!("\n== {name}");
    let start = Instant::now();
    let error = work().err();
    Part { name, error, took: start.elapsed() }
}

/// Licences, sources and banned crates, as `deny.toml` has them.
fn dependencies() -> anyhow::Result<()> {
    let fetched = workspace::read(workspace::script("dev/parts/fetch").arg("cargo-deny"))?;
    let folder = fetched.trim().strip_prefix("cargo-deny=").context("output of dev/parts/fetch")?;
    let mut command = std::process::Command::new(format!("{folder}/cargo-deny"));
    command.current_dir(workspace::root());
    command.args(["--locked", "check", "--hide-inclusion-graph", "bans", "licenses", "sources"]);
    workspace::run(&mut command)
}
