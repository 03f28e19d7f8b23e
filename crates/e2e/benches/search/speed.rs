//! How long searches and updates take.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use e2e::bench::{Goal, Latencies, Report, Rounds, Row};
use toolbus_search::{Embed, ToolIndex};
use toolbus_tools::id::ToolId;

use super::catalogue;

const ROUNDS: usize = 5;
const SEARCHES_A_ROUND: usize = 200;
const RESULTS: usize = 50;
const CHANGED: usize = 100;

const QUERIES: [&str; 8] = [
    "create an issue for a customer",
    "send a message to the team",
    "export all invoices as a spreadsheet",
    "which deployments failed last month",
    "assign the ticket to somebody",
    "archive old records of an account",
    "count the containers within a region",
    "approve a payment without asking",
];

pub(super) async fn measure(report: &mut Report, model: &Arc<dyn Embed>) -> anyhow::Result<()> {
    let small = catalogue::index((0..2_000).map(catalogue::synthetic).collect(), model).await?;
    add_searches(report, "2,000 tools", &small, 1.0).await?;
    drop(small);

    let before = memory_mib()?;
    let began = Instant::now();
    let large = catalogue::index((0..100_000).map(catalogue::synthetic).collect(), model).await?;
    let took = began.elapsed().as_secs_f64();
    report.add(
        Row::new("indexing 100,000 tools, with vectors", "s", once(took))
            .with_goal(Goal::AtMost(20.0)),
    );
    let grown = memory_mib()? - before;
    report.add(
        Row::new("memory of 100,000 tools", "MiB", once(grown)).with_goal(Goal::AtMost(300.0)),
    );
    add_searches(report, "100,000 tools", &large, 10.0).await?;
    add_updates(report, &large).await?;
    report.note("Searches ask for 50 results, with a tenth of the tools forbidden. The goal of a search is for its p99.");
    Ok(())
}

fn once(value: f64) -> Rounds {
    let mut rounds = Rounds::new();
    rounds.add(value);
    rounds
}

fn allows(id: &ToolId) -> bool {
    !id.as_str().ends_with('7')
}

async fn add_searches(
    report: &mut Report,
    what: &str,
    index: &ToolIndex,
    goal_milliseconds: f64,
) -> anyhow::Result<()> {
    let (mut medians, mut tails) = (Rounds::new(), Rounds::new());
    for round in 0..=ROUNDS {
        let mut latencies = Latencies::default();
        let mut all = Vec::with_capacity(SEARCHES_A_ROUND);
        for at in 0..SEARCHES_A_ROUND {
            let began = Instant::now();
            let found = index.search(QUERIES[at % QUERIES.len()], RESULTS, &allows).await;
            let took = began.elapsed();
            latencies.add(took);
            all.push(took);
            ensure!(found.found.len() == RESULTS && !found.by_words_alone, "found {found:?}");
        }
        // The first round warms up.
        if round > 0 {
            all.sort_unstable();
            let p99 = all[SEARCHES_A_ROUND * 99 / 100];
            medians.add_latencies(latencies, Duration::from_millis(1));
            tails.add(p99.as_secs_f64() * 1_000.0);
        }
    }

    report.add(Row::new(format!("search, {what}"), "ms", medians));
    let row = Row::new(format!("search, {what}, p99"), "ms", tails);
    report.add(row.with_goal(Goal::AtMost(goal_milliseconds)));
    Ok(())
}

/// Changes tools while another thread searches, and looks until the change is found.
async fn add_updates(report: &mut Report, index: &ToolIndex) -> anyhow::Result<()> {
    let stop = Arc::new(AtomicBool::new(false));
    let (searching, stopping) = (index.clone(), Arc::clone(&stop));
    let searches = tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        runtime.block_on(async {
            let mut count = 0_u64;
            while !stopping.load(Ordering::Relaxed) {
                searching.search(QUERIES[0], RESULTS, &allows).await;
                count += 1;
            }
            anyhow::Ok(count)
        })
    });

    let mut visible = Rounds::new();
    for round in 0..20 {
        let word = format!("zyx{round}quux");
        let changed = (0..CHANGED).map(|at| {
            let mut tool = catalogue::synthetic(at * 997 + round);
            tool.description.push_str(&format!(" {word}"));
            tool
        });
        let changed: Vec<_> = changed.collect();
        let began = Instant::now();
        index.update(changed, &[]);
        let took = began.elapsed();
        let found = index.search(&word, RESULTS, &|_| true).await;
        ensure!(found.found.len() >= RESULTS, "{word}: {}", found.found.len());
        visible.add(took.as_secs_f64() * 1_000.0);
    }
    stop.store(true, Ordering::Relaxed);
    let count = searches.await.context("searching")??;
    ensure!(count > 0, "nothing was searched meanwhile");
    let row = Row::new("update of 100 of 100,000 tools, while others search", "ms", visible);
    report.add(row.with_goal(Goal::AtMost(100.0)));
    Ok(())
}

/// What this process has in memory.
fn memory_mib() -> anyhow::Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).context("no VmRSS")?;
    let kib: f64 = line.split_whitespace().nth(1).context("no number")?.parse()?;
    Ok(kib / 1_024.0)
}
