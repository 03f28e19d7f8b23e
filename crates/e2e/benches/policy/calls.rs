//! A call through the invoker, with nothing around it and with all that stands before it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::ensure;
use e2e::bench::{Goal, Lane, Report, Rounds, Row, at_once, one_by_one, runtime};
use serde_json::json;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use toolbus::policy::{LivePolicy, RULES_MAX, RuleBook};
use toolbus::tools::call::{Call, Invocation, Output};
use toolbus::tools::{Door, Invoker, Principal, Registry, Scope, Tool};
use toolbus_audit::{Audit, AuditConfig, MIGRATIONS};
use toolbus_store::{LazyStore, Location};
use toolbus_wire::name::AgentName;

const ROUNDS: usize = 7;
const CALLS_ONE_BY_ONE: usize = 20_000;
/// Fewer than may wait for the store, so that none is dropped however fast calls come.
const CALLS_AT_ONCE: usize = 60_000;
const LANES: usize = 32;

/// What a call may take, at the median, in microseconds.
const GOAL_MICROSECONDS: f64 = 40.0;
/// How many there are to be in a second, each with its row in SQLite.
const GOAL_RATE: f64 = 50_000.0;

/// Calls a tool that does nothing.
struct Caller {
    invoker: Invoker,
    scope: Arc<Scope>,
}

impl Lane for Caller {
    async fn call(&mut self) -> anyhow::Result<()> {
        let call =
            Call::by_name(&self.scope, "work", json!({"title": "a title", "labels": [1, 2]}))?;
        self.invoker.invoke(call).await?;
        Ok(())
    }
}

impl Caller {
    /// The lane of another run.
    fn of_another_run(&self) -> Self {
        let Scope { door, principal, agent, .. } = &*self.scope;
        let scope = Scope::new(*door, principal.clone(), agent.clone());
        let scope = Arc::new(self.invoker.begin_run(scope));
        Self { invoker: self.invoker.clone(), scope }
    }
}

fn registry() -> anyhow::Result<Arc<Registry>> {
    let registry = Registry::new();
    let schema = json!({
        "type": "object",
        "properties": {
            "title": {"type": "string"},
            "labels": {"type": "array", "items": {"type": "integer"}}
        },
        "required": ["title"]
    });
    let tool = Tool::new("work", "works", "test").with_parameters(schema);
    registry.register(tool, |_: Invocation| async { Ok(Output::text("done")) })?;
    Ok(Arc::new(registry))
}

fn caller(invoker: Invoker) -> Caller {
    let scope = Scope::new(Door::Bus, Principal::claimed("somebody"), AgentName::standard());
    let scope = Arc::new(invoker.begin_run(scope));
    Caller { invoker, scope }
}

/// As many rules as there may be, a limit and a budget, and an audit log.
fn guarded(audit: &Audit) -> anyhow::Result<Caller> {
    let mut settings = super::settings(RULES_MAX, |at| (Some(format!("mcp:server{at}/*")), None));
    let counted = json!({"name": "all", "calls": 1_000_000, "per": "second", "by": ["principal"]});
    settings.limits.push(serde_json::from_value(counted)?);
    let budget = json!({"name": "all", "calls": 1_000_000_000_u64});
    settings.budgets.push(serde_json::from_value(budget)?);
    let policy = LivePolicy::new(RuleBook::new(&settings)?);
    let builder = Invoker::builder(registry()?).policy(policy.clone()).gate(policy.rate_limit());
    Ok(caller(builder.observe(audit.observer()).build()))
}

pub(super) fn measure(report: &mut Report) -> anyhow::Result<()> {
    let runtime = runtime()?;
    let bare = caller(Invoker::new(registry()?));
    let (mut of_bare, mut of_guarded, mut rates) = (Rounds::new(), Rounds::new(), Rounds::new());
    for round in 0..=ROUNDS {
        let alone = one_by_one(&runtime, bare.of_another_run(), CALLS_ONE_BY_ONE)?;
        let logged = Logged::start(&runtime)?;
        let with_all = one_by_one(&runtime, logged.caller.of_another_run(), CALLS_ONE_BY_ONE)?;
        logged.close(&runtime)?;
        let rate = rate_at_once(&runtime)?;
        // The first round warms up.
        if round > 0 {
            of_bare.add_latencies(alone, Duration::from_micros(1));
            of_guarded.add_latencies(with_all, Duration::from_micros(1));
            rates.add(rate);
        }
    }

    let row = Row::new("call, 1,000 rules, limit, budget, audit log in SQLite", "µs", of_guarded);
    report.add(row.beside(of_bare).with_goal(Goal::AtMost(GOAL_MICROSECONDS)));
    let row = Row::new("the same at 32 in flight, until the last row is written", "calls/s", rates);
    report.add(row.with_goal(Goal::AtLeast(GOAL_RATE)));
    report.note("The peer of a call is the same one without policy, limit, budget and audit log.");
    Ok(())
}

/// Calls with all that stands before them, and an empty audit log.
struct Logged {
    caller: Caller,
    audit: Audit,
    store: LazyStore,
    _folder: TempDir,
}

impl Logged {
    fn start(runtime: &Runtime) -> anyhow::Result<Self> {
        let folder = TempDir::new()?;
        let location = Location::Sqlite(folder.path().join("state.db"));
        let store = LazyStore::new(location, &[MIGRATIONS]);
        runtime.block_on(store.open())?;
        let audit = runtime.block_on(async { Audit::start(store.clone(), AuditConfig::default()) });
        Ok(Self { caller: guarded(&audit)?, audit, store, _folder: folder })
    }

    /// Waits until every row is written.
    fn close(self, runtime: &Runtime) -> anyhow::Result<()> {
        runtime.block_on(async {
            self.audit.close().await;
            let dropped = self.audit.dropped();
            ensure!(dropped == 0, "{dropped} rows were dropped");
            self.store.close().await;
            Ok(())
        })
    }
}

/// Calls in a second, up to when the row of the last one is in the store.
fn rate_at_once(runtime: &Runtime) -> anyhow::Result<f64> {
    let logged = Logged::start(runtime)?;
    let started = Instant::now();
    let lanes: Vec<_> = (0..LANES).map(|_| logged.caller.of_another_run()).collect();
    at_once(runtime, lanes, CALLS_AT_ONCE)?;
    logged.close(runtime)?;
    Ok(CALLS_AT_ONCE as f64 / started.elapsed().as_secs_f64())
}
