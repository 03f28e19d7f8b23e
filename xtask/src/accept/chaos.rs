//! `cargo xtask accept chaos`: a fleet under each fault, judged by ledgers outside of it.
//!
//! The run itself is the program `chaos`, which brings its own broker. Without arguments for it,
//! each fault is a run of its own, so that an interrupted run continues with the next fault.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context as _, ensure};

use super::results::Results;
use crate::workspace;

/// Builds all that a run starts, as for tests: the run is about failures, not about speed.
const BUILD: [&str; 5] = ["build", "--locked", "--workspace", "--bins", "--tests"];
/// The page with the table.
const PAGE: &str = "docs/benchmarks/chaos.md";
/// The beginning of the part of the page that is kept: tables of earlier runs.
const EARLIER: &str = "\n## ";

/// Runs it: `[--keep] [ARGUMENTS OF chaos run]`.
pub(super) fn run(arguments: &[&str]) -> anyhow::Result<ExitCode> {
    let is_kept = arguments.contains(&"--keep");
    let arguments: Vec<&str> = arguments.iter().copied().filter(|one| *one != "--keep").collect();
    workspace::run_command(&mut workspace::script_command("dev/setup"))?;
    workspace::run_command(&mut workspace::cargo_command(&BUILD))?;

    let page = if arguments.is_empty() { run_each_fault()? } else { run_once(&arguments)? };
    if is_kept {
        keep_page(&page)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs each fault that has no result at this commit. Returns the page with all of them.
fn run_each_fault() -> anyhow::Result<String> {
    let mut results = Results::read("chaos")?;
    let listed = workspace::read_output(Command::new(program()?).arg("faults"))?;
    let faults: Vec<&str> = listed.split_whitespace().collect();
    ensure!(!faults.is_empty(), "chaos lists no faults");

    for fault in &faults {
        if !results.has(fault) {
            results.record(fault, run_once(&["--fault", fault])?.into())?;
        }
    }

    let pages = faults.iter().filter_map(|fault| results.get(fault).as_str());
    let page = join_pages(&pages.collect::<Vec<_>>())?;
    println!("{page}");
    Ok(page)
}

/// Runs the program once. Returns the page that it wrote.
fn run_once(arguments: &[&str]) -> anyhow::Result<String> {
    let folder = workspace::target_folder()?.join("bench");
    fs::create_dir_all(&folder)?;
    let table = folder.join("chaos.md");
    let mut command = Command::new(program()?);
    workspace::run_command(command.arg("run").args(arguments).arg("--table").arg(&table))?;
    fs::read_to_string(&table).context("the run left no table")
}

fn program() -> anyhow::Result<PathBuf> {
    Ok(workspace::target_folder()?.join("debug/chaos"))
}

/// Makes one page of pages that differ in the rows of their tables.
fn join_pages(pages: &[&str]) -> anyhow::Result<String> {
    let is_row = |line: &&str| line.starts_with('|');
    let first = pages.first().context("there is no result")?;
    let head = first.lines().take_while(|line| !is_row(line));
    let headings = first.lines().filter(is_row).take(2);
    let rows = pages.iter().flat_map(|page| page.lines().filter(is_row).skip(2));
    let notes = first.lines().skip_while(|line| !is_row(line)).skip_while(is_row);

    let mut page = String::new();
    for line in head.chain(headings).chain(rows).chain(notes) {
        page.push_str(line);
        page.push('\n');
    }
    Ok(page)
}

/// Replaces the last table on the page, above the tables of earlier runs.
fn keep_page(new: &str) -> anyhow::Result<()> {
    let page = workspace::root().join(Path::new(PAGE));
    let old = fs::read_to_string(&page).unwrap_or_default();
    let earlier = old.find(EARLIER).map_or("", |at| &old[at..]);
    fs::write(&page, format!("{new}{earlier}")).context(PAGE)
}

#[cfg(test)]
mod tests;
