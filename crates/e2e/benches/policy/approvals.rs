//! Approvals at a store where a million wait.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use e2e::bench::{Goal, Latencies, Report, Rounds, Row, runtime};
use serde_json::json;
use tempfile::TempDir;
use toolbus::Decision;
use toolbus::tools::call::{Call, Invocation, Output};
use toolbus::tools::policy::{ApprovalDemand, PolicyRequest};
use toolbus::tools::{Door, Invoker, Principal, Registry, Scope, Tool};
use toolbus_approvals::{
    Answer, ApprovalConfig, ApprovalState, ApprovalStore, Approvals, Approve, MIGRATIONS,
};
use toolbus_store::sqlx::{self, AssertSqlSafe};
use toolbus_store::{LazyStore, Location};
use toolbus_wire::name::AgentName;

const ROUNDS: usize = 5;
const DECISIONS_A_ROUND: usize = 100;
const ROWS: u64 = 1_000_000;

/// What an answer may take, at the median, in milliseconds.
const GOAL_MILLISECONDS: f64 = 2.0;
/// What a million rows may add to the memory of a process, in MiB.
const GOAL_MEMORY_MIB: f64 = 16.0;

pub(super) fn measure(report: &mut Report) -> anyhow::Result<()> {
    runtime()?.block_on(async {
        let folder = TempDir::new()?;
        let location = Location::Sqlite(folder.path().join("state.db"));
        let store = LazyStore::new(location, &[MIGRATIONS]);
        let empty = decide(&store, 1).await?;
        fill(&store).await?;
        let before = memory_mib()?;
        let filled = decide(&store, ROUNDS).await?;
        let mut grown = Rounds::new();
        grown.add((memory_mib()? - before).max(0.0));
        store.close().await;

        let row = Row::new("answering an approval, a million wait", "ms", filled.answers);
        report.add(row.beside(empty.answers).with_goal(Goal::AtMost(GOAL_MILLISECONDS)));
        report.add(Row::new("from the answer to the outcome of the call", "ms", filled.outcomes));
        let row = Row::new("memory for a million that wait", "MiB", grown);
        report.add(row.with_goal(Goal::AtMost(GOAL_MEMORY_MIB)));
        report
            .note("The peer of an answer is one at an empty store. Answers are committed to disk.");
        Ok(())
    })
}

struct Decided {
    answers: Rounds,
    outcomes: Rounds,
}

/// Has calls made that need an approval, and answers them.
async fn decide(store: &LazyStore, rounds: usize) -> anyhow::Result<Decided> {
    let config = ApprovalConfig { wait_for_operator: true, ..ApprovalConfig::default() };
    let agent = AgentName::standard();
    let approvals = Approvals::new(store.clone(), config, &agent, "bench");
    let registry = Registry::new();
    let pay = |_: Invocation| async { Ok(Output::text("paid")) };
    registry.register(Tool::new("pay", "pays", "test"), pay)?;
    let ask = |_: &PolicyRequest<'_>| Decision::Ask(ApprovalDemand::new("all", "to be seen"));
    let invoker = Invoker::builder(Arc::new(registry)).policy(ask).gate(approvals.gate()).build();
    let operator = ApprovalStore::new(store.clone(), false);

    let (mut answers, mut outcomes) = (Rounds::new(), Rounds::new());
    for _ in 0..rounds {
        let (mut answered, mut ended) = (Latencies::default(), Latencies::default());
        for _ in 0..DECISIONS_A_ROUND {
            let scope = Scope::new(Door::Bus, Principal::claimed("somebody"), agent.clone());
            let call = Call::by_name(&Arc::new(scope), "pay", json!({"to": "alice"}))?;
            let answering = answer(&operator);
            let (outcome, answer) = tokio::join!(invoker.invoke(call), answering);
            outcome?;
            let (began, took) = answer?;
            answered.add(took);
            ended.add(began.elapsed());
        }
        answers.add_latencies(answered, Duration::from_millis(1));
        outcomes.add_latencies(ended, Duration::from_millis(1));
    }
    approvals.close().await;
    Ok(Decided { answers, outcomes })
}

/// Answers the last approval that was asked for, and says when that began and how long it took.
async fn answer(operator: &ApprovalStore) -> anyhow::Result<(Instant, Duration)> {
    for _ in 0..10_000 {
        // The million have no bindings, so reading one of them fails.
        let asked = operator.list(Some(ApprovalState::Pending), 1).await;
        if let Some(asked) = asked.ok().and_then(|mut asked| asked.pop()) {
            let began = Instant::now();
            operator.answer(&asked.id, Answer::new(Approve::ONCE, &Principal::local())).await?;
            return Ok((began, began.elapsed()));
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    None.context("nobody asks")
}

/// Puts a million rows of calls in the store that nobody here has made.
async fn fill(store: &LazyStore) -> anyhow::Result<()> {
    const PART: u64 = 100_000;
    for first in (0..ROWS).step_by(100_000) {
        let last = first + PART;
        let text = format!(
            "WITH RECURSIVE n(i) AS (SELECT {first} UNION ALL SELECT i + 1 FROM n WHERE i + 1 < {last})
             INSERT INTO approvals (id, state, call_key, asked_digest, digest, binding, call_id,
                 tool, subject, risk, door, agent, reason, asked_ms, expires_ms, request)
             SELECT printf('%032x', i * 7919 + 1), 'pending', printf('%064x', i), 'd', 'd', '{{}}',
                 'c', 'pay', 'test/pay', 'high', 'bus', 'Another', 'r', i, 4000000000000, '{{}}'
             FROM n"
        );
        let write = store.open().await?.write(move |transaction| {
            Box::pin(async move {
                sqlx::query(AssertSqlSafe(text)).execute(transaction.connection()).await?;
                Ok(())
            })
        });
        write.await?;
    }
    Ok(())
}

/// What this process has in memory.
fn memory_mib() -> anyhow::Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).context("no VmRSS")?;
    let kib: f64 = line.split_whitespace().nth(1).context("no number")?.parse()?;
    Ok(kib / 1_024.0)
}
