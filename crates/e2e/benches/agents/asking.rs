//! A task for another agent over RabbitMQ, beside a bare round trip over the same bus.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::ensure;
use e2e::bench::{Goal, Latencies, Report, Rounds, Row};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde_json::json;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use toolbus_a2a::{
    A2aConfig, A2aDeps, Caller, Directory, DoTask, KeepResult, OnTask, ResultText, Task, TaskEnd,
    TaskEvent, TaskProgress, Tasks, TasksDeps, Told, Worker, WorkerDeps,
};
use toolbus_bus::Bus;
use toolbus_rabbitmq::{Config, RabbitBus, Start};
use toolbus_store::{LazyStore, Location};
use toolbus_tools::{Call, Invoker, Principal, Registry};
use toolbus_wire::message::a2a::AgentCard;
use toolbus_wire::name::{AgentName, InstanceId};

use crate::round_trip::RoundTrip;
use crate::signal::{Moments, Signal, signal};
use crate::{MILLISECOND, turn_scope};

const ROUNDS: usize = 9;
/// Tasks of a round, and round trips, one after the other.
const CALLS: usize = 40;
const GOAL_EXCESS_MS: f64 = 1.0;
/// Between two tasks, for what is written after the end was told.
const PAUSE_INTERVAL: Duration = Duration::from_millis(15);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
const CLOSE_GRACE: Duration = Duration::from_secs(5);

const ASKER: &str = "asker";
const WORKER: &str = "worker";

/// Work that takes no time.
struct Work {
    began: Signal,
}

impl DoTask for Work {
    fn run<'a>(
        &'a self,
        _task: Task,
        _progress: &'a dyn TaskProgress,
        _stop: CancellationToken,
    ) -> BoxFuture<'a, TaskEnd> {
        self.began.note();
        let end = TaskEnd::Completed { text: "It is 42.".to_owned(), artifacts: Vec::new() };
        std::future::ready(end).boxed()
    }
}

/// The session that is told.
struct Listener {
    told: Signal,
}

impl OnTask for Listener {
    fn tell<'a>(&'a self, event: &'a TaskEvent) -> BoxFuture<'a, Told> {
        if event.what.is_end() {
            self.told.note();
        }
        std::future::ready(Told::Taken).boxed()
    }
}

/// Keeps no results: what working memory takes is not measured here.
struct NoKeeper;

impl KeepResult for NoKeeper {
    fn keep<'a>(&'a self, _result: ResultText<'a>) -> BoxFuture<'a, Option<String>> {
        std::future::ready(None).boxed()
    }
}

/// Two agents, each with a connection and a store of its own.
struct Bench {
    invoker: Invoker,
    caller: Caller,
    worker: Worker,
    buses: [Arc<dyn Bus>; 2],
    stores: [LazyStore; 2],
    began: Moments,
    told: Moments,
    _folder: TempDir,
}

/// How long the parts of one task took, from the call on.
struct Times {
    dispatched: Duration,
    began: Duration,
    told: Duration,
}

/// What is measured, each round by round.
#[derive(Default)]
struct Measured {
    dispatched: Rounds,
    began: Rounds,
    told: Rounds,
    round_trips: Rounds,
}

pub(crate) async fn measure(report: &mut Report) -> anyhow::Result<()> {
    let mut measured = Measured::default();
    if let Some(vhost) = toolbus_testkit::rabbit::vhost().await {
        let mut bench = Bench::start(&vhost.amqp_url()).await?;
        let [asking, working] = &bench.buses;
        let mut round_trip = RoundTrip::start(asking, working).await?;
        // The first round is for caches, allocators and the files of the stores to fill.
        for round in 0..=ROUNDS {
            bench.round(&mut measured).await?;
            round_trip.round(CALLS, &mut measured.round_trips).await?;
            if round == 0 {
                measured = Measured::default();
            }
        }
        round_trip.close(CLOSE_GRACE).await;
        bench.close().await;
    }

    let Measured { dispatched, began, told, round_trips } = measured;
    let row =
        |what: &str, rounds| Row::new(format!("task for another agent, {what}"), "ms", rounds);
    report.add(row("until it is sent", dispatched));
    report.add(row("until its work has begun", began));
    let whole = row("until its result is told", told).beside(round_trips);
    report.add(whole.with_goal(Goal::ExcessAtMost(GOAL_EXCESS_MS)));
    report.note(format!(
        "Tasks over RabbitMQ: `invoke_agent`, from the gates of the caller until the result is told \
         to its session. Each agent has a connection and a file of SQLite; the work takes no time, \
         and the result is not put into working memory. The peer is a message and its reply between \
         the same connections: two durable queues, persistent messages, confirms on both sides, \
         each acknowledged once what follows from it is confirmed. {ROUNDS} rounds, in turns, of \
         {CALLS} one by one.",
    ));

    Ok(())
}

async fn connect(url: &str) -> anyhow::Result<Arc<dyn Bus>> {
    let mut config = Config::new(url)?;
    config.start = Start::Within(CONNECT_TIMEOUT);
    Ok(RabbitBus::connect(config).await?)
}

fn store(folder: &Path, agent: &AgentName) -> LazyStore {
    let location = Location::Sqlite(folder.join(format!("{agent}.db")));
    LazyStore::new(location, &[toolbus_a2a::MIGRATIONS])
}

impl Bench {
    async fn start(url: &str) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let names = [AgentName::parse(ASKER)?, AgentName::parse(WORKER)?];
        let stores = [store(folder.path(), &names[0]), store(folder.path(), &names[1])];
        let buses = [connect(url).await?, connect(url).await?];
        let [asker_name, worker_name] = names;
        let (begin, began) = signal();
        let (tell, told) = signal();

        let worker = Worker::start(WorkerDeps {
            bus: Arc::clone(&buses[1]),
            store: stores[1].clone(),
            config: Arc::new(A2aConfig::new(&worker_name)),
            agent: worker_name,
            instance: InstanceId::random(),
            work: Arc::new(Work { began: begin }),
        })
        .await?;

        let known = AgentCard { agent_name: WORKER.to_owned(), ..AgentCard::default() };
        let config = A2aConfig { well_known: vec![known], ..A2aConfig::new(&asker_name) };
        let config = Arc::new(config);
        let tasks = Tasks::new(TasksDeps {
            bus: Arc::clone(&buses[0]),
            store: stores[0].clone(),
            directory: Directory::new(stores[0].clone(), asker_name.clone(), Arc::clone(&config)),
            agent: asker_name,
            instance: InstanceId::random(),
            config,
            on_task: Arc::new(Listener { told: tell }),
            keep: Arc::new(NoKeeper),
        });
        let caller = Caller::start(&tasks).await?;
        let registry = Registry::new();
        toolbus_a2a::register(&registry, A2aDeps { tasks })?;
        let invoker = Invoker::new(Arc::new(registry));
        Ok(Self { invoker, caller, worker, buses, stores, began, told, _folder: folder })
    }

    async fn round(&mut self, measured: &mut Measured) -> anyhow::Result<()> {
        let [mut dispatched, mut began, mut told] = std::array::from_fn(|_| Latencies::default());
        for _ in 0..CALLS {
            let times = self.ask().await?;
            dispatched.add(times.dispatched);
            began.add(times.began);
            told.add(times.told);
            tokio::time::sleep(PAUSE_INTERVAL).await;
        }
        measured.dispatched.add_latencies(dispatched, MILLISECOND);
        measured.began.add_latencies(began, MILLISECOND);
        measured.told.add_latencies(told, MILLISECOND);
        Ok(())
    }

    async fn ask(&mut self) -> anyhow::Result<Times> {
        let scope = turn_scope(AgentName::parse(ASKER)?, Principal::local(), "session/a")?;
        let arguments = json!({"agent_name": WORKER, "skill": "sums", "message": "What is 6 * 7?"});
        let call = Call::by_name(&scope, "invoke_agent", arguments)?;

        let called = Instant::now();
        let output = self.invoker.invoke(call).await?;
        let dispatched = called.elapsed();
        ensure!(!output.is_error, "nothing was sent: {output:?}");
        let began = self.began.next().await? - called;
        let told = self.told.next().await? - called;
        Ok(Times { dispatched, began, told })
    }

    async fn close(self) {
        self.worker.close(CLOSE_GRACE).await;
        self.caller.close().await;
        for bus in self.buses {
            bus.close(CLOSE_GRACE).await;
        }
        for store in self.stores {
            store.close().await;
        }
    }
}
