//! One run of one release of the suite, and what came of it.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, ensure};
use serde_json::Value;

use super::programs::command_with_timeout;
use super::{Era, ExtraScenario, ScenarioKind};

/// Scenarios that the suite judges by the clock: a busy machine is too late for 200 ms.
const TIMED_SCENARIOS: [&str; 1] = ["sse-retry"];
/// How often one of them is run again.
const TIMED_REPEATS_MAX: usize = 3;

/// How one run of the suite is made.
pub(super) struct Suite<'a> {
    /// Where the suite has been fetched to.
    pub(super) folder: &'a Path,
    pub(super) era: Era,
    /// Where results and logs go.
    pub(super) logs: &'a Path,
    /// What the run is called among them.
    pub(super) name: &'static str,
}

/// A scenario that a release has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OfferedScenario {
    pub(super) kind: ScenarioKind,
    pub(super) name: String,
}

/// How every scenario of a run went, in the suite's order.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ScenarioResults(Vec<ScenarioResult>);

/// How one scenario went.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ScenarioResult {
    pub(super) name: String,
    pub(super) passes: bool,
    /// Checks of it that passed, or only warn.
    pub(super) checks: usize,
    /// Checks of it that the suite did not make.
    pub(super) skipped: usize,
    /// Checks of it that passed.
    successes: usize,
    /// Checks of it that ought to pass and do not.
    pub(super) warnings: usize,
    /// When it was started, in milliseconds of the day.
    pub(super) started_ms: Option<u64>,
    /// What the suite says of the checks that failed.
    pub(super) errors: Vec<String>,
}

impl Suite<'_> {
    /// Runs the server scenarios against a server.
    pub(super) fn run_against_server(&self, url: &str) -> anyhow::Result<ScenarioResults> {
        self.run_scenarios(ScenarioKind::Server, &["--url", url])
    }

    /// Runs the client scenarios with a client.
    pub(super) fn run_with_client(&self, program: &Path) -> anyhow::Result<ScenarioResults> {
        let program = program.to_str().context("the client's path is no text")?;
        ensure!(!program.contains(' '), "the suite takes a space in {program} for its end");
        self.run_scenarios(ScenarioKind::Client, &["--command", program])
    }

    /// Every scenario of the release, of whatever era.
    pub(super) fn list_scenarios(&self) -> anyhow::Result<Vec<OfferedScenario>> {
        let listed =
            self.command(self.era.script).arg("list").output().context("starting the suite")?;
        OfferedScenario::read(&String::from_utf8_lossy(&listed.stdout))
    }

    fn run_scenarios(
        &self,
        kind: ScenarioKind,
        subject: &[&str],
    ) -> anyhow::Result<ScenarioResults> {
        let name = format!("{}-{}", self.era.version, self.name);
        let folder = self.logs.join(&name);
        let only = ["--spec-version", self.era.version];
        let mut list = self.command(self.era.script);
        let listed = list.args(["list", &format!("--{}", kind.name())]).args(only).output();
        let listed = listed.context("starting the suite")?;
        let mut command = self.command(self.era.script);
        command.arg(kind.name()).args(subject).args(["--suite", "all", "--output-dir"]);
        // The suite fails when a scenario does; which one is in what it prints.
        let ran = command.arg(&folder).args(only).output().context("starting the suite")?;
        let log = [ran.stdout, ran.stderr].concat();
        std::fs::write(self.logs.join(format!("{name}.log")), &log)?;
        let mut results = ScenarioResults::read(
            &String::from_utf8_lossy(&listed.stdout),
            &String::from_utf8_lossy(&log),
        );
        ensure!(results.len() > 0, "the suite has no scenario");
        read_checks(&folder, &folder, &mut results)?;
        results.fail_unchecked();
        self.repeat_late(kind, subject, &mut results)?;

        for extra in self.era.extras.iter().filter(|extra| extra.kind == kind) {
            results.0.push(self.run_extra(extra, subject)?);
        }
        Ok(results)
    }

    /// Runs those again, alone, that the suite has found too late by the clock.
    fn repeat_late(
        &self,
        kind: ScenarioKind,
        subject: &[&str],
        results: &mut ScenarioResults,
    ) -> anyhow::Result<()> {
        for scenario in TIMED_SCENARIOS {
            for _ in 0..TIMED_REPEATS_MAX {
                let found = results.0.iter_mut().find(|found| found.name == scenario);
                let Some(found) = found.filter(|found| !found.passes || found.warnings > 0) else {
                    break;
                };
                let again = ExtraScenario { kind, scenario, script: self.era.script, options: &[] };
                *found = self.run_extra(&again, subject)?;
            }
        }
        Ok(())
    }

    fn run_extra(&self, extra: &ExtraScenario, subject: &[&str]) -> anyhow::Result<ScenarioResult> {
        let scenario = extra.scenario.replace('/', "-");
        let name = format!("{}-{}-{scenario}", self.era.version, self.name);
        let folder = self.logs.join(&name);
        if folder.exists() {
            std::fs::remove_dir_all(&folder)?;
        }
        let mut command = self.command(extra.script);
        command.arg(extra.kind.name()).args(subject).args(["--scenario", extra.scenario]);
        command.args(extra.options).arg("--output-dir").arg(&folder);
        let ran = command.output().context("starting the suite")?;
        let log = [ran.stdout, ran.stderr].concat();
        std::fs::write(self.logs.join(format!("{name}.log")), &log)?;
        let mut results = ScenarioResults(vec![ScenarioResult::new(extra.scenario, false)]);
        read_checks(&folder, &folder, &mut results)?;
        let mut scenario = results.0.remove(0);
        scenario.passes = ran.status.success() && scenario.successes > 0;

        Ok(scenario)
    }

    fn command(&self, script: &str) -> Command {
        let mut command = command_with_timeout(&self.folder.join("node"));
        command.arg(self.folder.join(script));
        command
    }
}

impl OfferedScenario {
    /// Reads a list of scenarios, each kind under its heading.
    pub(super) fn read(listed: &str) -> anyhow::Result<Vec<Self>> {
        let mut kind = None;
        let mut offered = Vec::new();
        for line in listed.lines() {
            if let Some((heading, _)) = line.split_once(" scenarios (") {
                let is_it = |kind: &ScenarioKind| kind.name().eq_ignore_ascii_case(heading);
                let found = ScenarioKind::ALL.into_iter().find(is_it);
                kind = Some(found.with_context(|| format!("a kind of scenarios: {heading}"))?);
            }
            if let Some(name) = name_of(line) {
                let kind = kind.context("a list of scenarios without a heading")?;
                offered.push(Self { kind, name: name.to_owned() });
            }
        }
        Ok(offered)
    }
}

/// The scenario that a line of a list names.
fn name_of(line: &str) -> Option<&str> {
    line.strip_prefix("  - ")?.split(' ').next()
}

impl ScenarioResult {
    fn new(name: &str, passes: bool) -> Self {
        Self {
            name: name.to_owned(),
            passes,
            checks: 0,
            skipped: 0,
            successes: 0,
            warnings: 0,
            started_ms: None,
            errors: Vec::new(),
        }
    }
}

impl ScenarioResults {
    /// Reads which scenarios there are and the summary of a run. One that the summary does not name
    /// has not passed.
    pub(super) fn read(listed: &str, log: &str) -> Self {
        let passes = |name| log.lines().any(|line| line.starts_with(&format!("✓ {name}: ")));
        let names = listed.lines().filter_map(name_of);
        let scenarios = names.map(|name| ScenarioResult::new(name, passes(name)));
        Self(scenarios.collect())
    }

    /// To the suite, one whose checks are all skipped has not failed. Here it has not passed.
    pub(super) fn fail_unchecked(&mut self) {
        for scenario in self.0.iter_mut().filter(|scenario| scenario.successes == 0) {
            scenario.passes = false;
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &ScenarioResult> {
        self.0.iter()
    }

    pub(super) fn find(&self, name: &str) -> Option<&ScenarioResult> {
        self.iter().find(|scenario| scenario.name == name)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn passed(&self) -> usize {
        self.iter().filter(|scenario| scenario.passes).count()
    }
}

/// Reads the files `SCENARIO-TIME/checks.json` below a folder; those of servers are called
/// `server-SCENARIO-TIME`, and a scenario's name may have a slash.
fn read_checks(root: &Path, folder: &Path, results: &mut ScenarioResults) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() {
            read_checks(root, &path, results)?;
        } else if path.ends_with("checks.json") {
            let name = folder.strip_prefix(root)?.to_string_lossy();
            let checks: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(&path)?)?;
            count_checks(&name, &checks, results);
        }
    }
    Ok(())
}

/// Adds the checks of a folder to the scenario that the folder's name says.
pub(super) fn count_checks(folder: &str, checks: &[Value], results: &mut ScenarioResults) {
    // What follows the name is a time, which begins with a digit.
    let started = |scenario: &ScenarioResult| {
        [scenario.name.clone(), format!("server-{}", scenario.name)].iter().find_map(|name| {
            let time = folder.strip_prefix(name).and_then(|rest| rest.strip_prefix('-'));
            time.filter(|time| time.starts_with("20"))
        })
    };

    let found = results.0.iter_mut().find_map(|scenario| Some((started(scenario)?, scenario)));
    let Some((time, scenario)) = found else { return };
    scenario.started_ms = ms_of_day(time);

    for check in checks {
        match check["status"].as_str() {
            Some("SUCCESS") => scenario.successes += 1,
            Some("WARNING") => scenario.warnings += 1,
            Some("SKIPPED") => scenario.skipped += 1,
            Some("FAILURE") => {
                let text = check["errorMessage"].as_str().or(check["description"].as_str());
                scenario.errors.extend(text.map(str::to_owned));
            }
            _ => {}
        }
    }
    scenario.checks = scenario.successes + scenario.warnings;
}

/// What a time like `2026-11-25T14-30-33-781Z` is of its day, in milliseconds.
fn ms_of_day(time: &str) -> Option<u64> {
    let (_, time) = time.trim_end_matches('Z').split_once('T')?;
    let mut parts = time.split('-').map(|part| part.parse::<u64>().ok());
    let mut part = || parts.next().flatten();
    Some(((part()? * 60 + part()?) * 60 + part()?) * 1_000 + part()?)
}
