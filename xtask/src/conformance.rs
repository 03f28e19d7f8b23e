//! `cargo xtask conformance`: the official MCP conformance suite, both releases, against our parts.
//!
//! Server scenarios run against a server of ours directly, and against the same server behind the
//! hop: MCP face of agent-host → RabbitMQ → mcp-bridge → server. Client scenarios run with the
//! bridge's client. What does not pass has to be listed with its cause in [`DIFFERENCES`]; the task
//! fails when something else does not pass, and when something that is listed does.

mod differences;
mod parts;
mod report;
mod suite;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, ensure};

use crate::real_parts::RealParts;
use crate::workspace;
use differences::Differences;
use parts::{Direct, Hop};
use suite::{Results, Suite};

/// Where the table is kept.
const DOCUMENT: &str = "docs/conformance.md";
/// Where the expected differences are listed.
const DIFFERENCES: &str = "crates/conformance/differences.json";

/// What becomes of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Table {
    /// It has to be the one that is kept.
    Compare,
    /// It is kept.
    Keep,
}

/// What a scenario runs against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Direct,
    Hop,
    Client,
}

/// A version of the protocol, and the release of the suite that speaks it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Era {
    version: &'static str,
    script: &'static str,
}

const ERAS: [Era; 2] = [
    Era { version: "2025-11-25", script: "2025.js" },
    Era { version: "2026-07-28", script: "2026.js" },
];

/// How the scenarios of one era went in one place.
struct Column {
    era: Era,
    place: Place,
    results: Results,
}

impl Place {
    const ALL: [Self; 3] = [Self::Direct, Self::Hop, Self::Client];

    /// How the list of differences calls it.
    fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Hop => "hop",
            Self::Client => "client",
        }
    }
}

/// Fetches, builds and runs everything.
pub(crate) fn run(table: Table) -> anyhow::Result<ExitCode> {
    workspace::run(&mut workspace::script("dev/setup"))?;
    let packages = ["conformance", "agent-host", "mcp-bridge", "toolbus-testkit"];
    let packages = packages.iter().flat_map(|name| ["--package", name]);
    let mut build = workspace::cargo(&["build", "--locked", "--bins"]);
    workspace::run(build.args(packages))?;
    check(table)?;
    Ok(ExitCode::SUCCESS)
}

/// Runs the suite with what has been built.
pub(crate) fn check(table: Table) -> anyhow::Result<()> {
    let fetched = workspace::read(workspace::script("dev/parts/fetch").arg("conformance"))?;
    let fetched = fetched.trim().strip_prefix("conformance=").context("output of fetch")?;
    let programs = workspace::target_folder()?.join("debug");
    let folder = workspace::target_folder()?.join("conformance");
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    std::fs::create_dir_all(&folder)?;
    let columns = run_all(&PathBuf::from(fetched), &programs, &folder)?;
    judge(&columns, table, &folder)
}

fn run_all(suite: &Path, programs: &Path, folder: &Path) -> anyhow::Result<Vec<Column>> {
    let broker = RealParts::start(programs)?;
    let direct = Direct::start(programs, folder)?;
    let hop = Hop::start(programs, folder, &broker.amqp()?, &direct.url())?;
    let client = programs.join("conformance-client");
    let mut columns = Vec::new();
    for era in ERAS {
        for place in Place::ALL {
            let suite = Suite { folder: suite, era, logs: folder, name: place.name() };
            let results = match place {
                Place::Direct => suite.against_server(&direct.url()),
                Place::Hop => suite.against_server(&hop.url()),
                Place::Client => suite.with_client(&client),
            };
            let results =
                results.with_context(|| format!("{} of {}", place.name(), era.version))?;
            let (passed, all) = (results.passed(), results.len());
            println!("{}  {:8}{passed:>3} of {all} pass", era.version, place.name());
            columns.push(Column { era, place, results });
        }
    }
    Ok(columns)
}

fn judge(columns: &[Column], table: Table, folder: &Path) -> anyhow::Result<()> {
    let differences = Differences::read(&workspace::root().join(DIFFERENCES))?;
    let surprises = differences.surprises(columns);
    for surprise in &surprises {
        println!("{surprise}");
    }
    ensure!(
        surprises.is_empty(),
        "{} scenarios did not go as {DIFFERENCES} says; logs are in {}",
        surprises.len(),
        folder.display()
    );
    let text = report::document(columns, &differences);
    let path = workspace::root().join(DOCUMENT);
    if table == Table::Keep {
        return std::fs::write(&path, text).with_context(|| DOCUMENT.to_owned());
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    ensure!(kept == text, "{DOCUMENT} is out of date: run `cargo xtask conformance --keep`");
    Ok(())
}

#[cfg(test)]
mod tests;
