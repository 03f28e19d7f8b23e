//! Schedules of a test, somebody who runs them, and an invoker with their tools.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use toolbus_schedule::{
    Fire, NewTask, Occurrence, OccurrenceState, RunEnd, RunTask, ScheduleConfig, ScheduleDeps,
    ScheduleOwner, Scheduled, Scheduler, SchedulerDeps, Schedules, ZoneUnreadable, Zones,
};
use toolbus_store::{LazyStore, Location, sqlx};
use toolbus_testkit::eventually;
use toolbus_testkit::state::StatePlace;
use toolbus_tools::call::{Call, Outcome};
use toolbus_tools::{Door, Invoker, Lineage, Principal, Registry, Scope};
use toolbus_wire::name::AgentName;

/// How long something may take that has to come.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// The zone that everybody lives in, where one is set.
#[derive(Default)]
pub(crate) struct OneZone {
    pub(crate) name: Mutex<Option<String>>,
    pub(crate) is_unreadable: AtomicBool,
}

impl Zones for OneZone {
    fn zone<'a>(
        &'a self,
        _owner: &'a ScheduleOwner,
    ) -> BoxFuture<'a, Result<Option<String>, ZoneUnreadable>> {
        let zone = match self.is_unreadable.load(Ordering::Relaxed) {
            true => Err(ZoneUnreadable("as it is told".to_owned())),
            false => Ok(self.name.lock().clone()),
        };
        std::future::ready(zone).boxed()
    }
}

/// What becomes of a run.
type Behave = Box<dyn Fn(Fire, CancellationToken) -> BoxFuture<'static, RunEnd> + Send + Sync>;

/// Runs what it is told, and writes it down.
pub(crate) struct Runner {
    pub(crate) ran: Mutex<Vec<Fire>>,
    pub(crate) is_busy: AtomicBool,
    behave: Behave,
}

impl Runner {
    pub(crate) fn new(
        behave: impl Fn(Fire, CancellationToken) -> BoxFuture<'static, RunEnd> + Send + Sync + 'static,
    ) -> Arc<Self> {
        let (ran, is_busy) = (Mutex::default(), AtomicBool::new(false));
        Arc::new(Self { ran, is_busy, behave: Box::new(behave) })
    }

    /// One that has done everything at once.
    pub(crate) fn quick() -> Arc<Self> {
        Self::new(|_, _| std::future::ready(RunEnd::Done).boxed())
    }

    /// One whose runs end when they are stopped.
    pub(crate) fn endless() -> Arc<Self> {
        Self::new(|_, stop| {
            async move {
                stop.cancelled().await;
                RunEnd::Failed("stopped".to_owned())
            }
            .boxed()
        })
    }

    pub(crate) fn count(&self) -> usize {
        self.ran.lock().len()
    }

    pub(crate) async fn eventually_ran(&self, count: usize) {
        eventually(PATIENCE, async || match self.count() {
            ran if ran >= count => Ok(()),
            ran => Err(ran),
        })
        .await;
    }
}

impl RunTask for Runner {
    fn is_busy<'a>(&'a self, _fire: &'a Fire) -> BoxFuture<'a, bool> {
        std::future::ready(self.is_busy.load(Ordering::Relaxed)).boxed()
    }

    fn run(&self, fire: Fire, stop: CancellationToken) -> BoxFuture<'_, RunEnd> {
        self.ran.lock().push(fire.clone());
        (self.behave)(fire, stop)
    }
}

/// Schedules at a store, for as long as this lives.
pub(crate) struct Bench {
    pub(crate) store: LazyStore,
    pub(crate) schedules: Schedules,
    pub(crate) zone: Arc<OneZone>,
    pub(crate) invoker: Invoker,
    pub(crate) place: Arc<StatePlace>,
    config: ScheduleConfig,
}

/// Quick enough for a test.
pub(crate) fn quick_config() -> ScheduleConfig {
    ScheduleConfig {
        lease_ttl: Duration::from_secs(1),
        retry_interval: Duration::from_millis(100),
        stop_grace: Duration::from_secs(2),
        ..ScheduleConfig::default()
    }
}

impl Bench {
    /// One on each kind of database that there is here.
    pub(crate) async fn all() -> Vec<Self> {
        Self::all_with(&quick_config()).await
    }

    pub(crate) async fn all_with(config: &ScheduleConfig) -> Vec<Self> {
        let places = StatePlace::all().await.into_iter().map(Arc::new);
        places.map(|place| Self::at(place, config.clone())).collect()
    }

    pub(crate) fn at(place: Arc<StatePlace>, config: ScheduleConfig) -> Self {
        let location: Location = place.location.parse().expect("a location");
        let store = LazyStore::new(location, &[toolbus_schedule::MIGRATIONS]);
        let zone = Arc::new(OneZone::default());
        let zones = Arc::clone(&zone) as Arc<dyn Zones>;
        let schedules = Schedules::new(store.clone(), config.clone(), zones);
        let registry = Registry::new();
        let deps = ScheduleDeps { schedules: schedules.clone() };
        toolbus_schedule::register(&registry, deps).expect("the names are free");
        let invoker = Invoker::new(Arc::new(registry));
        Self { store, schedules, zone, invoker, place, config }
    }

    /// The same schedules in another process.
    pub(crate) fn again(&self) -> Self {
        Self::at(Arc::clone(&self.place), self.config.clone())
    }

    pub(crate) fn start(&self, run: &Arc<Runner>) -> Scheduler {
        Scheduler::start(SchedulerDeps {
            schedules: self.schedules.clone(),
            agent: AgentName::standard(),
            holder: "bench".to_owned(),
            run: Arc::clone(run) as Arc<dyn RunTask>,
        })
    }

    pub(crate) async fn put(&self, task: NewTask) -> Scheduled {
        self.schedules.put(&owner("model"), task).await.expect("it is scheduled")
    }

    /// What a tool says.
    pub(crate) async fn say(&self, tool: &str, arguments: Value) -> String {
        let output = call(&self.invoker, "model", tool, arguments).await;
        output.expect("it is answered").content.expect("a text")
    }

    pub(crate) async fn refusal(&self, tool: &str, arguments: Value) -> String {
        let outcome = call(&self.invoker, "model", tool, arguments).await;
        outcome.expect_err("it is refused").message
    }

    pub(crate) async fn history(&self) -> Vec<Occurrence> {
        self.schedules.history(&owner("model"), None, 1_000).await.expect("a history")
    }

    /// Waits for an occurrence in this state.
    pub(crate) async fn eventually_in(&self, state: OccurrenceState) -> Occurrence {
        eventually(PATIENCE, async || {
            let history = self.history().await;
            let found = history.iter().find(|occurrence| occurrence.state == state);
            found.cloned().ok_or(history)
        })
        .await
    }

    /// Does a statement, as no part of ours would.
    pub(crate) async fn sabotage(&self, statement: &'static str) {
        let store = self.store.open().await.expect("a store");
        let written = store.write(move |transaction| {
            Box::pin(async move {
                sqlx::query(statement).execute(transaction.connection()).await?;
                Ok(())
            })
        });
        written.await.expect("it is done");
    }
}

/// A task, by its name and expression.
pub(crate) fn task(name: &str, cron: &str) -> NewTask {
    NewTask {
        name: name.to_owned(),
        cron: cron.parse().expect("an expression"),
        description: format!("do {name}"),
        run_once: false,
        missed: None,
        lineage: Lineage::of(&scope("model")).for_new_runs(),
    }
}

/// One that fires in a second or two, once.
pub(crate) fn soon(name: &str) -> NewTask {
    NewTask { run_once: true, ..task(name, "* * * * * *") }
}

pub(crate) fn owner(principal: &str) -> ScheduleOwner {
    ScheduleOwner::of(&scope(principal))
}

fn scope(principal: &str) -> Arc<Scope> {
    let principal = Principal::claimed(principal);
    Arc::new(Scope::new(Door::Turn, principal, AgentName::standard()))
}

pub(crate) async fn call(
    invoker: &Invoker,
    principal: &str,
    tool: &str,
    arguments: Value,
) -> Outcome {
    let call = Call::by_name(&scope(principal), tool, arguments).expect("a name");
    invoker.invoke(call).await
}

/// The text with `TIME` in place of every time in it.
pub(crate) fn mask_times(text: &str) -> String {
    let mut masked = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("20") {
        let end = at + "2026-11-27 09:00:00".len();
        let is_time = rest
            .get(at..end)
            .is_some_and(|time| time.replace(' ', "T").parse::<jiff::civil::DateTime>().is_ok());
        let (kept, next) = if is_time { (at, end) } else { (at + 2, at + 2) };
        masked.push_str(&rest[..kept]);
        masked.push_str(if is_time { "TIME" } else { "" });
        rest = &rest[next..];
    }
    masked + rest
}

pub(crate) fn now_ms() -> i64 {
    Timestamp::now().as_millisecond()
}
