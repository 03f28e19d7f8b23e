//! The agent: what a turn costs beside its model and its tools, how soon a token is passed on, what
//! sessions take, and how long results are split and services found.
//!
//! `cargo bench --profile measured -p e2e --bench agent`. Prints a table, writes it as `target/bench/agent.md` and
//! `agent.json`, and exits 1 when a goal is missed.

mod model;
mod texts;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::ensure;
use e2e::bench::{Benchmark, Goal, Latencies, Report, Rounds, Row, process, runtime};
use futures_util::future::join_all;
use serde_json::json;
use tempfile::TempDir;
use tikv_jemallocator::Jemalloc;
use toolbus_agent::{
    Agent, AgentDeps, ContextBuilder, SessionRef, Sessions, TurnContext, TurnEnd, TurnEvent,
    TurnLimits,
};
use toolbus_bus::Asker;
use toolbus_models::model::{Model, ModelEvent};
use toolbus_store::{LazyStore, Location};
use toolbus_tools::call::{Invocation, Output};
use toolbus_tools::id::SessionId;
use toolbus_tools::{Door, Invoker, Principal, Registry, Scope, Tool};
use toolbus_wire::name::AgentName;

use model::{Instantly, Streaming};

/// What ships allocates with jemalloc, so what is measured does: see
/// docs/adr/0017-one-allocator-for-every-service.md.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

const ROUNDS: usize = 9;
const TOOLS: usize = 200;
/// Turns that a session has before the one that is measured.
const TURNS_BEFORE: usize = 50;
/// Sessions that have a turn in each round.
const SESSIONS: usize = 20;
const IDLE_SESSIONS: usize = 1_000;
const TURNS_AT_ONCE: usize = 100;
const LONG_SESSION_TURNS: usize = 200;

const GOAL_TURN_MS: f64 = 2.0;
const GOAL_TOKEN_MS: f64 = 1.0;
const GOAL_IDLE_MIB: f64 = 100.0;
const GOAL_RESUME_MS: f64 = 50.0;

const MILLISECOND: Duration = Duration::from_millis(1);

fn main() -> anyhow::Result<ExitCode> {
    let parts = ["turns", "tokens", "idle", "at-once", "resume", "texts"];
    let mut benchmark = Benchmark::begin("agent", env!("CARGO_TARGET_TMPDIR"), &parts)?;
    let runtime = runtime()?;
    benchmark.part("turns", |report| runtime.block_on(measure_turns(report)));
    benchmark.part("tokens", |report| runtime.block_on(measure_tokens(report)));
    benchmark.part("idle", |report| runtime.block_on(measure_idle(report)));
    benchmark.part("at-once", |report| runtime.block_on(measure_at_once(report)));
    benchmark.part("resume", |report| runtime.block_on(measure_resume(report)));
    benchmark.part("texts", |report| {
        texts::measure_chunks(report);
        texts::measure_services(report);
        Ok(())
    });
    benchmark.note(format!(
        "A turn: the model calls one of {TOOLS} tools and answers, in a session of {TURNS_BEFORE} \
         such turns that is read back from SQLite before and whose four events are committed. The \
         model and the tool take no time; with the API, the model is a server in this process, and \
         what the turn has beside the other row is a request of all that, twice, and what is read \
         of it there.",
    ));
    benchmark.note(
        "The first token: from when the API writes it until whoever looks on is told. At once: \
         sessions of one agent whose model takes 20 ms for each answer.",
    );

    Ok(benchmark.finish())
}

/// An agent with tools and a store of its own.
struct Bench {
    agent: Agent,
    _folder: TempDir,
}

impl Bench {
    fn new(model: Arc<dyn Model>) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let location = Location::Sqlite(folder.path().join("state.db"));
        let store = LazyStore::new(location, &[toolbus_agent::MIGRATIONS]);
        let registry = Registry::new();
        for at in 0..TOOLS {
            let schema = json!({
                "type": "object",
                "properties": {
                    "path": {"type": "string", "description": "Where to look, from the root on."},
                    "depth": {"type": "integer", "description": "How deep to go; 1 by default."},
                },
                "required": ["path"],
            });
            let tool = Tool::new(format!("look_{at}"), "Looks at one thing and tells it.", "bench");
            let tool = tool.with_parameters(schema).read_only();
            registry.register(tool, |_: Invocation| {
                std::future::ready(Ok(Output::text("nothing to see here, move along")))
            })?;
        }

        let agent = Agent::new(AgentDeps {
            invoker: Invoker::new(Arc::new(registry)),
            model,
            sessions: Sessions::new(store, TurnLimits::default(), "bench"),
            context: ContextBuilder::new("You are measured.").with_definitions_max(1 << 20).into(),
        });
        Ok(Self { agent, _folder: folder })
    }

    fn scope(&self, session: &str) -> anyhow::Result<Arc<Scope>> {
        let session = SessionId::parse(session)?;
        let scope = self.agent.turn_scope(
            &[Door::Turn],
            &AgentName::standard(),
            Principal::local(),
            session,
        );
        Ok(Arc::new(scope))
    }

    async fn turn(
        &self,
        session: &str,
        on_event: &(dyn Fn(TurnEvent) + Send + Sync),
    ) -> anyhow::Result<()> {
        let context = TurnContext { scope: self.scope(session)?, asker: Asker::none(), on_event };
        let report = self.agent.say(context, "What is there to see?".to_owned()).await?;
        ensure!(matches!(report.end, TurnEnd::Answered { limit: None, .. }), "{report:?}");
        Ok(())
    }

    async fn turns(&self, session: &str, count: usize) -> anyhow::Result<()> {
        for _ in 0..count {
            self.turn(session, &|_| {}).await?;
        }
        Ok(())
    }
}

async fn measure_turns(report: &mut Report) -> anyhow::Result<()> {
    let bench = Bench::new(Arc::new(Instantly))?;
    let row = Row::new("turn, model and tool take no time", "ms", time_turns(&bench).await?);
    report.add(row.with_goal(Goal::AtMost(GOAL_TURN_MS)));

    let api = Streaming::start().await?;
    let bench = Bench::new(api.model()?)?;
    report.add(Row::new("the same, the model behind its API", "ms", time_turns(&bench).await?));
    Ok(())
}

async fn time_turns(bench: &Bench) -> anyhow::Result<Rounds> {
    let sessions: Vec<_> = (0..SESSIONS).map(|at| format!("session/{at}")).collect();
    for session in &sessions {
        bench.turns(session, TURNS_BEFORE).await?;
    }
    let mut rounds = Rounds::new();
    for _ in 0..ROUNDS {
        let mut latencies = Latencies::default();
        for session in &sessions {
            let began = Instant::now();
            bench.turn(session, &|_| {}).await?;
            latencies.add(began.elapsed());
        }
        rounds.add_latencies(latencies, MILLISECOND);
    }
    Ok(rounds)
}

/// How long the first token is on its way from the API.
async fn measure_tokens(report: &mut Report) -> anyhow::Result<()> {
    let api = Streaming::start().await?;
    let bench = Bench::new(api.model()?)?;
    let mut rounds = Rounds::new();
    for round in 0..ROUNDS {
        let mut latencies = Latencies::default();
        for turn in 0..SESSIONS {
            let heard = parking_lot::Mutex::new(None);
            let on_event = |event| {
                if let TurnEvent::Model(ModelEvent::Text { .. }) = event {
                    heard.lock().get_or_insert_with(Instant::now);
                }
            };
            bench.turn(&format!("session/{round}/{turn}"), &on_event).await?;

            let heard = heard.lock().take();
            let (Some(heard), Some(written)) = (heard, api.first_written()) else {
                anyhow::bail!("no token came");
            };
            latencies.add(heard.saturating_duration_since(written));
        }
        rounds.add_latencies(latencies, MILLISECOND);
    }
    let row = Row::new("first token, from the API to who looks on", "ms", rounds);
    report.add(row.with_goal(Goal::AtMost(GOAL_TOKEN_MS)));
    Ok(())
}

/// What sessions take in memory that nobody uses at the moment.
async fn measure_idle(report: &mut Report) -> anyhow::Result<()> {
    let bench = Bench::new(Arc::new(Instantly))?;
    bench.turns("session/first", TURNS_BEFORE).await?;
    let before = process::resident_mib(std::process::id())?;
    for at in 0..IDLE_SESSIONS {
        bench.turn(&format!("session/{at}"), &|_| {}).await?;
    }
    let after = process::resident_mib(std::process::id())?;
    let mut rounds = Rounds::new();
    rounds.add((after - before).max(0.0));
    let row = Row::new(format!("memory for {IDLE_SESSIONS} idle sessions"), "MiB", rounds);
    report.add(row.with_goal(Goal::AtMost(GOAL_IDLE_MIB)));
    Ok(())
}

async fn measure_at_once(report: &mut Report) -> anyhow::Result<()> {
    let bench = Bench::new(Arc::new(model::After(Duration::from_millis(20))))?;
    let (mut took, mut failed) = (Rounds::new(), Rounds::new());
    for round in 0..ROUNDS {
        let sessions: Vec<_> =
            (0..TURNS_AT_ONCE).map(|at| format!("session/{round}/{at}")).collect();
        let began = Instant::now();
        let ends = join_all(sessions.iter().map(|session| bench.turn(session, &|_| {}))).await;
        took.add(began.elapsed().as_secs_f64() * 1e3);
        let failures = ends.iter().filter(|end| end.is_err()).count();
        failed.add(f64::from(u32::try_from(failures)?));
    }
    report.add(Row::new(
        format!("{TURNS_AT_ONCE} turns at once, until all have ended"),
        "ms",
        took,
    ));
    let row = Row::new("the same, turns that failed", "", failed);
    report.add(row.with_goal(Goal::AtMost(0.0)));
    Ok(())
}

/// How long it takes to go on with a long session.
async fn measure_resume(report: &mut Report) -> anyhow::Result<()> {
    let bench = Bench::new(Arc::new(Instantly))?;
    bench.turns("session/long", LONG_SESSION_TURNS).await?;
    let at = SessionRef::of(&*bench.scope("session/long")?)?;
    let mut rounds = Rounds::new();
    for _ in 0..ROUNDS {
        let mut latencies = Latencies::default();
        for _ in 0..SESSIONS {
            let began = Instant::now();
            let session = bench.agent.sessions().open(&at).await?;
            latencies.add(began.elapsed());
            ensure!(session.conversation().messages().len() == 4 * LONG_SESSION_TURNS);
            session.close().await;
        }
        rounds.add_latencies(latencies, MILLISECOND);
    }
    let name = format!("resuming a session of {LONG_SESSION_TURNS} turns");
    report.add(Row::new(name, "ms", rounds).with_goal(Goal::AtMost(GOAL_RESUME_MS)));
    Ok(())
}
