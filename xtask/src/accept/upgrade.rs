//! `cargo xtask accept upgrade`: upgrades a fleet of an earlier commit in place and rolls it back,
//! with calls in flight.
//!
//! The scenarios are tests of the crate `e2e` that other runs exclude. This module builds the
//! programs of the earlier commit for them, and its images if a scenario needs them.

mod earlier;

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use self::earlier::EarlierCommit;
use super::results::{self, Results};
use crate::cluster::ClusterParts;
use crate::test_run::{self, TestNeeds, TestOptions};
use crate::workspace;

/// The page with the table of results.
const PAGE: &str = "docs/benchmarks/upgrade.md";
/// The package with the scenarios.
const PACKAGE: &str = "e2e";
/// Arguments that build the programs for the images of this commit, with the features of the tests.
const BUILD: [&str; 5] = ["build", "--locked", "--workspace", "--bins", "--tests"];

const HEAD: &str = "# Upgrade and rollback

Written by `cargo xtask accept upgrade`. Each scenario begins with a fleet of commit 34f5574, replaces its parts one after the other by those of this commit, and goes back, while callers of both commits make calls; some parts are stopped, others are killed. Every effect has a number and leaves its start and its end in a ledger outside of the fleet. *Lost* are calls that went well without their effect, and calls that failed though nothing was killed or away; *twice* are effects that began again, or of calls that were told as not started.

| scenario | calls | went well | not started | unknown | lost | twice | seconds | result | commit |
|---|---:|---:|---:|---:|---:|---:|---:|---|---|
";

/// A scenario: one test, which runs and passes on its own.
struct Scenario {
    name: &'static str,
    /// The test binary and the test.
    suite: &'static str,
    test: &'static str,
    /// True if the scenario needs a cluster and a container engine.
    has_cluster: bool,
}

const SCENARIOS: [Scenario; 5] = [
    Scenario {
        name: "embedded",
        suite: "e2e::fleet",
        test: "earlier::embedded::a_state_folder_goes_to_the_next_program_and_back",
        has_cluster: false,
    },
    Scenario {
        name: "broker",
        suite: "e2e::fleet",
        test: "earlier::on_a_broker::a_fleet_goes_to_the_next_programs_and_back",
        has_cluster: false,
    },
    Scenario {
        name: "broker-with-grants",
        suite: "e2e::fleet",
        test: "earlier::on_a_broker::a_fleet_with_grants_goes_to_the_next_programs_and_back",
        has_cluster: false,
    },
    Scenario {
        name: "compose",
        suite: "e2e::ship",
        test: "earlier::a_compose_fleet_goes_to_the_next_images_and_back",
        has_cluster: true,
    },
    Scenario {
        name: "chart",
        suite: "e2e::ship",
        test: "earlier::a_release_goes_to_the_next_chart_and_back",
        has_cluster: true,
    },
];

/// Runs the scenarios that have not passed at this commit: `[--scenario NAME]...`. A named scenario
/// runs again.
pub(super) fn run(arguments: &[&str]) -> anyhow::Result<ExitCode> {
    let mut chosen = Vec::new();
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        ensure!(*argument == "--scenario", "unknown argument {argument}: expected --scenario");
        let name = *arguments.next().context("--scenario takes a name")?;
        let is_known = SCENARIOS.iter().any(|scenario| scenario.name == name);
        ensure!(is_known, "there is no scenario {name}");
        chosen.push(name);
    }

    let earlier = EarlierCommit::build()?;
    let commit = results::commit()?;
    let mut results = Results::read("upgrade")?;
    for scenario in &SCENARIOS {
        let is_wanted = match chosen.is_empty() {
            true => results.get(scenario.name)["passed"] != true,
            false => chosen.contains(&scenario.name),
        };
        if is_wanted {
            results.record(scenario.name, scenario.run(&earlier)?)?;
            fs::write(workspace::root().join(PAGE), write_page(&results, &commit)).context(PAGE)?;
        }
    }

    print!("{}", write_page(&results, &commit));
    let have_passed = SCENARIOS.iter().all(|one| results.get(one.name)["passed"] == true);
    Ok(if have_passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Scenario {
    /// Runs the scenario. Returns its result with its totals.
    fn run(&self, earlier: &EarlierCommit) -> anyhow::Result<Value> {
        let tallies = tally_folder()?;
        let tally = tallies.join(format!("{}.json", self.name));
        if tally.exists() {
            fs::remove_file(&tally).with_context(|| tally.display().to_string())?;
        }
        let mut environment = earlier.environment();
        let tallies = tallies.display().to_string();
        environment.push(("TOOLBUS_TEST_EARLIER_TALLIES".to_owned(), tallies));
        let filter = format!("binary_id({}) & test(={})", self.suite, self.test);
        let options = TestOptions::of_left_out(PACKAGE, &filter, self.has_cluster, environment);

        let parts = match self.has_cluster {
            true => Some(start_with_images(earlier, &options)?),
            false => None,
        };
        let started = Instant::now();
        let outcome = test_run::run_tests(&options)?;
        let seconds = started.elapsed().as_secs();
        drop(parts);

        let tally = fs::read_to_string(&tally).unwrap_or_default();
        let tally: Value = serde_json::from_str(&tally).unwrap_or_default();
        Ok(json!({"passed": outcome.success, "seconds": seconds, "tally": tally}))
    }
}

/// Starts the engine and the cluster with the images of both commits. The tests use both.
fn start_with_images(
    earlier: &EarlierCommit,
    options: &TestOptions,
) -> anyhow::Result<ClusterParts> {
    workspace::run_command(&mut workspace::cargo_command(&BUILD))?;
    let programs = workspace::target_folder()?.join("debug");
    let parts = ClusterParts::start(&TestNeeds::read(options)?, &programs)?;
    ensure!(!parts.is_missing(), "this scenario needs a cluster and a container engine");
    parts.add_images(earlier.source(), earlier.programs(), earlier.tag())?;
    Ok(parts)
}

/// Folder where scenarios write their totals.
fn tally_folder() -> anyhow::Result<PathBuf> {
    let folder = workspace::target_folder()?.join("accept/upgrade");
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    Ok(folder)
}

fn write_page(results: &Results, commit: &str) -> String {
    let rows = SCENARIOS.iter().filter(|scenario| results.has(scenario.name));
    let rows = rows.map(|scenario| write_row(scenario.name, results.get(scenario.name), commit));
    HEAD.to_owned() + &rows.collect::<String>()
}

/// Formats a row. A scenario without totals, such as one whose test counts its own calls, has
/// dashes.
fn write_row(name: &str, result: &Value, commit: &str) -> String {
    let tally = &result["tally"];
    let number = |member: &str| match &tally[member] {
        Value::Number(number) => number.to_string(),
        Value::Array(list) => list.len().to_string(),
        _ => "–".to_owned(),
    };
    let numbers = ["calls", "done", "not_started", "unknown", "lost", "twice"].map(number);
    let passed = if result["passed"] == true { "passed" } else { "**failed**" };
    let seconds = &result["seconds"];
    format!("| {name} | {} | {seconds} | {passed} | {commit} |\n", numbers.join(" | "))
}

#[cfg(test)]
mod tests;
