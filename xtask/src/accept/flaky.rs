//! `cargo xtask accept flaky`: each suite passes three times in a row while busy threads load the
//! machine.
//!
//! A suite is one test program. All suites take hours, so results accumulate on a page, suite by
//! suite, each with the commit that it was made at. A run begins with the suites that have no
//! result and goes on with those whose result is of another commit.

use std::fs;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

use super::results;
use crate::test_run::{self, TestOptions};
use crate::workspace;

/// Passes of each suite.
const PASSES: usize = 3;
/// Threads that keep the machine busy.
const BUSY_THREADS: usize = 4;
/// The suite that CI runs as a sample.
const SAMPLE: &str = "toolbus-rabbitmq::conformance";
/// The page with the table.
const PAGE: &str = "docs/benchmarks/flaky.md";

/// Runs suites until all have a result at this commit: `[--suite NAME]... [--minutes N]`. After
/// the minutes, no other suite begins.
pub(super) fn run(arguments: &[&str]) -> anyhow::Result<ExitCode> {
    let (mut chosen, mut minutes) = (Vec::new(), None);
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        match *argument {
            "--suite" => chosen.push(*arguments.next().context("--suite takes a name")?),
            "--minutes" => {
                let number = arguments.next().context("--minutes takes a number")?;
                minutes = Some(number.parse::<u64>().context("--minutes takes a number")?);
            }
            other => anyhow::bail!("unknown argument {other}: expected --suite or --minutes"),
        }
    }

    let page = workspace::root().join(PAGE);
    let mut rows = read_rows(&fs::read_to_string(&page).unwrap_or_default());
    let suites = test_run::list_suites()?;
    rows.retain(|row| suites.contains(&row.suite));
    for name in &chosen {
        ensure!(suites.iter().any(|suite| suite == name), "there is no suite {name}");
    }

    let commit = results::commit()?;
    let has_row = |suite: &str| rows.iter().any(|row| row.suite == suite);
    let mut pending: Vec<String> = suites
        .iter()
        .filter(|suite| chosen.is_empty() || chosen.contains(&suite.as_str()))
        .filter(|suite| !rows.iter().any(|row| row.suite == **suite && row.commit == commit))
        .cloned()
        .collect();
    pending.sort_by_key(|suite| has_row(suite));

    let end = minutes.map(|minutes| Instant::now() + Duration::from_secs(minutes * 60));
    for suite in pending {
        if end.is_some_and(|end| Instant::now() >= end) {
            break;
        }
        let row = run_suite(&suite, PASSES, &commit)?;
        rows.retain(|row| row.suite != suite);
        rows.push(row);
        fs::write(&page, write_page(&rows, &suites)).context(PAGE)?;
    }

    print!("{}", write_page(&rows, &suites));
    let all_passed = rows.iter().all(|row| row.failed == 0);
    Ok(if all_passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs one short suite once under load.
pub(super) fn run_sample() -> anyhow::Result<()> {
    let row = run_suite(SAMPLE, 1, "")?;
    ensure!(row.failed == 0, "{SAMPLE}: {} of 1 passes failed under load", row.failed);
    Ok(())
}

/// The passes of one suite.
#[derive(Debug, PartialEq)]
struct Row {
    suite: String,
    passed: usize,
    failed: usize,
    /// Of the slowest pass.
    seconds: u64,
    commit: String,
}

fn run_suite(suite: &str, passes: usize, commit: &str) -> anyhow::Result<Row> {
    let options = TestOptions::of_suite(suite);
    let (suite, commit) = (suite.to_owned(), commit.to_owned());
    let mut row = Row { suite, passed: 0, failed: 0, seconds: 0, commit };
    let load = Load::start(BUSY_THREADS);

    for _ in 0..passes {
        let started = Instant::now();
        match test_run::run_tests(&options)?.success {
            true => row.passed += 1,
            false => row.failed += 1,
        }
        row.seconds = row.seconds.max(started.elapsed().as_secs());
    }

    drop(load);
    Ok(row)
}

/// Threads that do nothing but keep processors busy, until this is dropped.
struct Load {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    fn start(count: usize) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let spin = |stop: Arc<AtomicBool>| {
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            })
        };
        let threads = (0..count).map(|_| spin(Arc::clone(&stop))).collect();
        Self { stop, threads }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A thread that only spins does not panic.
            let _ = thread.join();
        }
    }
}

fn write_page(rows: &[Row], suites: &[String]) -> String {
    let mut page = format!(
        "# Suites under load\n\nEach suite runs {PASSES} times in a row while {BUSY_THREADS} \
         busy threads load the machine, at the commit in its row. Made by `cargo xtask accept \
         flaky`.\n\n| suite | passed | failed | slowest pass, s | commit |\n| --- | --- | --- | \
         --- | --- |\n"
    );
    for suite in suites {
        let line = match rows.iter().find(|row| row.suite == *suite) {
            Some(Row { suite, passed, failed, seconds, commit }) => {
                format!("| {suite} | {passed} | {failed} | {seconds} | {commit} |\n")
            }
            None => format!("| {suite} | not run | | | |\n"),
        };
        page.push_str(&line);
    }
    page
}

/// Reads the rows with a result from a page.
fn read_rows(page: &str) -> Vec<Row> {
    page.lines().filter_map(read_row).collect()
}

fn read_row(line: &str) -> Option<Row> {
    let cells: Vec<&str> = line.split('|').map(str::trim).collect();
    let ["", suite, passed, failed, seconds, commit, ""] = cells[..] else { return None };
    Some(Row {
        suite: suite.to_owned(),
        passed: passed.parse().ok()?,
        failed: failed.parse().ok()?,
        seconds: seconds.parse().ok()?,
        commit: commit.to_owned(),
    })
}

#[cfg(test)]
mod tests;
