//! Scripts in the sandbox of this machine.

use std::fs;
use std::path::PathBuf;

use anyhow::Context as _;
use e2e::bench::Report;
use toolbus_testkit::process::Launch;

use crate::arguments::Runs;
use crate::manager::Manager;
use crate::tally::{Tally, zero};

const RUNNER: &str = "local";

pub(crate) async fn soak(report: &mut Report, broker: &str, runs: Runs) -> anyhow::Result<()> {
    let launch = Launch::new("scripts-manager")
        .args(["--runner", "local"])
        .env("TOOLBUS_SCRIPTS__PACKAGES_DIRECTORY", packages()?);
    let mut manager = Manager::start(RUNNER, launch, broker, runs.at_once).await?;
    let mut tally = Tally::default();
    tally.begin(&manager, runs).await;
    let before = manager.holds()?;
    tally.go_on(&manager, runs).await;
    let after = manager.holds_at_last(before).await?;
    tally.report(report, RUNNER);
    after.report(report, RUNNER, before);
    let id = manager.stop().await?;
    let left = left_by(id);
    report.add(zero(format!("{RUNNER}: groups and folders left"), left.len() as f64));
    Ok(())
}

/// Where the tests of the sandbox keep the same set, too.
fn packages() -> anyhow::Result<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(std::env::home_dir()?.join(".cache")));
    Ok(cache.context("there is no home folder")?.join("toolbus-test/packages"))
}

/// Control groups and temporary folders of a process that is gone.
fn left_by(process: u32) -> Vec<PathBuf> {
    let name = format!("toolbus-sandbox-{process}-");
    let mut open = vec![PathBuf::from("/sys/fs/cgroup"), std::env::temp_dir()];
    let mut left = Vec::new();
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(&name) {
                left.push(entry.path());
            } else if folder.starts_with("/sys")
                && entry.file_type().is_ok_and(|kind| kind.is_dir())
            {
                open.push(entry.path());
            }
        }
    }
    left
}
