//! A hundred thousand schedules of one agent: how soon the next is found, how late one fires, and
//! what the scheduler takes to start and to hold them.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, ensure};
use e2e::bench::{Goal, Latencies, Report, Rounds, Row, process};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use toolbus_schedule::{
    Fire, NewTask, RunEnd, RunTask, ScheduleConfig, ScheduleOwner, Scheduled, Scheduler,
    SchedulerDeps, Schedules, ZoneUnreadable, Zones,
};
use toolbus_store::{LazyStore, Location, sqlx};
use toolbus_tools::{Door, Lineage, Principal, Scope};
use toolbus_wire::name::AgentName;

use crate::MILLISECOND;
use crate::signal::{Moments, Signal, signal};

const PRINCIPALS: usize = 1_000;
/// Of each of them: as many as one may have by default.
const TASKS_OF_EACH: u64 = 100;
const TASKS: u64 = PRINCIPALS as u64 * TASKS_OF_EACH;
const ROUNDS: usize = 9;
/// Look-ups of a round.
const LOOKS: usize = 100;
/// Starts, and tasks that fire while a scheduler runs: each takes a second or two.
const STARTS: usize = 7;
const FIRES: usize = 12;
/// How long a scheduler has after its start before something is asked of it.
const SETTLE_GRACE: Duration = Duration::from_secs(3);

const GOAL_FOUND_MS: f64 = 1.0;
const GOAL_START_MS: f64 = 1_000.0;
const GOAL_MEMORY_MIB: f64 = 100.0;

const DAY_SECONDS: u64 = 24 * 60 * 60;

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

/// Notes that something runs.
struct Run {
    began: Signal,
}

impl RunTask for Run {
    fn is_busy<'a>(&'a self, _fire: &'a Fire) -> BoxFuture<'a, bool> {
        std::future::ready(false).boxed()
    }

    fn run(&self, _fire: Fire, _stop: CancellationToken) -> BoxFuture<'_, RunEnd> {
        self.began.note();
        std::future::ready(RunEnd::Done).boxed()
    }
}

/// The state of an agent with all its tasks, none of which is due for two days.
struct Bench {
    location: Location,
    store: LazyStore,
    schedules: Schedules,
    run: Arc<Run>,
    began: Moments,
    _folder: TempDir,
}

pub(crate) async fn measure(report: &mut Report) -> anyhow::Result<()> {
    let mut bench = Bench::fill().await?;
    let found = bench.find_next().await?;
    let memory = bench.measure_memory().await?;
    let starts = bench.time_starts().await?;
    let late = bench.time_fires().await?;
    bench.store.close().await;

    let row = Row::new("next fire found", "ms", found);
    report.add(row.with_goal(Goal::AtMost(GOAL_FOUND_MS)));
    report.add(Row::new("from its time until it runs", "ms", late));
    let row = Row::new("start of the scheduler, until the first runs", "ms", starts);
    report.add(row.with_goal(Goal::AtMost(GOAL_START_MS)));
    let row = Row::new("memory at most, from before the start on", "MiB", memory);
    report.add(row.with_goal(Goal::AtMost(GOAL_MEMORY_MIB)));
    report.note(format!(
        "Schedules: {TASKS} tasks of one agent, of {PRINCIPALS} principals, on SQLite; the limits \
         on tasks are raised for that. The next fire is found by one query of {ROUNDS} rounds of \
         {LOOKS}. A start opens the store; a task is due by then, and it is waited until that runs, \
         {STARTS} times. {FIRES} tasks fire while a scheduler runs. Memory is what is resident at \
         most in the first {} s of a scheduler, above what is resident before.",
        SETTLE_GRACE.as_secs(),
    ));

    Ok(())
}

fn schedules_at(location: &Location) -> (LazyStore, Schedules) {
    let store = LazyStore::new(location.clone(), &[toolbus_schedule::MIGRATIONS]);
    // Room for those that are added to fire at once.
    let agent_tasks_max = 2 * TASKS;
    let config = ScheduleConfig { agent_tasks_max, ..ScheduleConfig::default() };
    let schedules = Schedules::new(store.clone(), config, Arc::new(NoZones));
    (store, schedules)
}

fn owner(principal: &str) -> ScheduleOwner {
    let principal = Principal::claimed(principal);
    ScheduleOwner { agent: AgentName::standard(), principal }
}

fn lineage() -> Lineage {
    Lineage::of(&Scope::new(Door::Turn, Principal::claimed("bench"), AgentName::standard()))
}

/// An expression of a time on another day than this, yesterday and tomorrow.
fn weekly(at: usize) -> anyhow::Result<String> {
    let today = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs() / DAY_SECONDS;
    // The first day was a Thursday.
    let day = (today + 4 + 2 + at as u64 % 4) % 7;
    Ok(format!("{} {} * * {day}", at % 60, at / 60 % 24))
}

impl Bench {
    async fn fill() -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let location = Location::Sqlite(folder.path().join("state.db"));
        let (store, schedules) = schedules_at(&location);
        for at in 0..PRINCIPALS {
            let task = NewTask {
                name: "weekly".to_owned(),
                cron: weekly(at)?.parse()?,
                description: format!("Look after number {at}, and tell what is new of it."),
                run_once: false,
                missed: None,
                lineage: lineage(),
            };
            schedules.put(&owner(&format!("user-{at}")), task).await?;
        }
        multiply(&store).await?;

        let (begin, began) = signal();
        let run = Arc::new(Run { began: begin });
        Ok(Self { location, store, schedules, run, began, _folder: folder })
    }

    fn scheduler(&self, schedules: Schedules) -> Scheduler {
        Scheduler::start(SchedulerDeps {
            schedules,
            agent: AgentName::standard(),
            holder: "bench".to_owned(),
            run: Arc::clone(&self.run) as Arc<dyn RunTask>,
        })
    }

    /// Puts a task that fires at the next second and never again, and says when that is.
    async fn put_soon(&self) -> anyhow::Result<SystemTime> {
        let task = NewTask {
            name: "soon".to_owned(),
            cron: "* * * * * *".parse()?,
            description: "Be quick.".to_owned(),
            run_once: true,
            missed: None,
            lineage: lineage(),
        };
        match self.schedules.put(&owner("soon"), task).await? {
            Scheduled::Armed { next_ms } => {
                Ok(UNIX_EPOCH + Duration::from_millis(u64::try_from(next_ms)?))
            }
            Scheduled::Never => anyhow::bail!("it never fires"),
        }
    }

    async fn find_next(&self) -> anyhow::Result<Rounds> {
        let agent = AgentName::standard();
        let now_ms = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis();
        let now_ms = i64::try_from(now_ms)?;
        let mut rounds = Rounds::new();
        for _ in 0..ROUNDS {
            let mut latencies = Latencies::with_capacity(LOOKS);
            for _ in 0..LOOKS {
                let began = Instant::now();
                let next_ms = self.schedules.next_fire(&agent, now_ms).await?;
                latencies.add(began.elapsed());
                ensure!(next_ms.is_some(), "none fires");
            }
            rounds.add_latencies(latencies, MILLISECOND);
        }
        Ok(rounds)
    }

    async fn measure_memory(&self) -> anyhow::Result<Rounds> {
        let (store, schedules) = schedules_at(&self.location);
        let process = std::process::id();
        let before = process::resident_mib(process)?;
        process::forget_peak(process)?;
        let scheduler = self.scheduler(schedules);
        tokio::time::sleep(SETTLE_GRACE).await;
        let peak = process::peak_mib(process)?;
        scheduler.close().await;
        store.close().await;
        let mut rounds = Rounds::new();
        rounds.add((peak - before).max(0.0));
        Ok(rounds)
    }

    async fn time_starts(&mut self) -> anyhow::Result<Rounds> {
        let mut rounds = Rounds::new();
        for _ in 0..STARTS {
            let due = self.put_soon().await?;
            tokio::time::sleep(due.duration_since(SystemTime::now()).unwrap_or_default()).await;

            let started = Instant::now();
            let (store, schedules) = schedules_at(&self.location);
            let scheduler = self.scheduler(schedules);
            let began = self.began.next().await?;
            rounds.add((began - started).as_secs_f64() * 1e3);
            scheduler.close().await;
            store.close().await;
        }
        Ok(rounds)
    }

    /// How late tasks fire while a scheduler runs.
    async fn time_fires(&mut self) -> anyhow::Result<Rounds> {
        let scheduler = self.scheduler(self.schedules.clone());
        tokio::time::sleep(SETTLE_GRACE).await;
        let mut rounds = Rounds::new();
        for _ in 0..FIRES {
            let due = self.put_soon().await?;
            let began = self.began.next().await?;
            let began = SystemTime::now() - began.elapsed();
            let late = began.duration_since(due).context("it was too early")?;
            rounds.add(late.as_secs_f64() * 1e3);
        }
        scheduler.close().await;
        Ok(rounds)
    }
}

/// Gives every principal as many tasks as the one that it has.
async fn multiply(store: &LazyStore) -> anyhow::Result<()> {
    const COPY: &str = "
        WITH RECURSIVE copies (n) AS (SELECT 2 UNION ALL SELECT n + 1 FROM copies WHERE n < $1)
        INSERT INTO schedule_tasks
            (agent, owner, id, generation, name, principal, cron, zone, run_once, missed,
             missed_max, created_ms, next_ms, description)
        SELECT agent, owner, id || '-' || n, generation || '-' || n, name || '-' || n, principal,
               cron, zone, run_once, missed, missed_max, created_ms, next_ms, description
        FROM schedule_tasks, copies";

    let copied = store.open().await?.write(|transaction| {
        async move {
            let copy = sqlx::query(COPY).bind(i64::try_from(TASKS_OF_EACH).unwrap_or(i64::MAX));
            Ok(copy.execute(transaction.connection()).await?.rows_affected())
        }
        .boxed()
    });
    let copied = copied.await?;
    ensure!(copied + PRINCIPALS as u64 == TASKS, "only {copied} tasks were copied");
    Ok(())
}
