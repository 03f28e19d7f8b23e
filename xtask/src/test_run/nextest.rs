//! cargo-nextest: its arguments, and the report that it leaves.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::SystemTime;

use anyhow::{Context as _, ensure};
use quick_xml::events::{BytesStart, Event};

use super::{TestCounts, TestOptions, TestOutcome, nextest_command};
use crate::workspace;

/// The profile of a run of all tests; each profile is a section of `.config/nextest.toml`.
const ALL: &str = "default";
/// The profile without the tests that need a cluster or a container engine.
const NO_CLUSTER: &str = "no-cluster";
/// The profile without what takes long, too.
const QUICK: &str = "quick";

/// One run of nextest.
pub(super) struct Nextest<'a> {
    options: &'a TestOptions,
    profile: &'static str,
}

/// The end of one test, as nextest reports it.
#[derive(Debug, PartialEq)]
pub(super) struct TestReport {
    pub(super) name: String,
    pub(super) seconds: f64,
    pub(super) is_failure: bool,
}

impl<'a> Nextest<'a> {
    /// A run of the selected tests; without a cluster those that need one are left out.
    pub(super) fn new(options: &'a TestOptions, is_cluster_missing: bool) -> Self {
        let profile = match (options.is_quick, is_cluster_missing) {
            (true, _) => QUICK,
            (false, true) => NO_CLUSTER,
            (false, false) => ALL,
        };
        Self { options, profile }
    }

    /// Runs the tests with this environment.
    pub(super) fn run(&self, environment: &[(String, String)]) -> anyhow::Result<TestOutcome> {
        let mut command = self.command()?;
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        let started = SystemTime::now();
        let status = command.status().context("starting nextest")?;

        let reports = self.read_report(started)?;
        let counts = count(&reports);
        self.print_slowest(&reports);
        let success = status.success() && counts.failed == 0 && counts.passed > 0;
        Ok(TestOutcome { counts, success, failures: Vec::new() })
    }

    fn command(&self) -> anyhow::Result<Command> {
        let mut command = nextest_command()?;
        command.args(["run", "--locked", "--profile", self.profile]);
        self.options.select_packages(&mut command);
        command.args(&self.options.rest);
        Ok(command)
    }

    /// Reads the report of the run that started then. A run that could not build its tests, or
    /// found none, leaves no report.
    fn read_report(&self, started: SystemTime) -> anyhow::Result<Vec<TestReport>> {
        let path = self.report_path();
        let is_new = fs::metadata(&path)
            .and_then(|metadata| metadata.modified())
            .is_ok_and(|modified| modified >= started);
        if !is_new {
            return Ok(Vec::new());
        }
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        parse_report(&text).with_context(|| path.display().to_string())
    }

    /// nextest writes reports below the workspace, wherever cargo's target folder is.
    fn report_path(&self) -> PathBuf {
        workspace::root().join("target/nextest").join(self.profile).join("junit.xml")
    }

    fn print_slowest(&self, reports: &[TestReport]) {
        let mut by_time: Vec<&TestReport> = reports.iter().collect();
        by_time.sort_by(|one, other| other.seconds.total_cmp(&one.seconds));
        for report in by_time.iter().take(self.options.slowest) {
            println!("{:>8.1} s  {}", report.seconds, report.name);
        }
    }
}

fn count(reports: &[TestReport]) -> TestCounts {
    let failed = reports.iter().filter(|report| report.is_failure).count() as u64;
    TestCounts { passed: reports.len() as u64 - failed, failed }
}

/// Reads a report in the format of JUnit.
pub(super) fn parse_report(text: &str) -> anyhow::Result<Vec<TestReport>> {
    let mut reader = quick_xml::Reader::from_str(text);
    let mut reports: Vec<TestReport> = Vec::new();
    let mut is_open = false;

    loop {
        match reader.read_event().context("the report of nextest is malformed")? {
            Event::Start(tag) if tag.name().as_ref() == b"testcase" => {
                is_open = true;
                reports.push(read_test_case(&tag)?);
            }
            Event::Empty(tag) if tag.name().as_ref() == b"testcase" => {
                reports.push(read_test_case(&tag)?);
            }
            Event::End(tag) if tag.name().as_ref() == b"testcase" => is_open = false,
            Event::Start(tag) | Event::Empty(tag) if is_open => {
                if matches!(tag.name().as_ref(), b"failure" | b"error")
                    && let Some(report) = reports.last_mut()
                {
                    report.is_failure = true;
                }
            }
            Event::Eof => return Ok(reports),
            _ => {}
        }
    }
}

fn read_test_case(tag: &BytesStart<'_>) -> anyhow::Result<TestReport> {
    let attribute = |name: &str| -> anyhow::Result<String> {
        let found = tag.try_get_attribute(name).context("a test case is malformed")?;
        let found = found.with_context(|| format!("a test case has no {name}"))?;
        Ok(String::from_utf8_lossy(&found.value).into_owned())
    };
    let seconds = attribute("time")?;
    let seconds: f64 = seconds.parse().with_context(|| format!("time of a test: {seconds}"))?;
    ensure!(seconds.is_finite(), "time of a test: {seconds}");
    let name = format!("{} {}", attribute("classname")?, attribute("name")?);
    Ok(TestReport { name, seconds, is_failure: false })
}
