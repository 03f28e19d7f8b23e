//! `cargo xtask chaos`: a fleet under each fault, judged by ledgers outside of it.
//!
//! The run itself is the program `chaos`, which brings its own broker. This task builds what it
//! starts, and keeps the table where asked.

use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::Context as _;

use crate::workspace;

/// The same for building all that the run starts.
const BUILD: [&str; 9] =
    ["build", "--release", "--locked", "-p", "chaos", "-p", "mcp-bridge", "-p", "scripts-manager"];
/// Where the kept table is.
const PAGE: &str = "docs/benchmarks/chaos.md";
/// What begins the part of the page that stays: the tables of earlier days.
const EARLIER: &str = "\n## ";

/// Runs it with these arguments, of which `--keep` is for the table.
pub(crate) fn run_chaos(arguments: &[&str]) -> anyhow::Result<ExitCode> {
    let is_kept = arguments.contains(&"--keep");
    let arguments = arguments.iter().filter(|one| **one != "--keep");
    workspace::run_command(&mut workspace::script_command("dev/setup"))?;
    workspace::run_command(&mut workspace::cargo_command(&BUILD))?;

    let target = workspace::target_folder()?;
    let folder = target.join("bench");
    fs::create_dir_all(&folder)?;
    let table = folder.join("chaos.md");
    let mut command = Command::new(target.join("release/chaos"));
    command.arg("run").args(arguments).arg("--table").arg(&table);
    let status = command.status().context("starting chaos")?;

    if is_kept && status.success() {
        keep_table(&table)?;
    }
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Puts the new table in the place of the last one, above those of earlier days.
fn keep_table(table: &Path) -> anyhow::Result<()> {
    let page = workspace::root().join(PAGE);
    let new = fs::read_to_string(table).context("the run left no table")?;
    let old = fs::read_to_string(&page).unwrap_or_default();
    let earlier = old.find(EARLIER).map_or("", |at| &old[at..]);
    fs::write(&page, format!("{new}{earlier}")).with_context(|| PAGE.to_owned())
}
