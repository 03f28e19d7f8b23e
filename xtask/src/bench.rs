//! `cargo xtask bench NAME`: one benchmark of the crate `e2e`, on real parts.
//!
//! The benchmark itself prints its table, writes it row by row to `target/bench` as `NAME.json` and
//! `NAME.md`, some with a picture as `NAME.svg`, and fails when it misses a goal. This task gives
//! it programs that were built alike and the broker, and keeps table and picture where asked.

use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, ensure};
use serde_json::Value;

use crate::real_parts::{self, BROKER, RealParts};
use crate::workspace;

/// The programs that benchmarks start. Each is linked like the product, which takes a minute, so no
/// others are built.
const PROGRAMS: [&str; 6] = [
    "agent-host",
    "mcp-bridge",
    "openrouter-mcp",
    "real-parts",
    "scripts-manager",
    "toolbus-mcp-supervisor",
];

/// Set where standard input is held open for as long as the benchmark is to run: when this task
/// ends, however it ends, the benchmark ends what it started.
const LIFELINE: &str = "TOOLBUS_BENCH_LIFELINE";

/// The profile of `Cargo.toml` that benchmarks are built with.
const PROFILE: &str = "measured";

/// What to do with the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BenchTable {
    /// Print it.
    Show,
    /// Print it and put it under `docs/benchmarks`.
    Keep,
}

/// Runs one benchmark with these arguments, of which `--keep` is for its table; fails when it does.
pub(crate) fn run_benchmark(name: &str, arguments: &[&str]) -> anyhow::Result<ExitCode> {
    let (table, arguments) = split_arguments(arguments);
    workspace::run_command(workspace::script_command("dev/setup").arg("--bench"))?;
    let mut folders = real_parts::prepare_all()?;
    if name == "search" {
        // No test looks at it, and it takes minutes.
        folders.extend(real_parts::fetch(&["tool-catalogue".to_owned()])?);
    }
    let build = ["build", "--profile", PROFILE, "--workspace", "--locked", "--bench", name];
    let programs = PROGRAMS.iter().flat_map(|program| ["--bin", program]);
    workspace::run_command(workspace::cargo_command(&build).args(programs))?;
    let target = workspace::target_folder()?;

    let parts = RealParts::start(&target.join(PROFILE), [BROKER])?;
    let run = ["bench", "--profile", PROFILE, "--workspace", "--locked", "--bench", name, "--"];
    let mut command = workspace::cargo_command(&run);
    command.args(arguments).envs(folders).envs(parts.environment().iter().cloned());
    let outcome = run_and_publish(&mut command, name, table);
    drop(parts);
    outcome
}

/// The arguments of a benchmark without `--keep`.
pub(crate) fn split_arguments<'a>(arguments: &[&'a str]) -> (BenchTable, Vec<&'a str>) {
    let table = if arguments.contains(&"--keep") { BenchTable::Keep } else { BenchTable::Show };
    (table, arguments.iter().copied().filter(|one| *one != "--keep").collect())
}

/// Runs the benchmark by this command, checks what it wrote, and keeps its table where that is
/// asked for.
pub(crate) fn run_and_publish(
    command: &mut Command,
    name: &str,
    table: BenchTable,
) -> anyhow::Result<ExitCode> {
    let folder = workspace::target_folder()?.join("bench");
    let began = SystemTime::now();
    let command = command.env(LIFELINE, "stdin").stdin(Stdio::piped());
    let mut child = command.spawn().context("starting cargo bench")?;
    // Waiting for a child closes its standard input, unless that is elsewhere.
    let lifeline = child.stdin.take();
    let status = child.wait().context("cargo bench")?;
    drop(lifeline);

    let is_whole = check_result(&folder, name, began)?;
    if table == BenchTable::Keep {
        ensure!(is_whole, "the table of {name} is not kept: parts of it are missing");
        let kept = workspace::root().join("docs/benchmarks");
        fs::create_dir_all(&kept)?;
        fs::copy(folder.join(format!("{name}.md")), kept.join(format!("{name}.md")))
            .with_context(|| format!("{name} left no {name}.md"))?;
        let picture = format!("{name}.svg");
        if folder.join(&picture).exists() {
            fs::copy(folder.join(&picture), kept.join(&picture))?;
        }
    }
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Checks that the result is of a run that began then and has the members which its readers rely
/// on. Says whether no part of it is missing.
fn check_result(folder: &Path, name: &str, began: SystemTime) -> anyhow::Result<bool> {
    let path = folder.join(format!("{name}.json"));
    let text = fs::read_to_string(&path).with_context(|| format!("{name} left no {name}.json"))?;
    // File systems tell the time in steps.
    let is_new = fs::metadata(&path)?.modified()? + Duration::from_secs(1) >= began;
    ensure!(is_new, "{name} wrote nothing");
    let result: Value = serde_json::from_str(&text).with_context(|| format!("{name}.json"))?;
    ensure!(!result["machine"].is_null(), "the result names no machine");
    let rows = result["rows"].as_array().context("the result has no rows")?;
    ensure!(!rows.is_empty(), "the result has no rows");
    for row in rows {
        for member in ["name", "unit", "ours", "peer", "ratio", "goal", "holds"] {
            ensure!(row.get(member).is_some(), "a row of the result has no {member}: {row}");
        }
    }
    let missing = result["missing"].as_object().context("the result says what is missing")?;
    Ok(missing.is_empty())
}
