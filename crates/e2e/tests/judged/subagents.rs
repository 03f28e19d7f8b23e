//! Calls of subagents, and of the turns that word of their end begins.

use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;
use toolbus_agent::{Notice, Noticed, Occasion, Said};
use toolbus_models::OutsideText;
use toolbus_policy::SessionOwner;
use toolbus_store::{LazyStore, sqlx};
use toolbus_subagents::{
    OnSubagent, RunSubagent, Runner, SubagentEnd, SubagentEvent, SubagentRun, SubagentToolsDeps,
    Subagents, SubagentsConfig, SubagentsDeps, Told,
};
use toolbus_tools::scope::DoorSet;
use toolbus_tools::{Door, Lineage, Scope};
use toolbus_wire::name::{AgentName, InstanceId};

use super::begin::{BEGINNERS, BegunWork, draw_calls};
use super::calls::ToolCall;
use super::chains::{add_chains, open_runner};
use super::draws::Draws;
use super::ledger::{self, CheckedCall, Happened, Ledger};
use super::rows::compare_with_rows;
use super::turns::{Turns, turn_of};
use super::world::{LIMIT, Parts, World};

/// Generated calls of a turn.
const CALLS: usize = 14;
/// What a subagent does not see.
const WITHHELD: [&str; 2] =
    ["mcp:management/mcp_register_server", "mcp:management/mcp_unregister_server"];

/// Does the work of subagents, and tells their ends, as a host does.
struct Host {
    turns: Turns,
    ledger: Ledger,
    plan: Mutex<Plan>,
    /// Lets a subagent begin whose spawning was looked at.
    begin: Semaphore,
    /// Has one more permit when the end of one was told.
    told: Semaphore,
}

/// What the turns do, and what has happened in them.
#[derive(Default)]
struct Plan {
    of_subagent: Vec<ToolCall>,
    of_notice: Vec<ToolCall>,
    in_subagent: Vec<Happened>,
    in_notice: Vec<Happened>,
}

impl Host {
    fn new(parts: &Parts) -> Arc<Self> {
        Arc::new(Self {
            turns: Turns::default(),
            ledger: parts.ledger.clone(),
            plan: Mutex::default(),
            begin: Semaphore::new(0),
            told: Semaphore::new(0),
        })
    }

    fn subagents(self: &Arc<Self>, parts: &Parts) -> Subagents {
        Subagents::new(SubagentsDeps {
            bus: Arc::new(parts.bus.connect()),
            store: parts.store.clone(),
            agent: AgentName::standard(),
            instance: InstanceId::random(),
            config: Arc::new(SubagentsConfig::default()),
            work: Arc::clone(self) as Arc<dyn RunSubagent>,
            on_subagent: Arc::clone(self) as Arc<dyn OnSubagent>,
        })
    }

    async fn do_work(&self, run: SubagentRun) {
        self.begin.acquire().await.unwrap().forget();
        let calls = self.plan.lock().of_subagent.clone();
        self.turns.plan(&run.scope, &calls).await;

        let task = OutsideText::new("the agent", &run.description);
        let said = Said::from_outside(Occasion::SubagentTask, task, run.id);
        let context = turn_of(Scope::clone(&run.scope));
        let report = self.turns.agent().say(context, said).await.unwrap();
        self.turns.check_end(&report);
        self.plan.lock().in_subagent = self.ledger.take();
    }

    /// Begins a turn for word of an end: the session has none under way.
    async fn tell_end(&self, event: &SubagentEvent) {
        let agent = self.turns.agent();
        let lineage = event.lineage.as_ref().unwrap();
        let scope = agent.restore_scope(lineage, event.owner.clone()).await.unwrap();
        let scope = Scope { door: Door::Turn, ..scope.through(DoorSet::of(&[Door::Turn])) };
        let calls = self.plan.lock().of_notice.clone();
        self.turns.plan(&scope, &calls).await;

        let notice = Notice::new(event.id.clone(), "subagent", &event.text());
        let Noticed::Turn(report) = agent.notify(turn_of(scope), notice).await.unwrap() else {
            panic!("a turn was under way");
        };
        self.turns.check_end(&report);
        self.plan.lock().in_notice = self.ledger.take();
        self.told.add_permits(1);
    }
}

impl RunSubagent for Host {
    fn restore_scope<'a>(
        &'a self,
        lineage: &'a Lineage,
        owner: SessionOwner,
    ) -> BoxFuture<'a, Result<Scope, String>> {
        let restored = self.turns.agent().restore_scope(lineage, owner);
        restored.map(|scope| scope.map_err(|error| error.to_string())).boxed()
    }

    fn run(&self, run: SubagentRun, _paused: watch::Receiver<bool>) -> BoxFuture<'_, SubagentEnd> {
        let work = self.do_work(run);
        work.map(|()| SubagentEnd::Completed { text: "done".to_owned() }).boxed()
    }
}

impl OnSubagent for Host {
    fn tell<'a>(&'a self, event: &'a SubagentEvent) -> BoxFuture<'a, Told> {
        async move {
            if event.what.is_end() {
                self.tell_end(event).await;
            }
            Told::Taken
        }
        .boxed()
    }
}

#[tokio::test]
async fn calls_of_subagents_and_of_turns_for_their_ends_run_as_they_were_judged() {
    let mut draws = Draws::new();
    let runner = open_runner().await;
    let mut opened = None;
    let world = World::open_with(|builder, parts| {
        let host = Host::new(parts);
        let subagents = host.subagents(parts);
        opened = Some((host, subagents.clone()));
        add_chains(builder, parts, runner).remote_tools(move |registry, _| {
            toolbus_subagents::register(registry, SubagentToolsDeps { subagents })
        })
    });
    let world = world.await;
    let (host, subagents) = opened.unwrap();
    host.turns.begin(&world);
    let runner = Runner::start(&subagents);

    let mut checked = Vec::new();
    for beginner in BEGINNERS {
        let (of_subagent, of_notice) =
            (draw_calls(&mut draws, CALLS), draw_calls(&mut draws, CALLS));
        *host.plan.lock() = Plan { of_subagent, of_notice, ..Plan::default() };
        let work = beginner.begin(&world, "spawn_subagent", json!({"description": "work"})).await;
        host.begin.add_permits(1);
        timeout(LIMIT, host.told.acquire()).await.expect("its end is told").unwrap().forget();

        let plan = std::mem::take(&mut *host.plan.lock());
        checked.extend(check_subagent(&work, &plan.in_subagent, &work.id));
        let doors = work.doors.union(DoorSet::of(&[Door::Turn]));
        let of_notice = ledger::check(&plan.in_notice, doors);
        let of_notice = of_notice.unwrap_or_else(|what| panic!("{what}\n{beginner:?}"));
        ledger::check_probes(&of_notice, doors, |_| true);
        checked.extend(of_notice);
        checked.extend(work.calls);
    }

    runner.close(LIMIT).await;
    compare_with_rows(&checked, &world.audit_rows().await);
}

/// Expires the leases of subagents, as if their host had been lost some time ago. Returns the id of
/// the subagent.
async fn lose_subagent(store: &LazyStore) -> String {
    let lost = store.open().await.unwrap().write(|transaction| {
        Box::pin(async move {
            let lose = "UPDATE subagents SET lease_until_ms = 1 WHERE ended_ms IS NULL
                        RETURNING id";
            Ok(sqlx::query_scalar(lose).fetch_one(transaction.connection()).await?)
        })
    });
    lost.await.unwrap()
}

/// A host that spawned a subagent is lost before the subagent does anything. Another host takes it
/// over.
#[tokio::test]
async fn calls_of_subagents_that_another_host_takes_over_run_as_they_were_judged() {
    let mut draws = Draws::new();
    let runner = open_runner().await;
    let mut opened = None;
    let world = World::open_with(|builder, parts| {
        // This host never lets the subagent start.
        let subagents = Host::new(parts).subagents(parts);
        opened = Some(Host::new(parts));
        add_chains(builder, parts, runner).remote_tools(move |registry, _| {
            toolbus_subagents::register(registry, SubagentToolsDeps { subagents })
        })
    });
    let world = world.await;
    let next = opened.unwrap();
    next.turns.begin(&world);

    let mut checked = Vec::new();
    for beginner in BEGINNERS {
        let (of_subagent, of_notice) =
            (draw_calls(&mut draws, CALLS), draw_calls(&mut draws, CALLS));
        *next.plan.lock() = Plan { of_subagent, of_notice, ..Plan::default() };
        let work = beginner.begin(&world, "spawn_subagent", json!({"description": "work"})).await;
        let id = lose_subagent(&world.parts.store).await;
        let runner = Runner::start(&next.subagents(&world.parts));
        next.begin.add_permits(1);
        timeout(LIMIT, next.told.acquire()).await.expect("its end is told").unwrap().forget();
        runner.close(LIMIT).await;

        let plan = std::mem::take(&mut *next.plan.lock());
        checked.extend(check_subagent(&work, &plan.in_subagent, &id));
        let doors = work.doors.union(DoorSet::of(&[Door::Turn]));
        let of_notice = ledger::check(&plan.in_notice, doors);
        let of_notice = of_notice.unwrap_or_else(|what| panic!("{what}\n{beginner:?}"));
        ledger::check_probes(&of_notice, doors, |_| true);
        checked.extend(of_notice);
        checked.extend(work.calls);
    }

    compare_with_rows(&checked, &world.audit_rows().await);
}

/// Checks the calls of a subagent. They were made by the call of this id, which spawned the
/// subagent, or by the call that stands for it when another host has taken the subagent over.
fn check_subagent(work: &BegunWork, happened: &[Happened], spawned_by: &str) -> Vec<CheckedCall> {
    let doors = work.doors.union(DoorSet::of(&[Door::Turn]));
    let calls = ledger::check(happened, doors);
    let calls = calls.unwrap_or_else(|what| panic!("{what}"));
    ledger::check_probes(&calls, doors, |subject| !WITHHELD.contains(&subject));

    let is_program = |id: &str| calls.iter().any(|call| call.id == id && call.tool == "tool_chain");
    for call in &calls {
        let parent = call.parent.as_deref().unwrap();
        assert!(parent == spawned_by || is_program(parent), "{call:?}");
    }
    calls
}
