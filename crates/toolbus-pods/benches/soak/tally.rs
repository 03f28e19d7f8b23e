//! Runs scripts and counts what came of them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use e2e::bench::{Goal, Latencies, Report, Rounds, Row};
use futures_util::{StreamExt as _, stream};
use toolbus_scripts::conformance::honest::{Fault, Honest, ORDINARY, SCIENTIFIC};

use crate::arguments::Runs;
use crate::manager::Manager;

/// One script in so many asks for packages.
pub(crate) const SCIENTIFIC_EVERY: usize = 10;
/// How often it is told how far it has come.
const TOLD_EVERY: usize = 250;
/// Of failures for one cause, so many are told in full.
const EXAMPLES: usize = 3;

/// What came of the scripts of one runner.
#[derive(Default)]
pub(crate) struct Tally {
    scientific: Rounds,
    ordinary: Rounds,
    faults: BTreeMap<String, usize>,
    took: Duration,
    /// How many scripts are answered, also for whoever looks on meanwhile.
    answered: Arc<AtomicUsize>,
}

/// The script of a run.
fn script(number: usize) -> &'static Honest {
    if number.is_multiple_of(SCIENTIFIC_EVERY) {
        &SCIENTIFIC[number / SCIENTIFIC_EVERY % SCIENTIFIC.len()]
    } else {
        &ORDINARY[number % ORDINARY.len()]
    }
}

impl Tally {
    /// Runs the first tenth of the scripts, whatever there is to warm up.
    pub(crate) async fn begin(&mut self, manager: &Manager, runs: Runs) {
        let first = (runs.count / 10).max(1);
        self.run(manager, 0..first, runs.at_once).await;
    }

    /// How many are answered so far, now and later.
    pub(crate) fn answered(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.answered)
    }

    /// Runs the others.
    pub(crate) async fn go_on(&mut self, manager: &Manager, runs: Runs) {
        self.run(manager, self.count()..runs.count, runs.at_once).await;
    }

    fn count(&self) -> usize {
        self.answered.load(Ordering::Relaxed)
    }

    async fn run(&mut self, manager: &Manager, numbers: std::ops::Range<usize>, at_once: u16) {
        let started = Instant::now();
        let (mut ordinary, mut scientific) = <(Latencies, Latencies)>::default();
        let one = |number: usize| async move {
            let asked = Instant::now();
            (number, manager.judge(script(number)).await, asked.elapsed())
        };

        let mut answers = stream::iter(numbers).map(one).buffer_unordered(at_once.into());
        while let Some((number, answer, took)) = answers.next().await {
            let latencies = if number.is_multiple_of(SCIENTIFIC_EVERY) {
                &mut scientific
            } else {
                &mut ordinary
            };
            latencies.add(took);
            let count = self.answered.fetch_add(1, Ordering::Relaxed) + 1;
            if let Err(fault) = answer {
                self.add_fault(manager, fault);
            }
            if count.is_multiple_of(TOLD_EVERY) {
                eprintln!("{}: {count} scripts", manager.runner);
            }
        }

        for (rounds, latencies) in
            [(&mut self.ordinary, ordinary), (&mut self.scientific, scientific)]
        {
            if !latencies.is_empty() {
                rounds.add_latencies(latencies, Duration::from_millis(1));
            }
        }
        self.took += started.elapsed();
    }

    fn add_fault(&mut self, manager: &Manager, fault: Fault) {
        let count = self.faults.entry(fault.cause.clone()).or_default();
        *count += 1;
        if *count <= EXAMPLES {
            eprintln!("{}: {fault}", manager.runner);
        }
    }

    /// Tells what came of them.
    pub(crate) fn report(self, report: &mut Report, runner: &str) {
        let failed: usize = self.faults.values().sum();
        let count = self.count() as f64;
        let rate = count / self.took.as_secs_f64();
        report.add(Row::new(format!("{runner}: scripts"), "", one(count)));
        report.add(zero(format!("{runner}: failures"), failed as f64));
        for (cause, count) in self.faults {
            report.add(zero(format!("{runner}: failures, {cause}"), count as f64));
        }
        report.add(Row::new(format!("{runner}: in a second"), "", one(rate)));
        report.add(Row::new(format!("{runner}: ordinary"), "ms", self.ordinary));
        report.add(Row::new(format!("{runner}: scientific"), "ms", self.scientific));
    }
}

/// One number, measured once.
pub(crate) fn one(value: f64) -> Rounds {
    let mut rounds = Rounds::new();
    rounds.add(value);
    rounds
}

/// A row of what must not be.
pub(crate) fn zero(name: String, value: f64) -> Row {
    Row::new(name, "", one(value)).with_goal(Goal::AtMost(0.0))
}
