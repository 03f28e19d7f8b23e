//! `cargo xtask bench NAME`: one benchmark of the crate `e2e`, on real parts.
//!
//! The benchmark itself prints its table, writes it to `target/bench` as `NAME.json` and `NAME.md`,
//! some with a picture as `NAME.svg`, and fails when it misses a goal. This task gives it programs
//! that were built alike and the broker, and keeps the table and the picture where asked.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, ensure};
use serde_json::Value;

use crate::real_parts::{self, RealParts};
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

/// What to do with the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BenchTable {
    /// Print it.
    Show,
    /// Print it and put it under `docs/benchmarks`.
    Keep,
}

/// Runs one benchmark; fails when it does.
pub(crate) fn run_benchmark(name: &str, table: BenchTable) -> anyhow::Result<ExitCode> {
    workspace::run_command(workspace::script_command("dev/setup").arg("--bench"))?;
    real_parts::prepare()?;
    if name == "search" {
        // No test looks at it, and it takes minutes.
        real_parts::fetch_parts(&["tool-catalogue"])?;
    }
    let build = ["build", "--profile", "bench", "--workspace", "--locked", "--bench", name];
    let programs = PROGRAMS.iter().flat_map(|program| ["--bin", program]);
    workspace::run_command(workspace::cargo_command(&build).args(programs))?;
    let target = workspace::target_folder()?;
    let folder = target.join("bench");
    remove_old_results(&folder, name)?;

    let parts = RealParts::start(&target.join("release"))?;
    let mut command =
        workspace::cargo_command(&["bench", "--workspace", "--locked", "--bench", name]);
    let status =
        parts.pass_environment_to(&mut command).status().context("starting cargo bench")?;
    drop(parts);

    publish_results(&folder, name, table)?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Removes the results of an earlier run of this benchmark.
pub(crate) fn remove_old_results(folder: &Path, name: &str) -> anyhow::Result<()> {
    for old in [format!("{name}.json"), format!("{name}.md"), format!("{name}.svg")] {
        let old = folder.join(old);
        if old.exists() {
            fs::remove_file(old)?;
        }
    }
    Ok(())
}

/// Checks the results of this benchmark, and keeps its table where that is asked for.
pub(crate) fn publish_results(folder: &Path, name: &str, table: BenchTable) -> anyhow::Result<()> {
    let result = folder.join(format!("{name}.json"));
    let text =
        fs::read_to_string(&result).with_context(|| format!("{name} left no {name}.json"))?;
    check_result(&serde_json::from_str(&text).with_context(|| format!("{name}.json"))?)?;
    if table == BenchTable::Keep {
        let kept = workspace::root().join("docs/benchmarks");
        fs::create_dir_all(&kept)?;
        fs::copy(folder.join(format!("{name}.md")), kept.join(format!("{name}.md")))
            .with_context(|| format!("{name} left no {name}.md"))?;
        let picture = format!("{name}.svg");
        if folder.join(&picture).exists() {
            fs::copy(folder.join(&picture), kept.join(&picture))?;
        }
    }
    Ok(())
}

/// Checks that the result has the members which its readers rely on.
fn check_result(result: &Value) -> anyhow::Result<()> {
    ensure!(!result["machine"].is_null(), "the result names no machine");
    let rows = result["rows"].as_array().context("the result has no rows")?;
    ensure!(!rows.is_empty(), "the result has no rows");
    for row in rows {
        for member in ["name", "unit", "ours", "peer", "ratio", "goal", "holds"] {
            ensure!(row.get(member).is_some(), "a row of the result has no {member}: {row}");
        }
    }
    Ok(())
}
