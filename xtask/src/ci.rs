//! `cargo xtask ci`: all that must hold before a change is taken. Every part runs, whatever the
//! others came to; the run fails when one did.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::accept;
use crate::conformance::{self, ConformanceTable};
use crate::size::{self, SizedBuild};
use crate::test_run::{self, TestOptions, TestOutcome};
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
    let mut slim_tests = Ok(TestOutcome::not_run());
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
        run_part("slim", || {
            keep_outcome(&mut slim_tests, test_run::run_without_parts(&slim_options()?))
        }),
        run_part("tests", || {
            keep_outcome(&mut tests, test_run::run_tests(&TestOptions::default()))
        }),
        // After the tests, which have built what these look at and run.
        run_part("size", || size::check(SizedBuild::Dev)),
        run_part("conformance", || conformance::run_suite(ConformanceTable::Compare)),
        run_part("samples", accept::run_samples),
    ];
    println!();

    let [tests, slim_tests] =
        [tests, slim_tests].map(|outcome| outcome.unwrap_or_else(|_| TestOutcome::not_run()));
    for line in slim_tests.failures.iter().chain(&tests.failures) {
        println!("{line}");
    }

    for part in &parts {
        let seconds = part.took.as_secs();
        match &part.error {
            None => println!("{:14}ok       {seconds:>5} s", part.name),
            Some(error) => println!("{:14}FAILED   {seconds:>5} s  {error:#}", part.name),
        }
    }

    println!("{}", tests.counts.plus(slim_tests.counts));
    let failed = parts.iter().any(|part| part.error.is_some());
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn run_part(name: &'static str, work: impl FnOnce() -> anyhow::Result<()>) -> CiPart {
    println!("\n== {name}");
    let start = Instant::now();
    let error = work().err();
    CiPart { name, error, took: start.elapsed() }
}

/// The packages that have optional parts.
const SLIM_PACKAGES: [&str; 6] = [
    "agent-host",
    "toolbus-artifacts",
    "toolbus-embeddings",
    "toolbus-query",
    "toolbus-store",
    "toolbus-toolkits",
];

/// Selects the unit tests of a build without optional parts.
fn slim_options() -> anyhow::Result<TestOptions> {
    let packages = SLIM_PACKAGES.iter().flat_map(|package| ["-p", package]);
    let arguments = packages.chain(["--no-default-features", "--lib", "--bins"]);
    TestOptions::parse(&arguments.collect::<Vec<_>>())
}

/// Keeps the outcome of a part's tests. An error says that they did not all pass.
fn keep_outcome(
    kept: &mut anyhow::Result<TestOutcome>,
    outcome: anyhow::Result<TestOutcome>,
) -> anyhow::Result<()> {
    *kept = outcome;
    match kept {
        Ok(outcome) if outcome.success => Ok(()),
        Ok(_) => anyhow::bail!("not every test passed"),
        Err(error) => anyhow::bail!("{error:#}"),
    }
}

/// Checks licenses, sources and banned crates by the rules in `deny.toml`.
fn check_dependencies() -> anyhow::Result<()> {
    let folder = test_run::fetched_folder("cargo-deny")?;
    let mut command = std::process::Command::new(format!("{folder}/cargo-deny"));
    command.current_dir(workspace::root());
    command.args(["--locked", "check", "--hide-inclusion-graph", "bans", "licenses", "sources"]);
    workspace::run_command(&mut command)
}
