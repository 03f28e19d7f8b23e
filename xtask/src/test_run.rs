//! `cargo xtask test`: every test, on real parts.
//!
//! All tests run in two lanes at a time, since most of them wait most of the time. Each lane is a
//! cargo that goes through all test programs; whichever comes to a program first runs it
//! ([`LaneClaims`]). Of some packages alone there is one lane, and the output of cargo passes
//! through unchanged. After it come what failed, once more, and one line with the sum over all test
//! programs. A run in which nothing was tested has failed.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use anyhow::Context as _;

use crate::cluster;
use crate::real_parts::{self, RealParts};
use crate::test_lanes::{LaneClaims, LaneOutput};
use crate::workspace;

#[cfg(test)]
mod tests;

/// How many tests passed and failed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct TestCounts {
    passed: u64,
    failed: u64,
}

/// How many lines of standard error before a program's failure are told again at the end.
const LAST_LINES: usize = 20;

/// How a run of tests ended.
pub(crate) struct TestOutcome {
    pub(crate) counts: TestCounts,
    pub(crate) success: bool,
    /// The tests that failed, and what was said last before a program ended with a failure.
    pub(crate) failures: Vec<String>,
}

impl TestOutcome {
    /// The outcome of a run in which no test was started.
    pub(crate) fn not_run() -> Self {
        Self { counts: TestCounts::default(), success: false, failures: Vec::new() }
    }
}

/// Runs the tests and prints their sum.
pub(crate) fn run_and_print_sum(arguments: &[&str]) -> anyhow::Result<ExitCode> {
    let outcome = run_tests(arguments)?;
    for line in &outcome.failures {
        println!("{line}");
    }
    println!("{}", outcome.counts);
    Ok(if outcome.success { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs the tests.
pub(crate) fn run_tests(arguments: &[&str]) -> anyhow::Result<TestOutcome> {
    real_parts::prepare()?;
    // One build for the programs and the tests, so that both get the same features and nothing is
    // built twice. Tests start the programs.
    workspace::run_command(&mut workspace::cargo_command(&[
        "build",
        "--workspace",
        "--bins",
        "--tests",
        "--locked",
    ]))?;
    let programs = workspace::target_folder()?.join("debug");
    let parts = RealParts::start(&programs)?;

    let is_partial = !arguments.is_empty();
    let claims = if is_partial { None } else { Some(LaneClaims::new()?) };
    let run = |lane: Option<usize>| {
        let mut command = test_command(arguments, &programs)?;
        if let (Some(claims), Some(lane)) = (&claims, lane) {
            claims.pass_to(&mut command);
            if lane > 1 {
                // Examples in comments are no programs that could be claimed.
                command.args(["--lib", "--bins", "--tests"]);
            }
        }
        run_lane(parts.pass_environment_to(&mut command), lane)
    };
    if is_partial {
        return run(None);
    }

    let [first, second] = std::thread::scope(|scope| {
        let lanes = [1, 2].map(|lane| scope.spawn(move || run(Some(lane))));
        lanes.map(|lane| lane.join().unwrap_or_else(|_| Err(anyhow::anyhow!("a lane panicked"))))
    });
    let (mut first, second) = (first?, second?);
    first.counts = first.counts.plus(second.counts);
    first.success &= second.success || second.counts.is_empty();
    first.failures.extend(second.failures);
    Ok(first)
}

/// The cargo that runs what the arguments choose, by default all packages, with the programs of a
/// folder. Arguments may end with some for the test programs, so ours stand before.
fn test_command(arguments: &[&str], programs: &Path) -> anyhow::Result<Command> {
    let mut command = workspace::cargo_command(&[]);
    cluster::set_test_runner(&mut command, programs)?;
    command.args(["test", "--locked", "--no-fail-fast"]);
    if !arguments.iter().any(|argument| argument.starts_with("-p") || *argument == "--package") {
        command.arg("--workspace");
    }
    command.args(arguments);
    Ok(command)
}

/// Runs one cargo to its end, and counts its tests.
fn run_lane(command: &mut Command, lane: Option<usize>) -> anyhow::Result<TestOutcome> {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().context("starting cargo test")?;
    let mut stdout = child.stdout.take().context("cargo test has no output")?;
    let stderr = child.stderr.take().context("cargo test has no standard error")?;
    let errors = LaneOutput::new(lane, std::io::stderr());
    let stderr = std::thread::spawn(move || pass_lines_on(stderr, errors));
    let mut output = LaneOutput::new(lane, std::io::stdout());
    let mut counter = SummaryReader::default();
    let mut chunk = [0; 8192];

    loop {
        let length = stdout.read(&mut chunk).context("output of cargo test")?;
        if length == 0 {
            break;
        }
        output.write_all(&chunk[..length])?;
        output.flush()?;
        counter.feed(&chunk[..length]);
    }

    let status = child.wait().context("cargo test")?;
    let SummaryReader { counts, mut failures, .. } = counter;
    // A thread that panicked has nothing to tell.
    failures.extend(stderr.join().unwrap_or_default());
    let success = status.success() && counts.failed == 0 && !counts.is_empty();
    Ok(TestOutcome { counts, success, failures })
}

/// Passes the standard error of cargo on, until it is closed. Returns the last lines before each
/// program that failed: one that could not begin has said there why, and nowhere else.
fn pass_lines_on(stderr: impl Read, mut to: impl std::io::Write) -> Vec<String> {
    let mut last = VecDeque::with_capacity(LAST_LINES);
    let mut failures = Vec::new();
    let mut lines = BufReader::new(stderr);
    let mut line = Vec::new();

    while lines.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
        // Where nobody listens there is nobody to tell either.
        let _ = to.write_all(&line);
        if last.len() == LAST_LINES {
            last.pop_front();
        }
        let text = String::from_utf8_lossy(&line).trim_end().to_owned();
        let failed = text.starts_with("error: test failed");
        last.push_back(text);
        if failed {
            failures.extend(last.drain(..));
        }
        line.clear();
    }

    failures
}

/// Adds up the summary lines of test programs in the output of cargo.
#[derive(Debug, Default)]
struct SummaryReader {
    line: Vec<u8>,
    counts: TestCounts,
    failures: Vec<String>,
}

impl SummaryReader {
    fn feed(&mut self, chunk: &[u8]) {
        for &byte in chunk {
            if byte == b'\n' {
                let line = String::from_utf8_lossy(&self.line);
                self.counts.add_line(&line);
                if line.starts_with("test ") && line.ends_with("FAILED") {
                    self.failures.push(line.into_owned());
                }
                self.line.clear();
            } else {
                self.line.push(byte);
            }
        }
    }
}

impl TestCounts {
    fn plus(self, other: Self) -> Self {
        Self { passed: self.passed + other.passed, failed: self.failed + other.failed }
    }

    fn is_empty(self) -> bool {
        self.passed == 0 && self.failed == 0
    }

    /// A line like `test result: ok. 3 passed; 0 failed; 0 ignored; …`; any other counts nothing.
    fn add_line(&mut self, line: &str) {
        let Some((_, numbers)) =
            line.strip_prefix("test result: ").and_then(|rest| rest.split_once(". "))
        else {
            return;
        };
        for part in numbers.split("; ") {
            match part.split_once(' ') {
                Some((number, "passed")) => self.passed += number.parse().unwrap_or(0),
                Some((number, "failed")) => self.failed += number.parse().unwrap_or(0),
                _ => {}
            }
        }
    }
}

impl std::fmt::Display for TestCounts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)
    }
}
