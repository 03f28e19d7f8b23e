//! `cargo xtask accept flaky`: each suite passes three times in a row while busy threads load the
//! machine.
//!
//! A suite is one test program. Results accumulate in a file, suite by suite, and a suite with
//! results at this commit is skipped.

use std::fs;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use super::results::Results;
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

/// Runs the suites that have no result at this commit: `[--suite NAME]... [--keep]`.
pub(super) fn run(arguments: &[&str]) -> anyhow::Result<ExitCode> {
    let (mut chosen, mut is_kept) = (Vec::new(), false);
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        match *argument {
            "--suite" => chosen.push(*arguments.next().context("--suite takes a name")?),
            "--keep" => is_kept = true,
            other => anyhow::bail!("unknown argument {other}: expected --suite NAME or --keep"),
        }
    }

    let mut results = Results::read("flaky")?;
    let suites = test_run::list_suites()?;
    for name in &chosen {
        ensure!(suites.iter().any(|suite| suite == name), "there is no suite {name}");
    }

    for suite in &suites {
        let is_chosen = chosen.is_empty() || chosen.contains(&suite.as_str());
        if is_chosen && (!chosen.is_empty() || !results.has(suite)) {
            results.record(suite, run_suite(suite, PASSES)?.to_json())?;
        }
    }

    let table = write_table(&results, &suites);
    print!("{table}");
    if is_kept {
        fs::write(workspace::root().join(PAGE), &table).context(PAGE)?;
    }
    let all_passed = results.values().all(|result| result["failed"] == 0);
    Ok(if all_passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs one short suite once under load.
pub(super) fn run_sample() -> anyhow::Result<()> {
    let result = run_suite(SAMPLE, 1)?;
    ensure!(result.failed == 0, "{SAMPLE}: {} of 1 passes failed under load", result.failed);
    Ok(())
}

/// The passes of one suite.
struct SuiteResult {
    passed: usize,
    failed: usize,
    seconds: f64,
}

impl SuiteResult {
    fn to_json(&self) -> Value {
        let Self { passed, failed, seconds } = self;
        json!({"passed": passed, "failed": failed, "seconds": seconds.round()})
    }
}

fn run_suite(suite: &str, passes: usize) -> anyhow::Result<SuiteResult> {
    let options = TestOptions::of_suite(suite);
    let mut result = SuiteResult { passed: 0, failed: 0, seconds: 0.0 };
    let load = Load::start(BUSY_THREADS);

    for _ in 0..passes {
        let started = Instant::now();
        match test_run::run_tests(&options)?.success {
            true => result.passed += 1,
            false => result.failed += 1,
        }
        result.seconds = result.seconds.max(started.elapsed().as_secs_f64());
    }

    drop(load);
    Ok(result)
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

fn write_table(results: &Results, suites: &[String]) -> String {
    let mut table = format!(
        "# Suites under load\n\nEach suite runs {PASSES} times in a row while {BUSY_THREADS} \
         busy threads load the machine, at commit {}. Made by `cargo xtask accept flaky --keep`.\n\n\
         | suite | passed | failed | slowest pass, s |\n| --- | --- | --- | --- |\n",
        results.commit()
    );
    for suite in suites {
        let result = results.get(suite);
        let row = if result.is_null() {
            format!("| {suite} | not run | | |\n")
        } else {
            let (passed, failed) = (&result["passed"], &result["failed"]);
            format!("| {suite} | {passed} | {failed} | {} |\n", result["seconds"])
        };
        table.push_str(&row);
    }
    table
}
