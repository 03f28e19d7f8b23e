//! Calls of turns that schedules begin.

use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use toolbus_agent::{Occasion, Said};
use toolbus_models::OutsideText;
use toolbus_policy::SessionOwner;
use toolbus_schedule::{
    Fire, RunEnd, RunTask, ScheduleConfig, ScheduleDeps, ScheduleOwner, Scheduler, SchedulerDeps,
    Schedules, ZoneUnreadable, Zones,
};
use toolbus_tools::id::SessionId;
use toolbus_tools::scope::DoorSet;
use toolbus_tools::{Door, Scope};
use toolbus_wire::name::AgentName;

use super::begin::{BEGINNERS, draw_calls};
use super::calls::ToolCall;
use super::chains::{add_chains, open_runner};
use super::draws::Draws;
use super::ledger;
use super::rows::compare_with_rows;
use super::turns::{Turns, turn_of};
use super::world::{LIMIT, World};

/// Generated calls of a turn.
const CALLS: usize = 14;
/// When tasks fire by themselves: not while the test runs.
const CRON: &str = "0 0 1 1 *";

/// Nobody has set a zone.
struct NoZones;

impl Zones for NoZones {
    fn zone<'a>(
        &'a self,
        _owner: &'a ScheduleOwner,
    ) -> BoxFuture<'a, Result<Option<String>, ZoneUnreadable>> {
        std::future::ready(Ok(None)).boxed()
    }
}

/// Runs tasks as turns, as a host does.
struct Host {
    turns: Turns,
    calls: Mutex<Vec<ToolCall>>,
    /// Has one more permit when a task has run.
    ran: Semaphore,
}

impl Host {
    async fn run_turn(&self, fire: Fire, stop: CancellationToken) {
        let ScheduleOwner { agent, principal } = fire.owner;
        let session = SessionId::parse(format!("schedule/{}", fire.id)).unwrap();
        let owner = SessionOwner { agent, principal, session };
        let lineage = fire.lineage.unwrap();
        let scope = self.turns.agent().begin_scope(&lineage, Door::Schedule, owner).unwrap();
        let calls = self.calls.lock().clone();
        self.turns.plan(&scope, &calls).await;

        let task = OutsideText::new("scheduled task", &fire.description);
        let said = Said::from_outside(Occasion::ScheduledTask, task, fire.id);
        let context = turn_of(Scope { cancelled: stop, ..scope });
        let report = self.turns.agent().say(context, said).await.unwrap();
        self.turns.check_end(&report);
        self.ran.add_permits(1);
    }
}

impl RunTask for Host {
    fn is_busy<'a>(&'a self, _fire: &'a Fire) -> BoxFuture<'a, bool> {
        std::future::ready(false).boxed()
    }

    fn run(&self, fire: Fire, stop: CancellationToken) -> BoxFuture<'_, RunEnd> {
        self.run_turn(fire, stop).map(|()| RunEnd::Done).boxed()
    }
}

#[tokio::test]
async fn calls_of_scheduled_turns_run_as_they_were_judged() {
    let mut draws = Draws::new();
    let runner = open_runner().await;
    let mut opened = None;
    let world = World::open_with(|builder, parts| {
        let config = ScheduleConfig::default();
        let schedules = Schedules::new(parts.store.clone(), config, Arc::new(NoZones));
        opened = Some(schedules.clone());
        add_chains(builder, parts, runner).remote_tools(move |registry, _| {
            toolbus_schedule::register(registry, ScheduleDeps { schedules })
        })
    });
    let world = world.await;
    let schedules = opened.unwrap();
    let turns = Turns::default();
    turns.begin(&world);
    let host = Arc::new(Host { turns, calls: Mutex::default(), ran: Semaphore::new(0) });
    let scheduler = Scheduler::start(SchedulerDeps {
        schedules: schedules.clone(),
        agent: AgentName::standard(),
        holder: "judged".to_owned(),
        run: Arc::clone(&host) as Arc<dyn RunTask>,
    });

    let owner = ScheduleOwner::of(&world.scope(&[Door::Embedded]));
    let mut checked = Vec::new();
    for (number, beginner) in BEGINNERS.into_iter().enumerate() {
        *host.calls.lock() = draw_calls(&mut draws, CALLS);
        let name = format!("task {number}");
        let task = json!({"name": name, "cron": CRON, "description": "work"});
        let work = beginner.begin(&world, "schedule_task", task).await;
        assert!(schedules.run_now(&owner, &name).await.unwrap(), "{name} is there");
        timeout(LIMIT, host.ran.acquire()).await.expect("it runs").unwrap().forget();

        let doors = work.doors.union(DoorSet::of(&[Door::Schedule, Door::Turn]));
        let calls = ledger::check(&world.parts.ledger.take(), doors);
        let calls = calls.unwrap_or_else(|what| panic!("{what}\n{beginner:?}"));
        ledger::check_probes(&calls, doors, |_| true);
        checked.extend(calls);
        checked.extend(work.calls);
    }

    scheduler.close().await;
    compare_with_rows(&checked, &world.audit_rows().await);
}
