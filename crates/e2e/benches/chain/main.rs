//! Chains and artifacts: what a call of a tool costs a program in the local sandbox, and what it
//! costs to keep a result of 100 MB apart.
//!
//! `cargo bench --profile measured -p e2e --bench chain`. Prints a table, writes it as `target/bench/chain.md` and
//! `chain.json`, and exits 1 when a goal is missed.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use bytes::Bytes;
use e2e::bench::{Benchmark, Goal, Latencies, Report, Rounds, Row, process, runtime};
use serde_json::{Value, json};
use tempfile::TempDir;
use tikv_jemallocator::Jemalloc;
use toolbus::tools::registry::Offer;
use toolbus::tools::{Scope, Tool};
use toolbus::{Scripts, Toolbus};
use toolbus_artifacts::{
    ArtifactConfig, ArtifactOwner, Artifacts, NewArtifact, OffloadOutput, Place,
};
use toolbus_chain::{ChainDeps, ChainPolicy};
use toolbus_sandbox::{Config, Sandbox};
use toolbus_scripts::ScriptClient;
use toolbus_store::{LazyStore, Location, Transaction, sqlx};
use toolbus_tools::call::{Invocation, Output};
use toolbus_tools::{Door, Principal};

/// What ships allocates with jemalloc, so what is measured does: see
/// docs/adr/0017-one-allocator-for-every-service.md.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

const ROUNDS: usize = 7;
/// Calls that a round of single calls makes.
const CALLS_A_ROUND: usize = 500;
/// Calls that a chain may make.
const BUDGET: u64 = 9_000;
/// Calls that are made at once, of which the budget allows so many.
const CALLS_AT_ONCE: usize = 10_000;
/// Small artifacts that a round stores.
const SMALL_A_ROUND: usize = 100;
/// Artifacts that there are beside them.
const MANY: usize = 100_000;
const STORED_BYTES: usize = 100 << 20;
const PIECE_BYTES: usize = 1 << 20;

/// What a call may take.
const GOAL_CALL_MS: f64 = 1.0;
/// What a chain of a thousand calls may take.
const GOAL_THOUSAND_MS: f64 = 2_000.0;
/// What it may take to store 100 MB, and how much memory.
const GOAL_STORE_MS: f64 = 200.0;
const GOAL_STORE_MIB: f64 = 32.0;

fn main() -> anyhow::Result<ExitCode> {
    let parts = ["calls", "thousand", "at-once", "storing", "many"];
    let mut benchmark = Benchmark::begin("chain", env!("CARGO_TARGET_TMPDIR"), &parts)?;
    let runtime = runtime()?;
    let bench = runtime.block_on(Bench::open())?;
    benchmark.part("calls", |report| runtime.block_on(bench.measure_calls(report)));
    benchmark.part("thousand", |report| runtime.block_on(bench.measure_thousand(report)));
    benchmark.part("at-once", |report| runtime.block_on(bench.measure_at_once(report)));
    benchmark.part("storing", |report| runtime.block_on(bench.measure_storing(report)));
    benchmark.part("many", |report| runtime.block_on(bench.measure_many(report)));
    runtime.block_on(bench.toolbus.close());
    benchmark.note(
        "A call is timed by the program that makes it, in the local sandbox; its tool is in the \
         process of the agent, and it passes every gate. To store is to hash, write and name \
         100 MiB that come in pieces of 1 MiB, without waiting for the disk.",
    );

    Ok(benchmark.finish())
}

struct Bench {
    toolbus: Toolbus,
    artifacts: Artifacts,
    store: LazyStore,
    scope: Arc<Scope>,
    _folder: TempDir,
}

impl Bench {
    async fn open() -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let location = Location::Sqlite(folder.path().join("state.db"));
        let migrations = [toolbus_artifacts::MIGRATIONS, toolbus_chain::MIGRATIONS];
        let store = LazyStore::new(location, &migrations);
        let place = Place::folder(&folder.path().join("artifacts"));
        let artifacts = Artifacts::new(store.clone(), place, ArtifactConfig::default());

        let sandbox = Sandbox::probe(Config::default()).await?;
        let policy = ChainPolicy { tool_calls_max: BUDGET, ..ChainPolicy::default() };
        let (kept, journals) = (Some(artifacts.clone()), Some(store.clone()));
        let echo = Tool::new("echo", "Says it again.", "bench")
            .with_parameters(json!({"type": "object"}))
            .read_only();
        let said = |call: Invocation| {
            let text = call.arguments.get("text").and_then(Value::as_str).unwrap_or_default();
            std::future::ready(Ok(Output::text(text)))
        };
        let toolbus = Toolbus::builder()
            .scripts(Scripts::local(Arc::new(sandbox)))
            .shape(Arc::new(OffloadOutput::new(artifacts.clone())))
            .tool(Offer::new(echo, said))
            .remote_tools(move |registry, requester| {
                let scripts = ScriptClient::new(requester.clone());
                let deps = ChainDeps { scripts, artifacts: kept, store: journals, policy };
                toolbus_chain::register(registry, deps)
            })
            .open()
            .await?;

        let scope = Scope::new(Door::Embedded, Principal::local(), toolbus.name().clone());
        Ok(Self { toolbus, artifacts, store, scope: Arc::new(scope), _folder: folder })
    }

    /// Runs a program, and gives what it printed and how long it took.
    async fn run(&self, code: &str) -> anyhow::Result<(String, Duration)> {
        let began = Instant::now();
        let arguments = json!({"code": code});
        let output = self.toolbus.call(&self.scope, "tool_chain", arguments).await?;
        let took = began.elapsed();
        let text = output.content.unwrap_or_default();
        ensure!(!output.is_error, "{text}");
        Ok((text.lines().next().unwrap_or_default().to_owned(), took))
    }

    async fn measure_calls(&self, report: &mut Report) -> anyhow::Result<()> {
        let code = format!(
            "
import time
list(tools)
took = []
for _ in range({CALLS_A_ROUND}):
    began = time.perf_counter()
    tools.echo(text='a')
    took.append(time.perf_counter() - began)
took.sort()
print(took[len(took) // 2] * 1000, took[len(took) * 99 // 100] * 1000)
"
        );
        let (mut medians, mut tails) = (Rounds::new(), Rounds::new());
        for _ in 0..ROUNDS {
            let (printed, _) = self.run(&code).await?;
            let (median, tail) = printed.split_once(' ').context("two numbers")?;
            medians.add(median.parse()?);
            tails.add(tail.parse()?);
        }
        let goal = Goal::AtMost(GOAL_CALL_MS);
        report.add(Row::new("a call of a local tool, median", "ms", medians).with_goal(goal));
        report.add(Row::new("the same, p99", "ms", tails));
        Ok(())
    }

    async fn measure_thousand(&self, report: &mut Report) -> anyhow::Result<()> {
        let code = "for n in range(1000): tools.echo(text='a')\nprint('done')";
        let mut rounds = Rounds::new();
        for _ in 0..ROUNDS {
            let (_, took) = self.run(code).await?;
            rounds.add(took.as_secs_f64() * 1_000.0);
        }
        let goal = Goal::AtMost(GOAL_THOUSAND_MS);
        report.add(Row::new("a chain of 1,000 calls", "ms", rounds).with_goal(goal));
        Ok(())
    }

    async fn measure_at_once(&self, report: &mut Report) -> anyhow::Result<()> {
        let code = format!(
            "
import asyncio
calls = (tools.echo(text='a') for _ in range({CALLS_AT_ONCE}))
ended = await asyncio.gather(*calls, return_exceptions=True)
print(sum(not isinstance(one, Exception) for one in ended))
"
        );
        let mut rounds = Rounds::new();
        for _ in 0..ROUNDS {
            let (allowed, took) = self.run(&code).await?;
            ensure!(allowed == BUDGET.to_string(), "{allowed} calls of a budget of {BUDGET}");
            rounds.add(took.as_secs_f64() * 1_000.0);
        }
        let what = "10,000 calls at once, of which a budget allows 9,000";
        report.add(Row::new(what, "ms", rounds));
        Ok(())
    }

    async fn measure_storing(&self, report: &mut Report) -> anyhow::Result<()> {
        let (mut times, mut memory) = (Rounds::new(), Rounds::new());
        let own = std::process::id();
        for round in 0..ROUNDS {
            // Each is another value, and none is kept already.
            let mut piece = vec![b'x'; PIECE_BYTES];
            piece[0] = u8::try_from(round)?;
            let piece = Bytes::from(piece);
            process::forget_peak(own)?;
            let before = process::resident_mib(own)?;

            let began = Instant::now();
            let new = NewArtifact::of(&self.scope, "text/plain", "bench", "call");
            let mut writer = self.artifacts.create(new)?;
            for _ in 0..STORED_BYTES / PIECE_BYTES {
                writer.write(piece.clone()).await?;
            }
            let stored = writer.finish().await?;
            times.add(began.elapsed().as_secs_f64() * 1_000.0);

            ensure!(stored.bytes == STORED_BYTES as u64, "{stored:?}");
            memory.add(process::peak_mib(own)? - before);
            // The disk does not write what is gone.
            let owner = ArtifactOwner::of(&self.scope);
            self.artifacts.remove(&owner, &stored.reference).await?;
        }
        let goal = Goal::AtMost(GOAL_STORE_MS);
        report.add(Row::new("storing 100 MiB", "ms", times).with_goal(goal));
        let goal = Goal::AtMost(GOAL_STORE_MIB);
        report.add(Row::new("memory that it takes", "MiB", memory).with_goal(goal));
        Ok(())
    }

    /// What it takes to store a small one, alone and among very many, and to sweep these.
    async fn measure_many(&self, report: &mut Report) -> anyhow::Result<()> {
        let alone = self.store_small("alone").await?;
        let store = self.store.open().await?;
        store.write(|transaction| Box::pin(async move { add_many(transaction).await })).await?;
        let among = self.store_small("among").await?;
        let what = "storing 1 KiB among 100,000 artifacts, peer among few";
        report.add(Row::new(what, "ms", among).beside(alone));

        let mut sweep = Rounds::new();
        let began = Instant::now();
        let swept = self.artifacts.sweep().await?;
        sweep.add(began.elapsed().as_secs_f64());
        ensure!(swept == MANY as u64, "{swept} artifacts were over");
        report.add(Row::new("sweeping 100,000 artifacts whose time is over", "s", sweep));
        Ok(())
    }

    async fn store_small(&self, which: &str) -> anyhow::Result<Rounds> {
        let mut rounds = Rounds::new();
        for round in 0..ROUNDS {
            let mut latencies = Latencies::default();
            for at in 0..SMALL_A_ROUND {
                let text = format!("{which} {round} {at:<1010}");
                let began = Instant::now();
                let new = NewArtifact::of(&self.scope, "text/plain", "bench", "call");
                let stored = self.artifacts.store(new, text).await?;
                latencies.add(began.elapsed());
                let owner = ArtifactOwner::of(&self.scope);
                self.artifacts.find(&owner, &stored.reference).await?;
            }
            rounds.add_latencies(latencies, Duration::from_millis(1));
        }
        Ok(rounds)
    }
}

/// Adds artifacts of a thousand sessions, whose time is over and whose bytes are gone.
async fn add_many(transaction: &mut Transaction) -> Result<(), toolbus_store::Error> {
    let connection = transaction.connection();
    for at in 0..MANY {
        let (id, owner, digest) =
            (format!("art_{at:064x}"), format!("{:064x}", at % 1_000), format!("{at:064x}"));
        sqlx::query(
            "INSERT INTO artifacts (id, owner, digest, media_type, bytes, tool, call_id, stored_ms,
                 expires_ms)
             VALUES ($1, $2, $3, 'text/plain', 10, 'bench', 'call', 0, 1)",
        )
        .bind(id)
        .bind(owner)
        .bind(&digest)
        .execute(&mut *connection)
        .await?;
        sqlx::query("INSERT INTO artifacts_objects (digest, object, bytes) VALUES ($1, $2, 10)")
            .bind(&digest)
            .bind(format!("{at}"))
            .execute(&mut *connection)
            .await?;
    }
    sqlx::query(
        "INSERT INTO artifacts_used (owner, artifacts, bytes)
         SELECT owner, COUNT(*), SUM(bytes) FROM artifacts WHERE expires_ms = 1 GROUP BY owner",
    )
    .execute(connection)
    .await?;
    Ok(())
}
