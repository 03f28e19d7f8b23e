//! `cargo xtask accept NAME`: runs that take long, each of which writes a table.
//!
//! A run that was interrupted continues where it stopped: what has a result at this commit is not
//! run again. CI runs a sample of each.

mod flaky;

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;

use crate::workspace;

/// Runs one of them.
pub(crate) fn run(name: &str, arguments: &[&str]) -> anyhow::Result<ExitCode> {
    match name {
        "flaky" => flaky::run(arguments),
        _ => anyhow::bail!("unknown run {name}: expected flaky"),
    }
}

/// Runs a sample of each, of at most a minute.
pub(crate) fn run_samples() -> anyhow::Result<()> {
    flaky::run_sample()
}

/// The file in which a run keeps its results, so that it can continue.
fn results_path(name: &str) -> anyhow::Result<PathBuf> {
    let folder = workspace::target_folder()?.join("accept");
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    Ok(folder.join(format!("{name}.json")))
}

/// The commit that is checked out, with a mark if files differ from it.
fn checked_out() -> anyhow::Result<String> {
    let mut describe = std::process::Command::new("git");
    describe.current_dir(workspace::root());
    let printed =
        workspace::read_output(describe.args(["describe", "--always", "--dirty", "--abbrev=12"]))?;
    Ok(printed.trim().to_owned())
}
