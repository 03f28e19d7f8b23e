//! A subagent: how long its spawn takes, and its whole way where its work takes no time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::ensure;
use e2e::bench::{Goal, Latencies, Report, Rounds, Row};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde_json::json;
use tempfile::TempDir;
use tokio::sync::watch;
use toolbus_bus::MemoryBus;
use toolbus_policy::SessionOwner;
use toolbus_store::{LazyStore, Location};
use toolbus_subagents::{
    OnSubagent, RunSubagent, Runner, SubagentEnd, SubagentEvent, SubagentRun, SubagentToolsDeps,
    Subagents, SubagentsConfig, SubagentsDeps, Told,
};
use toolbus_tools::{Call, Invoker, Lineage, Principal, Registry, Scope};
use toolbus_wire::name::{AgentName, InstanceId};

use crate::signal::{Moments, Signal, signal};
use crate::{MILLISECOND, turn_scope};

const ROUNDS: usize = 9;
/// Subagents of a round, one after the other.
const SPAWNS: usize = 40;
const GOAL_SPAWN_MS: f64 = 5.0;
/// Between two of them, for what is written after the end was told.
const PAUSE_INTERVAL: Duration = Duration::from_millis(15);
const CLOSE_GRACE: Duration = Duration::from_secs(5);

/// Work that takes no time.
struct Work {
    began: Signal,
}

impl RunSubagent for Work {
    fn restore_scope<'a>(
        &'a self,
        _: &'a Lineage,
        _: SessionOwner,
    ) -> BoxFuture<'a, Result<Scope, String>> {
        std::future::ready(Err("no process is lost here".to_owned())).boxed()
    }

    fn run(&self, run: SubagentRun, _paused: watch::Receiver<bool>) -> BoxFuture<'_, SubagentEnd> {
        self.began.note();
        std::future::ready(SubagentEnd::Completed { text: run.description }).boxed()
    }
}

/// The session that is told.
struct Listener {
    told: Signal,
}

impl OnSubagent for Listener {
    fn tell<'a>(&'a self, event: &'a SubagentEvent) -> BoxFuture<'a, Told> {
        if event.what.is_end() {
            self.told.note();
        }
        std::future::ready(Told::Taken).boxed()
    }
}

/// An agent that splits its work, with a store of its own.
struct Bench {
    invoker: Invoker,
    runner: Runner,
    store: LazyStore,
    began: Moments,
    told: Moments,
    _folder: TempDir,
}

/// How long the parts of one took, from the call on.
struct Times {
    /// Until its result was there, and its work had begun.
    spawned: Duration,
    told: Duration,
}

pub(crate) async fn measure(report: &mut Report) -> anyhow::Result<()> {
    let mut bench = Bench::start()?;
    let (mut spawned, mut told) = (Rounds::new(), Rounds::new());
    // The first round is for caches, allocators and the file of the store to fill.
    for round in 0..=ROUNDS {
        let (mut spawns, mut tellings) = (Latencies::default(), Latencies::default());
        for spawn in 0..SPAWNS {
            let times = bench.spawn(&format!("session/{round}/{spawn}")).await?;
            spawns.add(times.spawned);
            tellings.add(times.told);
            tokio::time::sleep(PAUSE_INTERVAL).await;
        }
        if round > 0 {
            spawned.add_latencies(spawns, MILLISECOND);
            told.add_latencies(tellings, MILLISECOND);
        }
    }
    bench.close().await;

    let row = Row::new("subagent, until its work has begun", "ms", spawned);
    report.add(row.with_goal(Goal::AtMost(GOAL_SPAWN_MS)));
    report.add(Row::new("the same, until its end is told", "ms", told));
    report.note(format!(
        "Subagents: `spawn_subagent`, from the gates of the caller until its result is there and \
         the work has begun; the subagent is in SQLite by then. The work takes no time, and its end \
         is kept and claimed in SQLite before it is told. {ROUNDS} rounds of {SPAWNS}, one after \
         the other.",
    ));

    Ok(())
}

impl Bench {
    fn start() -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let location = Location::Sqlite(folder.path().join("state.db"));
        let store = LazyStore::new(location, &[toolbus_subagents::MIGRATIONS]);
        let (begin, began) = signal();
        let (tell, told) = signal();
        let subagents = Subagents::new(SubagentsDeps {
            bus: Arc::new(MemoryBus::new()),
            store: store.clone(),
            agent: AgentName::standard(),
            instance: InstanceId::random(),
            config: Arc::new(SubagentsConfig::default()),
            work: Arc::new(Work { began: begin }),
            on_subagent: Arc::new(Listener { told: tell }),
        });

        let registry = Registry::new();
        let deps = SubagentToolsDeps { subagents: subagents.clone() };
        toolbus_subagents::register(&registry, deps)?;
        let invoker = Invoker::new(Arc::new(registry));
        let runner = Runner::start(&subagents);
        Ok(Self { invoker, runner, store, began, told, _folder: folder })
    }

    async fn spawn(&mut self, session: &str) -> anyhow::Result<Times> {
        let scope = turn_scope(AgentName::standard(), Principal::local(), session)?;
        let arguments = json!({"description": "Count to 42.", "context": "From 1 on."});
        let call = Call::by_name(&scope, "spawn_subagent", arguments)?;

        let called = Instant::now();
        let output = self.invoker.invoke(call).await?;
        let answered = Instant::now();
        ensure!(!output.is_error, "nothing was spawned: {output:?}");
        let began = self.began.next().await?;
        let told = self.told.next().await?;
        Ok(Times { spawned: answered.max(began) - called, told: told - called })
    }

    async fn close(self) {
        self.runner.close(CLOSE_GRACE).await;
        self.store.close().await;
    }
}
