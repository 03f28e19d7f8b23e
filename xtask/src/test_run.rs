//! `cargo xtask test`: runs the tests on real parts.
//!
//! cargo-nextest runs each test in a process of its own, so the parts that tests share are started
//! here, once per run: a broker, a database server, a cluster and a container engine. What may run
//! side by side is stated in `.config/nextest.toml`. nextest runs no doctests, so cargo runs those
//! first.

mod needs;
mod nextest;
mod options;
mod tally;

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use anyhow::Context as _;
use serde_json::Value;

use crate::cluster::ClusterParts;
use crate::real_parts::{self, RealParts};
use crate::workspace;
pub(crate) use needs::TestNeeds;
use nextest::Nextest;
pub(crate) use options::TestOptions;
use tally::DoctestReader;
pub(crate) use tally::TestCounts;

/// The program that starts the servers which tests share, and its package.
const PARTS_PROGRAM: (&str, &str) = ("toolbus-testkit", "real-parts");

/// Tells tests what their packages declare.
const DECLARED: &str = "TOOLBUS_TEST_DECLARED";

/// The end of a test run.
pub(crate) struct TestOutcome {
    pub(crate) counts: TestCounts,
    pub(crate) success: bool,
    /// Names of the doctests that failed; nextest prints its own.
    pub(crate) failures: Vec<String>,
}

impl TestOutcome {
    /// The outcome of a run in which no test was started.
    pub(crate) fn not_run() -> Self {
        Self { counts: TestCounts::default(), success: false, failures: Vec::new() }
    }

    /// Prints the failures that nextest has not printed, and the sum of all tests.
    pub(crate) fn print(&self) {
        for line in &self.failures {
            println!("{line}");
        }
        println!("{}", self.counts);
    }
}

/// Runs the tests that the arguments select and prints their sum.
pub(crate) fn run_and_print_sum(arguments: &[&str]) -> anyhow::Result<ExitCode> {
    let options = TestOptions::parse(arguments)?;
    let outcome = run_tests(&options)?;
    outcome.print();
    Ok(if outcome.success { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Builds the tests and the programs that they start, starts the parts that they share, and runs
/// them.
pub(crate) fn run_tests(options: &TestOptions) -> anyhow::Result<TestOutcome> {
    let needs = TestNeeds::read(options)?;
    real_parts::set_up()?;
    let folders = real_parts::fetch(&needs.parts)?;
    build(options, &needs)?;

    let programs = workspace::target_folder()?.join("debug");
    let parts = RealParts::start(&programs, needs.services.iter().map(String::as_str))?;
    let cluster = ClusterParts::start(&needs, &programs)?;
    let mut environment = folders;
    environment.push((DECLARED.to_owned(), needs.declared.clone()));
    environment.extend(parts.environment().iter().cloned());
    environment.extend(cluster.environment());
    environment.extend(options.environment.iter().cloned());

    let doctests = if options.has_doctests() {
        run_doctests(options, &environment)?
    } else {
        TestOutcome { success: true, ..TestOutcome::not_run() }
    };
    let mut outcome = Nextest::new(options, cluster.is_missing()).run(&environment)?;
    drop((cluster, parts));

    outcome.success &= doctests.success;
    outcome.counts = outcome.counts.plus(doctests.counts);
    outcome.failures.extend(doctests.failures);
    Ok(outcome)
}

/// Runs tests that need no parts, as nextest builds them.
pub(crate) fn run_without_parts(options: &TestOptions) -> anyhow::Result<TestOutcome> {
    let required = [("TOOLBUS_REQUIRE_REAL".to_owned(), "1".to_owned())];
    Nextest::new(options, false).run(&required)
}

/// Builds what the run needs. Of the whole workspace, programs and tests are built together, so
/// that both get the same features and nothing is built twice. Of some packages, nextest builds the
/// tests, and only the programs that these start are built here.
fn build(options: &TestOptions, needs: &TestNeeds) -> anyhow::Result<()> {
    let mut command = workspace::cargo_command(&["build", "--locked"]);
    if options.packages.is_empty() {
        command.args(["--workspace", "--bins", "--tests"]);
        return workspace::run_command(&mut command);
    }

    let own = (!needs.services.is_empty()).then_some(PARTS_PROGRAM);
    let declared = needs.programs.iter().map(|(package, program)| (&**package, &**program));
    let programs: Vec<(&str, &str)> = declared.chain(own).collect();
    if programs.is_empty() {
        return Ok(());
    }
    for (package, program) in programs {
        command.args(["--package", package, "--bin", program]);
    }
    workspace::run_command(&mut command)
}

/// Runs the examples in doc comments.
fn run_doctests(
    options: &TestOptions,
    environment: &[(String, String)],
) -> anyhow::Result<TestOutcome> {
    let mut command = workspace::cargo_command(&["test", "--doc", "--locked", "--no-fail-fast"]);
    options.select_packages(&mut command);
    command.envs(environment.iter().map(|(name, value)| (name, value)));
    // Cargo names each package on standard error; that is noise unless one fails to compile.
    let mut child = command.stdout(Stdio::piped()).spawn().context("starting cargo test --doc")?;
    let stdout = child.stdout.take().context("cargo test has no output")?;
    let mut reader = DoctestReader::default();

    for line in BufReader::new(stdout).lines() {
        let line = line.context("output of cargo test")?;
        if reader.add(&line) {
            println!("{line}");
        }
    }

    let success = child.wait().context("cargo test")?.success() && reader.counts.failed == 0;
    Ok(TestOutcome { success, ..reader.into_outcome() })
}

/// Lists the test programs of the workspace by the names that nextest gives them.
pub(crate) fn list_suites() -> anyhow::Result<Vec<String>> {
    let mut command = nextest_command()?;
    command.args(["list", "--workspace", "--locked", "--list-type", "binaries-only"]);
    let printed = workspace::read_visibly(command.args(["--message-format", "json"]))?;
    let listed: Value = serde_json::from_str(&printed).context("nextest list")?;
    let suites = listed["rust-binaries"].as_object().context("nextest lists no programs")?;
    Ok(suites.keys().cloned().collect())
}

/// Returns the folder of a part that `dev/parts/fetch` brings.
pub(crate) fn fetched_folder(part: &str) -> anyhow::Result<String> {
    let fetched = workspace::read_output(workspace::script_command("dev/parts/fetch").arg(part))?;
    let folder = fetched.trim().strip_prefix(&format!("{part}="));
    Ok(folder.context("output of dev/parts/fetch")?.to_owned())
}

/// Returns a command for nextest, by the version that the project pins.
fn nextest_command() -> anyhow::Result<Command> {
    let program = Path::new(&fetched_folder("cargo-nextest")?).join("cargo-nextest");
    let mut command = workspace::without_package_variables(Command::new(program));
    command.current_dir(workspace::root()).arg("nextest");
    Ok(command)
}

#[cfg(test)]
mod tests;
