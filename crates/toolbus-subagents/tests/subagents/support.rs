//! Processes of an agent that splits its work: what its subagents do, and what it is told.

use std::num::NonZeroU16;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use toolbus_bus::{
    Bus, Consumer, Delivery, Disposition, Envelope, Flow, MemoryBus, Subscription, TopicPattern,
};
use toolbus_policy::SessionOwner;
use toolbus_store::{LazyStore, Location, sqlx};
use toolbus_subagents::{
    NewSubagent, OnSubagent, Priority, RunSubagent, Runner, SubagentChange, SubagentEnd,
    SubagentEvent, SubagentRun, Subagents, SubagentsConfig, SubagentsDeps, Told,
};
use toolbus_testkit::state::StatePlace;
use toolbus_testkit::{eventually, quiet_for};
use toolbus_tools::id::{CallId, SessionId};
use toolbus_tools::scope::DoorSet;
use toolbus_tools::{Budget, Door, Lineage, Principal, Scope, View};
use toolbus_wire::name::{AgentName, InstanceId};
use toolbus_wire::{Message, message};

/// How long something may take that has to come.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
/// Long enough for what must not come: some of every interval of [`quick_config`].
pub(crate) const A_WHILE: Duration = Duration::from_millis(200);

/// What a listener makes of an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hearing {
    Takes,
    /// Cannot take it so often, then takes it.
    Later(usize),
    /// Panics so often, then takes it.
    Panics(usize),
    /// Never answers.
    Hangs,
    /// Takes it once it is released.
    Held,
}

/// Is told events, and writes them down.
pub(crate) struct Listener {
    pub(crate) events: Mutex<Vec<SubagentEvent>>,
    /// How often it was told an end, whatever it made of it.
    pub(crate) tellings: AtomicUsize,
    pub(crate) hearing: Mutex<Hearing>,
    pub(crate) release: CancellationToken,
}

impl Listener {
    fn new(hearing: Hearing) -> Arc<Self> {
        let (events, tellings) = (Mutex::default(), AtomicUsize::new(0));
        let (hearing, release) = (Mutex::new(hearing), CancellationToken::new());
        Arc::new(Self { events, tellings, hearing, release })
    }

    pub(crate) fn ends(&self) -> Vec<SubagentEvent> {
        let events = self.events.lock();
        events.iter().filter(|event| event.what.is_end()).cloned().collect()
    }
}

impl OnSubagent for Listener {
    fn tell<'a>(&'a self, event: &'a SubagentEvent) -> BoxFuture<'a, Told> {
        async move {
            if event.what.is_end() {
                self.tellings.fetch_add(1, Ordering::SeqCst);
                let hearing = *self.hearing.lock();
                match hearing {
                    Hearing::Later(left @ 1..) => {
                        *self.hearing.lock() = Hearing::Later(left - 1);
                        return Told::Later;
                    }
                    Hearing::Panics(left @ 1..) => {
                        *self.hearing.lock() = Hearing::Panics(left - 1);
                        panic!("a listener that panics");
                    }
                    Hearing::Hangs => std::future::pending().await,
                    Hearing::Held => self.release.cancelled().await,
                    Hearing::Takes | Hearing::Later(_) | Hearing::Panics(_) => {}
                }
            }
            self.events.lock().push(event.clone());
            Told::Taken
        }
        .boxed()
    }
}

type Behave = Box<
    dyn Fn(SubagentRun, CancellationToken, watch::Receiver<bool>) -> BoxFuture<'static, SubagentEnd>
        + Send
        + Sync,
>;

/// Does the work of subagents as it is told to.
pub(crate) struct Work {
    pub(crate) ran: Mutex<Vec<SubagentRun>>,
    pub(crate) at_a_time: AtomicUsize,
    pub(crate) most_at_a_time: AtomicUsize,
    /// Which were paused, and went on.
    pub(crate) pauses: Arc<Mutex<Vec<(String, bool)>>>,
    behave: Behave,
}

/// Counts what is under way.
struct UnderWay<'a>(&'a AtomicUsize);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Work {
    pub(crate) fn new(
        behave: impl Fn(SubagentRun, CancellationToken) -> BoxFuture<'static, SubagentEnd>
        + Send
        + Sync
        + 'static,
    ) -> Arc<Self> {
        let pauses = Arc::<Mutex<Vec<(String, bool)>>>::default();
        let noted = Arc::clone(&pauses);
        let behave = move |run: SubagentRun, stop, mut paused: watch::Receiver<bool>| {
            let (id, noted) = (run.description.clone(), Arc::clone(&noted));
            let work = behave(run, stop);
            async move {
                if *paused.borrow_and_update() {
                    noted.lock().push((id.clone(), true));
                }
                let watching = async {
                    while paused.changed().await.is_ok() {
                        noted.lock().push((id.clone(), *paused.borrow_and_update()));
                    }
                    std::future::pending().await
                };
                tokio::select! {
                    end = work => end,
                    () = watching => unreachable!(),
                }
            }
            .boxed()
        };
        Arc::new(Self {
            ran: Mutex::default(),
            at_a_time: AtomicUsize::new(0),
            most_at_a_time: AtomicUsize::new(0),
            pauses,
            behave: Box::new(behave),
        })
    }

    /// Says back what it is to do.
    pub(crate) fn echo() -> Arc<Self> {
        Self::new(|run, _| std::future::ready(done(&format!("did {}", run.description))).boxed())
    }

    /// Ends when it is stopped.
    pub(crate) fn endless() -> Arc<Self> {
        Self::new(|_, stop| {
            async move {
                stop.cancelled().await;
                SubagentEnd::Cancelled { text: "so far".to_owned() }
            }
            .boxed()
        })
    }

    /// Does not even end when it is stopped.
    pub(crate) fn deaf() -> Arc<Self> {
        Self::new(|_, _| std::future::pending().boxed())
    }

    /// Hangs the first time, and is done when it is gone on with.
    pub(crate) fn interruptible() -> Arc<Self> {
        Self::new(|run, _| {
            async move {
                match run.is_resumed {
                    true => done("done after all"),
                    false => std::future::pending().await,
                }
            }
            .boxed()
        })
    }

    pub(crate) fn count(&self) -> usize {
        self.ran.lock().len()
    }

    pub(crate) async fn eventually_ran(&self, count: usize) {
        eventually(
            PATIENCE,
            async || {
                if self.count() >= count { Ok(()) } else { Err(self.count()) }
            },
        )
        .await;
    }

    pub(crate) fn pauses(&self) -> Vec<(String, bool)> {
        self.pauses.lock().clone()
    }
}

impl RunSubagent for Work {
    fn restore_scope<'a>(
        &'a self,
        lineage: &'a Lineage,
        owner: SessionOwner,
    ) -> BoxFuture<'a, Result<Scope, String>> {
        let account = lineage
            .run_account()
            .map_or_else(Budget::unlimited, |account| Budget::unlimited().restore(account));
        let SessionOwner { agent, principal, session } = owner;
        let restored = lineage.clone().restore(principal, agent, Some(session), account);
        std::future::ready(restored.map_err(|error| error.to_string())).boxed()
    }

    fn run(&self, run: SubagentRun, paused: watch::Receiver<bool>) -> BoxFuture<'_, SubagentEnd> {
        self.ran.lock().push(run.clone());
        let at_a_time = self.at_a_time.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_at_a_time.fetch_max(at_a_time, Ordering::SeqCst);
        async move {
            let _under_way = UnderWay(&self.at_a_time);
            let stop = run.scope.cancelled.clone();
            (self.behave)(run, stop, paused).await
        }
        .boxed()
    }
}

pub(crate) fn done(text: &str) -> SubagentEnd {
    SubagentEnd::Completed { text: text.to_owned() }
}

/// What a process is made of.
#[derive(Clone)]
pub(crate) struct Setup {
    pub(crate) bus: MemoryBus,
    pub(crate) place: Arc<StatePlace>,
    pub(crate) config: SubagentsConfig,
    pub(crate) work: Arc<Work>,
    pub(crate) hearing: Hearing,
}

/// Quick enough for a test.
pub(crate) fn quick_config() -> SubagentsConfig {
    SubagentsConfig {
        lease_ttl: Duration::from_secs(1),
        claim_ttl: Duration::from_secs(1),
        cancel_grace: Duration::from_millis(300),
        timeout_grace: Duration::from_millis(100),
        look_interval: Duration::from_millis(50),
        tell_backoff: Duration::from_millis(20),
        ..SubagentsConfig::default()
    }
}

/// One process of the agent.
pub(crate) struct Host {
    pub(crate) store: LazyStore,
    pub(crate) subagents: Subagents,
    pub(crate) listener: Arc<Listener>,
    pub(crate) work: Arc<Work>,
    runner: Option<Runner>,
}

impl Setup {
    /// One for each kind of database that there is here.
    pub(crate) async fn all(work: impl Fn() -> Arc<Work>) -> Vec<Self> {
        let places = StatePlace::all().await.into_iter().map(Arc::new);
        let setup = |place| Self {
            bus: MemoryBus::new(),
            place,
            config: quick_config(),
            work: work(),
            hearing: Hearing::Takes,
        };
        places.map(setup).collect()
    }

    pub(crate) fn working(&self, work: &Arc<Work>) -> Self {
        Self { work: Arc::clone(work), ..self.clone() }
    }

    pub(crate) fn hearing(&self, hearing: Hearing) -> Self {
        Self { hearing, ..self.clone() }
    }

    pub(crate) fn configured(&self, change: impl FnOnce(&mut SubagentsConfig)) -> Self {
        let mut changed = self.clone();
        change(&mut changed.config);
        changed
    }

    pub(crate) fn start(&self) -> Host {
        let mut host = self.start_without_runner();
        host.runner = Some(Runner::start(&host.subagents));
        host
    }

    pub(crate) fn start_without_runner(&self) -> Host {
        let location: Location = self.place.location.parse().expect("a location");
        let store = LazyStore::new(location, &[toolbus_subagents::MIGRATIONS]);
        let listener = Listener::new(self.hearing);
        let subagents = Subagents::new(SubagentsDeps {
            bus: Arc::new(self.bus.connect()),
            store: store.clone(),
            agent: AgentName::standard(),
            instance: InstanceId::random(),
            config: Arc::new(self.config.clone()),
            work: Arc::clone(&self.work) as Arc<dyn RunSubagent>,
            on_subagent: Arc::clone(&listener) as Arc<dyn OnSubagent>,
        });
        Host { store, subagents, listener, work: Arc::clone(&self.work), runner: None }
    }
}

impl Host {
    pub(crate) async fn close(mut self, grace: Duration) {
        if let Some(runner) = self.runner.take() {
            runner.close(grace).await;
        }
        self.store.close().await;
    }

    /// Spawns one for `alice` in session `s1`.
    pub(crate) async fn spawn(&self, description: &str) -> String {
        self.spawn_with(description, Priority::Normal).await.expect("it is spawned")
    }

    pub(crate) async fn spawn_with(
        &self,
        description: &str,
        priority: Priority,
    ) -> Result<String, toolbus_subagents::Error> {
        let new = NewSubagent { priority, ..new_subagent(description) };
        self.subagents.spawn(&scope(), &CallId::random(), new).await
    }

    pub(crate) async fn spawn_within(&self, description: &str, timeout: Duration) -> String {
        let new = NewSubagent { timeout: Some(timeout), ..new_subagent(description) };
        self.subagents.spawn(&scope(), &CallId::random(), new).await.expect("it is spawned")
    }

    /// The end of a subagent, once it is told: its text and its error.
    pub(crate) async fn end_of(&self, id: &str) -> (String, Option<String>) {
        let event = eventually(PATIENCE, async || {
            let ends = self.listener.ends();
            ends.iter().find(|event| event.id == id).cloned().ok_or(ends)
        })
        .await;
        match event.what {
            SubagentChange::Ended { text, is_success, error } => {
                assert_eq!(is_success, error.is_none());
                (text, error)
            }
            SubagentChange::Progress { .. } => unreachable!(),
        }
    }

    /// How many rows there are that a statement counts.
    pub(crate) async fn count(&self, statement: &'static str) -> i64 {
        let store = self.store.open().await.expect("a store");
        sqlx::query_scalar(statement).fetch_one(store.readers()).await.expect("a number")
    }

    /// Waits until a time that is written down, such as the end of a lease, has been put off for
    /// longer than it was when this began. What it keeps would be over without that.
    pub(crate) async fn eventually_renewed(&self, statement: &'static str) {
        let first = self.count(statement).await;
        let ttl = i64::try_from(quick_config().lease_ttl.as_millis()).expect("a short time");
        eventually(PATIENCE, async || match self.count(statement).await {
            until if until > first + ttl => Ok(()),
            until => Err(until - first),
        })
        .await;
    }

    /// Ends have been told once each, and no more are.
    pub(crate) async fn tells_no_more_than(&self, ends: usize) {
        quiet_for(A_WHILE, async || match self.listener.ends() {
            told if told.len() == ends => Ok(()),
            told => Err(told),
        })
        .await;
    }

    /// Waits until a statement counts so much.
    pub(crate) async fn eventually_counts(&self, statement: &'static str, expected: i64) {
        eventually(PATIENCE, async || {
            let count = self.count(statement).await;
            if count == expected { Ok(()) } else { Err(count) }
        })
        .await;
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

/// Another program on the bus, which hears a topic.
pub(crate) struct Stranger {
    heard: Arc<Mutex<Vec<Envelope>>>,
    _bus: Arc<dyn Bus>,
    _listening: Consumer,
}

impl Stranger {
    pub(crate) async fn hearing(bus: &MemoryBus, pattern: &str) -> Self {
        let bus: Arc<dyn Bus> = Arc::new(bus.connect());
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
        Self { heard, _bus: bus, _listening: listening }
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

pub(crate) fn scope() -> Scope {
    scope_of("alice", "s1")
}

pub(crate) fn scope_of(principal: &str, session: &str) -> Scope {
    Scope::new(Door::Turn, Principal::claimed(principal), AgentName::standard())
        .through(DoorSet::of(&[Door::Mcp]))
        .with_view(View::all().without(["mcp:secret/*"]))
        .with_session(Some(SessionId::parse(session).expect("a session")))
}

pub(crate) fn owner() -> SessionOwner {
    SessionOwner::of(&scope()).expect("it has a session")
}

pub(crate) fn new_subagent(description: &str) -> NewSubagent {
    NewSubagent {
        description: description.to_owned(),
        context: None,
        timeout: None,
        priority: Priority::Normal,
    }
}
