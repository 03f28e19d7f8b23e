//! Calls in turns of another agent that does a task for this one, and in the turns that start with
//! the notices of the ends.

use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use toolbus_a2a::{
    A2aConfig, A2aDeps, Caller, Directory, DoTask, KeepResult, OnTask, ResultText, Task, TaskEnd,
    TaskEvent, TaskProgress, Tasks, TasksDeps, Told, Worker, WorkerDeps,
};
use toolbus_agent::{Notice, Noticed, Occasion, Said};
use toolbus_models::OutsideText;
use toolbus_tools::id::SessionId;
use toolbus_tools::scope::DoorSet;
use toolbus_tools::{Door, Principal, Scope};
use toolbus_wire::message::a2a::AgentCard;
use toolbus_wire::name::{AgentName, InstanceId};

use super::begin::{BEGINNERS, draw_calls};
use super::calls::ToolCall;
use super::chains::{add_chains, open_runner};
use super::draws::Draws;
use super::ledger::{self, Happened, Ledger};
use super::rows::compare_with_rows;
use super::turns::{Turns, turn_of};
use super::world::{LIMIT, Parts, World};

/// Name of the other agent.
pub(crate) const PEER: &str = "Helper";
/// Number of generated calls of a turn.
const CALLS: usize = 14;

/// Returns the arguments of `invoke_agent` for a task of the other agent.
pub(crate) fn task_for_peer() -> Value {
    json!({"agent_name": PEER, "skill": "work", "message": "work"})
}

/// Does not keep results.
struct NoMemory;

impl KeepResult for NoMemory {
    fn keep<'a>(&'a self, _result: ResultText<'a>) -> BoxFuture<'a, Option<String>> {
        std::future::ready(None).boxed()
    }
}

fn peer() -> AgentName {
    AgentName::parse(PEER).unwrap()
}

/// Returns the tasks of the agent of a world, which knows the other agent.
pub(crate) fn open_tasks(parts: &Parts, on_task: Arc<dyn OnTask>) -> Tasks {
    let agent = AgentName::standard();
    let card = AgentCard { agent_name: PEER.to_owned(), ..AgentCard::default() };
    let config = Arc::new(A2aConfig { well_known: vec![card], ..A2aConfig::new(&agent) });
    let directory = Directory::new(parts.store.clone(), agent.clone(), Arc::clone(&config));
    Tasks::new(TasksDeps {
        bus: Arc::new(parts.bus.connect()),
        store: parts.store.clone(),
        agent,
        instance: InstanceId::random(),
        config,
        directory,
        on_task,
        keep: Arc::new(NoMemory),
    })
}

/// Both ends of the tasks: the runner of tasks and the listener for their ends.
pub(crate) struct TaskEnds {
    caller: Caller,
    worker: Worker,
}

impl TaskEnds {
    /// Makes the other agent do the tasks.
    pub(crate) async fn connect(parts: &Parts, tasks: &Tasks, work: Arc<dyn DoTask>) -> Self {
        let caller = Caller::start(tasks).await.unwrap();
        let worker = WorkerDeps {
            bus: Arc::new(parts.bus.connect()),
            store: parts.store.clone(),
            agent: peer(),
            instance: InstanceId::random(),
            config: Arc::new(A2aConfig::new(&peer())),
            work,
        };
        Self { caller, worker: Worker::start(worker).await.unwrap() }
    }

    pub(crate) async fn close(self) {
        self.worker.close(LIMIT).await;
        self.caller.close().await;
    }
}

/// Runs tasks as turns and delivers their ends, as a host does.
struct Host {
    turns: Turns,
    ledger: Ledger,
    plan: Mutex<Plan>,
    /// Lets a task start after the test has checked its message.
    begin: Semaphore,
    /// Gains one permit for each delivered end.
    told: Semaphore,
}

/// The calls that the turns make, and the calls that have run.
#[derive(Default)]
struct Plan {
    of_task: Vec<ToolCall>,
    of_notice: Vec<ToolCall>,
    in_task: Vec<Happened>,
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

    async fn do_task(&self, task: Task, stop: CancellationToken) -> TaskEnd {
        self.begin.acquire().await.unwrap().forget();
        let id = task.request.task_id;
        let caller = Principal::claimed(&format!("{}/a2a", task.caller));
        let session = SessionId::parse(format!("a2a/{id}")).unwrap();
        let scope = self.turns.agent().turn_scope(&[Door::Bus], &peer(), caller, session);
        let scope = scope.with_earlier_doors(task.lineage.doors);
        let scope = Scope { cancelled: stop, depth: task.lineage.depth + 1, ..scope };
        let calls = self.plan.lock().of_task.clone();
        self.turns.plan(&scope, &calls).await;

        let text = OutsideText::new("the agent", "work");
        let said = Said::from_outside(Occasion::AgentTask, text, id);
        let report = self.turns.agent().say(turn_of(scope), said).await.unwrap();
        self.turns.check_end(&report);
        self.plan.lock().in_task = self.ledger.take();
        TaskEnd::Completed { text: "done".to_owned(), artifacts: Vec::new() }
    }

    /// Starts a turn for the notice of an end. The session has no turn in flight.
    async fn tell_end(&self, event: &TaskEvent) {
        let agent = self.turns.agent();
        let lineage = event.lineage.as_ref().unwrap();
        let scope = agent.restore_scope(lineage, event.owner.clone()).await.unwrap();
        let scope = Scope { door: Door::Turn, ..scope.through(DoorSet::of(&[Door::Turn])) };
        let calls = self.plan.lock().of_notice.clone();
        self.turns.plan(&scope, &calls).await;

        let notice = Notice::new(event.task_id.clone(), "agent", "it is done");
        let Noticed::Turn(report) = agent.notify(turn_of(scope), notice).await.unwrap() else {
            panic!("a turn was under way");
        };
        self.turns.check_end(&report);
        self.plan.lock().in_notice = self.ledger.take();
        self.told.add_permits(1);
    }
}

impl DoTask for Host {
    fn run<'a>(
        &'a self,
        task: Task,
        _progress: &'a dyn TaskProgress,
        stop: CancellationToken,
    ) -> BoxFuture<'a, TaskEnd> {
        self.do_task(task, stop).boxed()
    }
}

impl OnTask for Host {
    fn tell<'a>(&'a self, event: &'a TaskEvent) -> BoxFuture<'a, Told> {
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
async fn calls_of_tasks_for_another_agent_run_as_they_were_judged() {
    let mut draws = Draws::new();
    let runner = open_runner().await;
    let mut opened = None;
    let world = World::open_with(|builder, parts| {
        let host = Host::new(parts);
        let tasks = open_tasks(parts, Arc::clone(&host) as Arc<dyn OnTask>);
        opened = Some((host, tasks.clone()));
        add_chains(builder, parts, runner)
            .remote_tools(move |registry, _| toolbus_a2a::register(registry, A2aDeps { tasks }))
    });
    let world = world.await;
    let (host, tasks) = opened.unwrap();
    host.turns.begin(&world);
    let work = Arc::clone(&host) as Arc<dyn DoTask>;
    let ends = TaskEnds::connect(&world.parts, &tasks, work).await;

    let mut checked = Vec::new();
    for beginner in BEGINNERS {
        let (of_task, of_notice) = (draw_calls(&mut draws, CALLS), draw_calls(&mut draws, CALLS));
        *host.plan.lock() = Plan { of_task, of_notice, ..Plan::default() };
        let sent = beginner.begin(&world, "invoke_agent", task_for_peer()).await;
        host.begin.add_permits(1);
        timeout(LIMIT, host.told.acquire()).await.expect("its end is told").unwrap().forget();

        let plan = std::mem::take(&mut *host.plan.lock());
        let of_task: &[Door] = &[Door::Bus, Door::Turn];
        let of_notice: &[Door] = &[Door::Turn];
        for (happened, doors) in [(plan.in_task, of_task), (plan.in_notice, of_notice)] {
            let doors = sent.doors.union(DoorSet::of(doors));
            let calls = ledger::check(&happened, doors);
            let calls = calls.unwrap_or_else(|what| panic!("{what}\n{beginner:?}"));
            ledger::check_probes(&calls, doors, |_| true);
            checked.extend(calls);
        }
        checked.extend(sent.calls);
    }

    ends.close().await;
    compare_with_rows(&checked, &world.audit_rows().await);
}
