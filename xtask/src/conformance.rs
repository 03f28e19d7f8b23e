//! `cargo xtask conformance`: the official MCP conformance suite, both releases, against our parts.
//!
//! Server scenarios run against a server of ours directly, and against servers behind the hop: MCP
//! face of agent-host → RabbitMQ → mcp-bridge → server. Client scenarios run with the bridge's
//! client. What does not pass has to be listed with its cause in [`DIFFERENCES`], and what is not
//! run at all in [`LEFT_OUT`]; the task fails when something else does not pass or is not run, and
//! when something that is listed does or is. Which scenarios cross the bus is measured.

mod bus_watch;
mod cause_list;
mod crossing;
mod differences;
mod not_run;
mod programs;
mod report;
mod suite;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context as _, ensure};

use crate::real_parts::{BROKER, RealParts};
use crate::workspace;
use bus_watch::{BusWatch, Delivery};
use differences::Differences;
use not_run::NotRunList;
use programs::{DirectServer, FleetHop, FleetParts};
use suite::{OfferedScenario, ScenarioResults, Suite};

/// Where the table is kept.
const DOCUMENT: &str = "docs/conformance.md";
/// Where the expected differences are listed.
const DIFFERENCES: &str = "crates/conformance/differences.json";
/// Where the scenarios are listed that are not run.
const LEFT_OUT: &str = "crates/conformance/left-out.json";

/// What to do with the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConformanceTable {
    /// Compare it with the one that is kept.
    Compare,
    /// Keep it.
    Keep,
}

/// What a scenario runs against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SuiteTarget {
    /// The server itself.
    Direct,
    /// The server behind the hop, reached by its path of the face.
    Hop,
    /// Behind the hop, a server that speaks nothing newer than 2025-11-25.
    Initialize,
    /// Behind the hop, the server over stdio.
    Stdio,
    /// Behind the hop, a server of the Python SDK.
    Python,
    /// Behind the hop, `server-everything`, which is of the TypeScript SDK.
    Everything,
    /// The server's tools as tools of the agent, at `/mcp`.
    Agent,
    /// The bridge's client.
    Client,
}

/// A version of the protocol, and the release of the suite that speaks it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Era {
    version: &'static str,
    script: &'static str,
    extras: &'static [ExtraScenario],
}

/// A scenario that is run beside those that a release has for its era.
#[derive(Debug, PartialEq, Eq)]
struct ExtraScenario {
    kind: ScenarioKind,
    scenario: &'static str,
    /// Which release runs it, and what makes it do that.
    script: &'static str,
    options: &'static [&'static str],
}

const ERAS: [Era; 2] = [
    Era { version: "2025-11-25", script: "2025.js", extras: &EXTRAS_2025 },
    Era { version: "2026-07-28", script: "2026.js", extras: &EXTRAS_2026 },
];

/// The scenario of an extension that the bridge's client has. It belongs to no era.
const CLIENT_CREDENTIALS: &str = "auth/client-credentials-basic";

const EXTRAS_2025: [ExtraScenario; 3] = [
    // What the newer release has added to the older era.
    ExtraScenario {
        kind: ScenarioKind::Server,
        scenario: "server-session-lifecycle",
        script: "2026.js",
        options: &["--spec-version", "2025-11-25"],
    },
    ExtraScenario {
        kind: ScenarioKind::Client,
        scenario: CLIENT_CREDENTIALS,
        script: "2025.js",
        options: &[],
    },
    // Of an era before it. In the older release, the server names an issuer that is not its own.
    ExtraScenario {
        kind: ScenarioKind::Client,
        scenario: "auth/2025-03-26-oauth-metadata-backcompat",
        script: "2026.js",
        options: &["--spec-version", "2025-03-26"],
    },
];

const EXTRAS_2026: [ExtraScenario; 1] = [ExtraScenario {
    kind: ScenarioKind::Client,
    scenario: CLIENT_CREDENTIALS,
    script: "2026.js",
    options: &["--spec-version", "2026-07-28", "--force"],
}];

/// What a scenario is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ScenarioKind {
    Server,
    Client,
    AuthorizationServer,
}

/// The results of one era's scenarios with one target.
struct ResultColumn {
    era: Era,
    place: SuiteTarget,
    results: ScenarioResults,
}

impl SuiteTarget {
    const ALL: [Self; 8] = [
        Self::Direct,
        Self::Hop,
        Self::Initialize,
        Self::Stdio,
        Self::Python,
        Self::Everything,
        Self::Agent,
        Self::Client,
    ];

    /// Its name in the list of differences.
    fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Hop => "hop",
            Self::Initialize => "initialize",
            Self::Stdio => "stdio",
            Self::Python => "python",
            Self::Everything => "everything",
            Self::Agent => "agent",
            Self::Client => "client",
        }
    }

    /// What heads its column.
    fn title(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Hop => "behind the hop",
            Self::Initialize => "2025-11-25 server",
            Self::Stdio => "stdio",
            Self::Python => "Python SDK",
            Self::Everything => "server-everything",
            Self::Agent => "`/mcp`",
            Self::Client => "the bridge's client",
        }
    }

    /// Whether the scenarios of an era run against it. What `server-everything` serves of the newer
    /// one is answered by the face, but for the lists, which the older one has as well.
    fn is_run_in(self, era: Era) -> bool {
        self != Self::Everything || era == ERAS[0]
    }

    /// The kind of scenarios that run against it.
    fn kind(self) -> ScenarioKind {
        match self {
            Self::Client => ScenarioKind::Client,
            _ => ScenarioKind::Server,
        }
    }
}

impl ScenarioKind {
    const ALL: [Self; 3] = [Self::Server, Self::Client, Self::AuthorizationServer];

    /// Its name in the suite and in the list of what is not run.
    fn name(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Client => "client",
            Self::AuthorizationServer => "authorization server",
        }
    }
}

/// Fetches, builds and runs everything.
pub(crate) fn build_and_run(arguments: &[&str]) -> anyhow::Result<ExitCode> {
    let table = match arguments {
        [] => ConformanceTable::Compare,
        ["--keep"] => ConformanceTable::Keep,
        _ => anyhow::bail!("usage: cargo xtask conformance [--keep]"),
    };
    workspace::run_command(&mut workspace::script_command("dev/setup"))?;
    let packages = ["conformance", "agent-host", "mcp-bridge", "toolbus-testkit"];
    let packages = packages.iter().flat_map(|name| ["--package", name]);
    let mut build = workspace::cargo_command(&["build", "--locked", "--bins"]);
    workspace::run_command(build.args(packages))?;
    run_suite(table)?;
    Ok(ExitCode::SUCCESS)
}

/// Runs the suite with what has been built.
pub(crate) fn run_suite(table: ConformanceTable) -> anyhow::Result<()> {
    let parts = fetch_parts(["conformance", "everything", "python-servers"])?;
    let [suite, everything, python] = parts;
    let programs = workspace::target_folder()?.join("debug");
    let folder = workspace::target_folder()?.join("conformance");
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    std::fs::create_dir_all(&folder)?;

    let parts = FleetParts { programs: &programs, logs: &folder, everything, python };
    let ran = run_all(&suite, &parts)?;

    compare_with_lists(&ran, table, &folder)
}

/// Where the parts are that others wrote.
fn fetch_parts<const N: usize>(names: [&str; N]) -> anyhow::Result<[PathBuf; N]> {
    let fetched = workspace::read_output(workspace::script_command("dev/parts/fetch").args(names))?;
    let mut folders = [const { PathBuf::new() }; N];
    for (name, folder) in names.iter().zip(&mut folders) {
        let line =
            |line: &str| line.trim().strip_prefix(name)?.strip_prefix('=').map(PathBuf::from);
        *folder = fetched.lines().find_map(line).context("output of fetch")?;
    }
    Ok(folders)
}

/// The results of a whole run.
struct SuiteRun {
    columns: Vec<ResultColumn>,
    /// Every scenario that one of the releases has.
    offered: Vec<OfferedScenario>,
    /// What the broker delivered to the bridge, and when.
    delivered: Vec<Delivery>,
}

fn run_all(suite: &Path, parts: &FleetParts<'_>) -> anyhow::Result<SuiteRun> {
    let broker = RealParts::start(parts.programs, [BROKER])?;
    let bus = BusWatch::start(&broker.amqp()?)?;
    let direct = DirectServer::start(parts, &[])?;
    let initialize = DirectServer::start(parts, &["initialize"])?;
    let hop = FleetHop::start(parts, &broker.amqp()?, bus.url(), &direct.url(), &initialize.url())?;
    let client = parts.programs.join("conformance-client");
    let mut ran = SuiteRun { columns: Vec::new(), offered: Vec::new(), delivered: Vec::new() };

    for era in ERAS {
        let suite =
            |place: SuiteTarget| Suite { folder: suite, era, logs: parts.logs, name: place.name() };
        for offered in suite(SuiteTarget::Direct).list_scenarios()? {
            if !ran.offered.contains(&offered) {
                ran.offered.push(offered);
            }
        }

        let run = |place: SuiteTarget| {
            let begun = Instant::now();
            let results = match place {
                SuiteTarget::Client => suite(place).run_with_client(&client),
                SuiteTarget::Direct => suite(place).run_against_server(&direct.url()),
                _ => suite(place).run_against_server(&hop.url(place)),
            };
            let results =
                results.with_context(|| format!("{} of {}", place.name(), era.version))?;
            report_column(era, place, &results, begun);
            anyhow::Ok(ResultColumn { era, place, results })
        };

        for place in SuiteTarget::ALL.into_iter().filter(|place| place.is_run_in(era)) {
            ran.columns.push(run(place)?);
        }
    }

    ran.delivered = bus.delivered();
    let lines = ran.delivered.iter().map(|delivery| format!("{delivery}\n"));
    std::fs::write(parts.logs.join("delivered.log"), lines.collect::<String>())?;

    Ok(ran)
}

fn report_column(era: Era, place: SuiteTarget, results: &ScenarioResults, begun: Instant) {
    let version = era.version;
    let name = place.name();
    let passed = results.passed();
    let all = results.len();
    let took = begun.elapsed().as_secs();
    println!("{version}  {name:10}{passed:>3} of {all} pass, in {took} s");
}

fn compare_with_lists(
    ran: &SuiteRun,
    table: ConformanceTable,
    folder: &Path,
) -> anyhow::Result<()> {
    let differences = Differences::read(&workspace::root().join(DIFFERENCES))?;
    let left_out = NotRunList::read(&workspace::root().join(LEFT_OUT))?;
    let mut surprises = differences.find_surprises(&ran.columns);
    surprises.extend(left_out.find_surprises(ran));

    for surprise in &surprises {
        println!("{surprise}");
    }

    ensure!(
        surprises.is_empty(),
        "{} scenarios did not go as {DIFFERENCES} and {LEFT_OUT} say; logs are in {}",
        surprises.len(),
        folder.display()
    );
    let text = report::document(ran, &differences, &left_out);
    let path = workspace::root().join(DOCUMENT);

    if table == ConformanceTable::Keep {
        return std::fs::write(&path, text).with_context(|| DOCUMENT.to_owned());
    }

    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    ensure!(kept == text, "{DOCUMENT} is out of date: run `cargo xtask conformance --keep`");
    Ok(())
}

#[cfg(test)]
mod tests;
