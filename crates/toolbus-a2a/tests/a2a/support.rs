//! Agents of a test: what they are told, what they keep, and what they do.

use std::num::NonZeroU16;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use toolbus_a2a::{
    A2aConfig, Caller, Directory, DoTask, KeepResult, NewTask, OnTask, Presence, PresenceDeps,
    ResultText, Task, TaskChange, TaskEnd, TaskEvent, TaskIntake, TaskProgress, Tasks, TasksDeps,
    Told, Worker, WorkerDeps,
};
use toolbus_bus::{
    Bus, Consumer, Delivery, Disposition, Envelope, Flow, MemoryBus, Subscription, TopicPattern,
};
use toolbus_policy::SessionOwner;
use toolbus_rabbitmq::{Config, RabbitBus};
use toolbus_store::{LazyStore, Location, sqlx};
use toolbus_testkit::rabbit::Vhost;
use toolbus_testkit::state::StatePlace;
use toolbus_testkit::{eventually, quiet_for};
use toolbus_tools::id::SessionId;
use toolbus_tools::{Door, Principal, Scope};
use toolbus_wire::message::a2a::{AgentCard, AgentSkill};
use toolbus_wire::name::{AgentName, InstanceId};
use toolbus_wire::{Message, Topic, message};

/// How long something may take that has to come.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
/// Long enough for what must not come: some of every interval of [`quick_config`].
pub(crate) const A_WHILE: Duration = Duration::from_millis(200);

/// A broker.
pub(crate) enum Broker {
    Memory(MemoryBus),
    Rabbit(Box<Vhost>),
}

impl Broker {
    pub(crate) fn memory() -> Arc<Self> {
        Arc::new(Self::Memory(MemoryBus::new()))
    }

    pub(crate) async fn rabbit() -> Option<Arc<Self>> {
        Some(Arc::new(Self::Rabbit(Box::new(toolbus_testkit::rabbit::vhost().await?))))
    }

    pub(crate) async fn connect(&self) -> Arc<dyn Bus> {
        match self {
            Self::Memory(bus) => Arc::new(bus.connect()),
            Self::Rabbit(vhost) => {
                let config = Config::new(&vhost.amqp_url()).expect("a url");
                RabbitBus::connect(config).await.expect("a connection")
            }
        }
    }

    pub(crate) fn dead_letters(&self, subscription: &str) -> usize {
        match self {
            Self::Memory(bus) => bus.dead_letters(subscription).len(),
            Self::Rabbit(_) => panic!("not asked for"),
        }
    }
}

/// Is told events, and writes them down.
#[derive(Default)]
pub(crate) struct Listener {
    pub(crate) events: Mutex<Vec<TaskEvent>>,
    /// How often it cannot take the end of a task.
    pub(crate) laters: AtomicUsize,
}

impl Listener {
    pub(crate) fn ends(&self) -> Vec<TaskEvent> {
        self.events.lock().iter().filter(|event| event.what.is_end()).cloned().collect()
    }
}

impl OnTask for Listener {
    fn tell<'a>(&'a self, event: &'a TaskEvent) -> BoxFuture<'a, Told> {
        let one_less = |left: usize| left.checked_sub(1).filter(|_| event.what.is_end());
        let later = self.laters.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less);
        let told = match later {
            Ok(_) => Told::Later,
            Err(_) => {
                self.events.lock().push(event.clone());
                Told::Taken
            }
        };
        std::future::ready(told).boxed()
    }
}

/// Keeps the texts of results.
#[derive(Default)]
pub(crate) struct Keeper {
    pub(crate) kept: Mutex<Vec<(String, String)>>,
}

impl KeepResult for Keeper {
    fn keep<'a>(&'a self, result: ResultText<'a>) -> BoxFuture<'a, Option<String>> {
        assert_eq!(result.ttl, Duration::from_secs(60 * 60));
        let key = format!("session/{}/{}", result.owner.session, result.key);
        self.kept.lock().push((key.clone(), result.text.to_owned()));
        std::future::ready(Some(key)).boxed()
    }
}

type Behave = Box<dyn Fn(Task, CancellationToken) -> BoxFuture<'static, TaskEnd> + Send + Sync>;

/// Does tasks as it is told to.
pub(crate) struct Work {
    pub(crate) ran: Mutex<Vec<Task>>,
    pub(crate) at_a_time: AtomicUsize,
    pub(crate) most_at_a_time: AtomicUsize,
    pub(crate) can_stop: AtomicBool,
    behave: Behave,
}

impl Work {
    pub(crate) fn new(
        behave: impl Fn(Task, CancellationToken) -> BoxFuture<'static, TaskEnd> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            ran: Mutex::default(),
            at_a_time: AtomicUsize::new(0),
            most_at_a_time: AtomicUsize::new(0),
            can_stop: AtomicBool::new(true),
            behave: Box::new(behave),
        })
    }

    /// Says back what it is asked.
    pub(crate) fn echo() -> Arc<Self> {
        Self::new(|task, _| {
            let said = task.request.message.parts[0].text.clone().unwrap_or_default();
            std::future::ready(done(&format!("{}: {said}", task.request.skill))).boxed()
        })
    }

    /// Is done with this text as soon as the test releases it.
    pub(crate) fn until_released(text: &'static str) -> (Arc<Self>, CancellationToken) {
        let release = CancellationToken::new();
        let released = release.clone();
        let work = move |_, _| released.clone().cancelled_owned().map(|()| done(text)).boxed();
        (Self::new(work), release)
    }

    /// Ends when it is stopped.
    pub(crate) fn endless() -> Arc<Self> {
        Self::new(|_, stop| {
            async move {
                stop.cancelled().await;
                TaskEnd::Canceled
            }
            .boxed()
        })
    }

    pub(crate) fn count(&self) -> usize {
        self.ran.lock().len()
    }
}

/// Counts what is under way.
struct UnderWay<'a>(&'a AtomicUsize);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl DoTask for Work {
    fn can_stop(&self) -> bool {
        self.can_stop.load(Ordering::Relaxed)
    }

    fn run<'a>(
        &'a self,
        task: Task,
        progress: &'a dyn TaskProgress,
        stop: CancellationToken,
    ) -> BoxFuture<'a, TaskEnd> {
        self.ran.lock().push(task.clone());
        let at_a_time = self.at_a_time.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_at_a_time.fetch_max(at_a_time, Ordering::SeqCst);
        async move {
            let _under_way = UnderWay(&self.at_a_time);
            progress.say("reading").await;
            (self.behave)(task, stop).await
        }
        .boxed()
    }
}

pub(crate) fn done(text: &str) -> TaskEnd {
    TaskEnd::Completed { text: text.to_owned(), artifacts: Vec::new() }
}

/// One process of an agent.
pub(crate) struct Host {
    pub(crate) name: AgentName,
    pub(crate) bus: Arc<dyn Bus>,
    pub(crate) store: LazyStore,
    pub(crate) directory: Directory,
    pub(crate) tasks: Tasks,
    pub(crate) listener: Arc<Listener>,
    pub(crate) keeper: Arc<Keeper>,
    caller: Option<Caller>,
    worker: Option<Worker>,
    presence: Option<Presence>,
}

/// What a host is made of.
#[derive(Clone)]
pub(crate) struct Setup {
    pub(crate) broker: Arc<Broker>,
    pub(crate) place: Arc<StatePlace>,
    pub(crate) name: &'static str,
    pub(crate) config: A2aConfig,
    pub(crate) work: Option<Arc<Work>>,
}

/// Quick enough for a test.
pub(crate) fn quick_config(name: &str) -> A2aConfig {
    let skill = AgentSkill {
        id: "research".to_owned(),
        name: "Research".to_owned(),
        description: Some("Finds things out".to_owned()),
        tags: Some(vec!["web".to_owned()]),
        examples: None,
    };
    let config = A2aConfig::new(&agent(name));
    let card = AgentCard {
        description: Some(format!("The agent {name}")),
        version: Some("1.0".to_owned()),
        skills: Some(vec![skill]),
        ..config.card.clone().expect("a card")
    };
    A2aConfig {
        card: Some(card),
        announce_pace: Duration::from_millis(200),
        settle_grace: Duration::from_millis(100),
        lease_ttl: Duration::from_secs(1),
        cancel_grace: Duration::from_millis(200),
        timeout_grace: Duration::from_millis(100),
        look_interval: Duration::from_millis(50),
        tell_interval: Duration::from_millis(50),
        tell_backoff: Duration::from_millis(20),
        tasks_max: NonZeroU16::new(2).expect("not zero"),
        ..config
    }
}

impl Setup {
    pub(crate) fn new(broker: &Arc<Broker>, place: &Arc<StatePlace>, name: &'static str) -> Self {
        let (broker, place) = (Arc::clone(broker), Arc::clone(place));
        Self { broker, place, name, config: quick_config(name), work: None }
    }

    pub(crate) fn working(self, work: &Arc<Work>) -> Self {
        Self { work: Some(Arc::clone(work)), ..self }
    }

    /// Keeps an answer to the process that asked for it no longer than a test waits.
    pub(crate) fn handing_over_soon(self) -> Self {
        let handover_grace = Duration::from_millis(200);
        Self { config: A2aConfig { handover_grace, ..self.config }, ..self }
    }

    fn store(&self) -> LazyStore {
        let location: Location = self.place.location.parse().expect("a location");
        LazyStore::new(location, &[toolbus_a2a::MIGRATIONS])
    }

    /// Does a statement while no process of the agent runs.
    pub(crate) async fn sabotage(&self, statement: &'static str) {
        let store = self.store();
        sabotage(&store, statement).await;
        store.close().await;
    }

    pub(crate) async fn start(&self) -> Host {
        let store = self.store();
        let (bus, name) = (self.broker.connect().await, agent(self.name));
        let (instance, config) = (InstanceId::random(), Arc::new(self.config.clone()));
        let directory = Directory::new(store.clone(), name.clone(), Arc::clone(&config));
        let (listener, keeper) = (Arc::<Listener>::default(), Arc::<Keeper>::default());
        let tasks = Tasks::new(TasksDeps {
            bus: Arc::clone(&bus),
            store: store.clone(),
            agent: name.clone(),
            instance: instance.clone(),
            config: Arc::clone(&config),
            directory: directory.clone(),
            on_task: Arc::clone(&listener) as Arc<dyn OnTask>,
            keep: Arc::clone(&keeper) as Arc<dyn KeepResult>,
        });
        let caller = Some(Caller::start(&tasks).await.expect("a caller"));
        let worker = match &self.work {
            Some(work) => {
                let deps = WorkerDeps {
                    bus: Arc::clone(&bus),
                    store: store.clone(),
                    agent: name.clone(),
                    instance: instance.clone(),
                    config: Arc::clone(&config),
                    work: Arc::clone(work) as Arc<dyn DoTask>,
                };
                Some(Worker::start(deps).await.expect("a worker"))
            }
            None => None,
        };
        let deps = PresenceDeps {
            bus: Arc::clone(&bus),
            agent: name.clone(),
            instance,
            config,
            directory: directory.clone(),
        };
        let presence = Some(Presence::start(deps).await.expect("a presence"));
        Host { name, bus, store, directory, tasks, listener, keeper, caller, worker, presence }
    }
}

impl Host {
    /// Ends as it should.
    pub(crate) async fn close(mut self) {
        self.close_parts(Duration::from_secs(1)).await;
        self.bus.close(Duration::from_secs(1)).await;
        self.store.close().await;
    }

    pub(crate) async fn close_parts(&mut self, grace: Duration) {
        if let Some(presence) = self.presence.take() {
            presence.close().await;
        }
        if let Some(worker) = self.worker.take() {
            worker.close(grace).await;
        }
        if let Some(caller) = self.caller.take() {
            caller.close().await;
        }
    }

    /// The way in for tasks that do not come over the bus.
    pub(crate) fn intake(&self) -> TaskIntake {
        self.worker.as_ref().expect("it does tasks").intake()
    }

    /// Asks an agent, for `alice` in session `s1`.
    pub(crate) async fn ask(&self, target: &str, message: &str) -> String {
        self.ask_within(target, message, Duration::from_secs(60)).await
    }

    pub(crate) async fn ask_within(
        &self,
        target: &str,
        message: &str,
        timeout: Duration,
    ) -> String {
        let task = NewTask { timeout: Some(timeout), ..new_task(target, message) };
        self.tasks.invoke(&scope(&self.name), task).await.expect("it is sent").task_id
    }

    /// The end of a task, once it is told.
    pub(crate) async fn end_of(&self, task_id: &str) -> TaskEvent {
        eventually(PATIENCE, async || {
            let events = self.listener.ends();
            events.iter().find(|event| event.task_id == task_id).cloned().ok_or(events)
        })
        .await
    }

    /// The text of an answer.
    pub(crate) async fn answer_to(&self, task_id: &str) -> String {
        match self.end_of(task_id).await.what {
            TaskChange::Answered { state: 3, text } => text,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn eventually_knows(&self, name: &str) {
        eventually(PATIENCE, async || self.directory.find(name).map(drop).ok_or(())).await;
    }

    /// Ends have been told once each, and no more are.
    pub(crate) async fn tells_no_more_than(&self, ends: usize) {
        quiet_for(A_WHILE, async || match self.listener.ends() {
            told if told.len() == ends => Ok(()),
            told => Err(told),
        })
        .await;
    }

    /// How many rows there are that a statement counts.
    pub(crate) async fn count(&self, statement: &'static str) -> i64 {
        let store = self.store.open().await.expect("a store");
        sqlx::query_scalar(statement).fetch_one(store.readers()).await.expect("a number")
    }

    /// Does a statement, as no part of ours would.
    pub(crate) async fn sabotage(&self, statement: &'static str) {
        sabotage(&self.store, statement).await;
    }
}

async fn sabotage(store: &LazyStore, statement: &'static str) {
    let store = store.open().await.expect("a store");
    let written = store.write(move |transaction| {
        Box::pin(async move {
            sqlx::query(statement).execute(transaction.connection()).await?;
            Ok(())
        })
    });
    written.await.expect("it is done");
}

/// Another program on the bus, which hears one topic and says what it likes.
pub(crate) struct Stranger {
    pub(crate) bus: Arc<dyn Bus>,
    pub(crate) heard: Arc<Mutex<Vec<Envelope>>>,
    _listening: Consumer,
}

impl Stranger {
    pub(crate) async fn hearing(broker: &Broker, pattern: &str) -> Self {
        let bus = broker.connect().await;
        let heard = Arc::<Mutex<Vec<Envelope>>>::default();
        let hear = Arc::clone(&heard);
        let handler = move |delivery: Delivery| {
            hear.lock().push(delivery.envelope);
            std::future::ready(Disposition::Ack)
        };
        let flow = Flow::Ordered { prefetch: NonZeroU16::MIN };
        let name = format!("stranger.{}", InstanceId::random());
        let pattern = TopicPattern::parse(pattern).expect("a pattern");
        let listening = Subscription::private(name, pattern, flow);
        let listening = bus.subscribe(listening, Arc::new(handler)).await.expect("it listens");
        Self { bus, heard, _listening: listening }
    }

    pub(crate) async fn publish(&self, topic: &Topic, envelope: Envelope) {
        self.bus.publish(topic, envelope).await.expect("it is published");
    }

    /// What was heard of a type, once it is so much.
    pub(crate) async fn heard<T: Message>(&self, count: usize) -> Vec<T> {
        let heard = eventually(PATIENCE, async || {
            let heard = self.heard.lock().clone();
            let of_type: Vec<_> = heard.into_iter().filter(message::is::<T>).collect();
            if of_type.len() >= count { Ok(of_type) } else { Err(of_type) }
        })
        .await;
        heard.iter().map(|envelope| message::read(envelope).expect("it can be read")).collect()
    }
}

pub(crate) fn agent(name: &str) -> AgentName {
    AgentName::parse(name).expect("a name")
}

pub(crate) fn scope(name: &AgentName) -> Scope {
    Scope::new(Door::Turn, Principal::claimed("alice"), name.clone())
        .with_session(Some(SessionId::parse("s1").expect("a session")))
}

pub(crate) fn owner(name: &AgentName) -> SessionOwner {
    SessionOwner::of(&scope(name)).expect("it has a session")
}

pub(crate) fn new_task(target: &str, message: &str) -> NewTask {
    NewTask {
        target: target.to_owned(),
        skill: "research".to_owned(),
        message: message.to_owned(),
        timeout: None,
    }
}

/// A place for the state of each of two agents, of every kind that there is here.
pub(crate) async fn places() -> Vec<[Arc<StatePlace>; 2]> {
    let (ours, theirs) = (StatePlace::all().await, StatePlace::all().await);
    ours.into_iter().zip(theirs).map(|(one, other)| [Arc::new(one), Arc::new(other)]).collect()
}
