//! The worker's end: does the tasks of others, and answers each once.
//!
//! A task is a row before it is begun, and its answer is in the row before it is published. While a
//! task is done its message is not acknowledged, so that the queue shows what there is to do; a
//! process that is lost leaves the row, and another takes it up when the lease is over.

use std::collections::HashSet;
use std::num::NonZeroU16;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::join_all;
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolbus_bus::{
    Bus, Consumer, Delivery, Disposition, Envelope, Flow, PublishError, SubscribeError,
    Subscription, TopicPattern,
};
use toolbus_store::LazyStore;
use toolbus_tools::canonical::sha256_hex;
use toolbus_tools::id::ID_BYTES_MAX;
use toolbus_wire::message::a2a::{
    AgentErrorCode, AgentTaskCancelRequest, AgentTaskError, AgentTaskRequest, DEPTH_HEADER,
    DOORS_HEADER, task_id_of_malformed,
};
use toolbus_wire::name::{AgentName, InstanceId};
use toolbus_wire::{Topic, TraceContext, header, json, message, queue, topic};

use crate::answers::{About, Ended, Refusal, answer_of, body_of, error_of, reply_topic};
use crate::config::ms;
use crate::directory::has_skill;
use crate::http_rows::{client_of, is_http};
use crate::intake::{HttpProgress, ProgressHub};
use crate::metrics::{Outcome, TaskMetrics};
use crate::publish::{BusProgress, publish_again};
use crate::received::{Answer, Begun, CancelNoted, Hold, NewReceived, ReceivedTasks, TaskKey};
use crate::tables::CHANGES;
use crate::{A2aConfig, DoTask, Error, Task, TaskEnd, TaskIntake, TaskLineage, TaskProgress};

/// Largest request that is taken, in bytes.
pub const REQUEST_BYTES_MAX: usize = 1 << 20;
/// Wishes to cancel that are worked on at a time.
pub(crate) const CANCELS_FLOW: Flow = Flow::Concurrent(NonZeroU16::MIN);
/// How often a task is begun that is lost each time.
const BEGUN_MAX: i64 = 3;
/// Time between two looks for tasks of lost processes, while there are no tasks.
const IDLE_INTERVAL: Duration = Duration::from_secs(30);
/// How often old tasks are forgotten.
const FORGET_INTERVAL: Duration = Duration::from_secs(60);
/// How often an answer is written down, where the store fails.
const KEEP_ATTEMPTS_MAX: u32 = 5;
/// How long a wish to cancel has at the end.
const CLOSE_GRACE: Duration = Duration::from_secs(2);

/// What a cancel message is answered with where the work cannot be stopped, as the C# code has it.
const NOT_CANCELABLE: &str = "Stateless agents do not support task cancellation.";

/// Does the tasks of others until it is closed.
pub struct Worker {
    inner: Arc<Inner>,
    received: ReceivedTasks,
    tasks_consumer: Consumer,
    cancels_consumer: Consumer,
    stop: CancellationToken,
    tasks: TaskTracker,
}

/// What that takes.
pub struct WorkerDeps {
    /// The bus.
    pub bus: Arc<dyn Bus>,
    /// The state, which knows [`MIGRATIONS`](crate::MIGRATIONS).
    pub store: LazyStore,
    /// The name that the agent has on the bus.
    pub agent: AgentName,
    /// This process.
    pub instance: InstanceId,
    /// What the agent can be asked for, and how much.
    pub config: Arc<A2aConfig>,
    /// Does what is asked.
    pub work: Arc<dyn DoTask>,
}

impl Worker {
    /// Begins to take tasks.
    ///
    /// # Errors
    /// When a queue cannot be had.
    pub async fn start(deps: WorkerDeps) -> Result<Self, SubscribeError> {
        let received = ReceivedTasks {
            store: deps.store.clone(),
            agent: deps.agent.clone(),
            instance: deps.instance.clone(),
            lease_ms: ms(deps.config.lease_ttl),
            history_max: deps.config.history_max,
            metrics: TaskMetrics::new(),
        };
        let (bus, agent) = (Arc::clone(&deps.bus), deps.agent.clone());
        let tasks_max = deps.config.tasks_max;
        let room = Arc::new(Semaphore::new(usize::from(tasks_max.get())));
        let inner = Arc::new(Inner {
            deps,
            received: received.clone(),
            room,
            nudge: Notify::new(),
            hub: Arc::default(),
            under_way: Mutex::default(),
            http_tasks: TaskTracker::new(),
            is_draining: AtomicBool::new(false),
        });
        let durable = |topic: Topic, flow| {
            let name = queue::of_agent(&agent, topic.as_str());
            Subscription::durable(name, TopicPattern::from(topic), flow)
        };

        let hear = Arc::clone(&inner);
        let handler = move |delivery| Arc::clone(&hear).take_task(delivery);
        let subscription = durable(topic::agent_task(&agent), Flow::Concurrent(tasks_max));
        let tasks_consumer = bus.subscribe(subscription, Arc::new(handler)).await?;
        let hear = Arc::clone(&inner);
        let handler = move |delivery| Arc::clone(&hear).take_cancel(delivery);
        let subscription = durable(topic::agent_task_cancel(&agent), CANCELS_FLOW);
        let cancels_consumer = bus.subscribe(subscription, Arc::new(handler)).await?;

        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        tasks.spawn(Arc::clone(&inner).take_up(stop.clone(), tasks.clone()));
        Ok(Self { inner, received, tasks_consumer, cancels_consumer, stop, tasks })
    }

    /// The way in for tasks that come from elsewhere, such as [`HttpServer`](crate::HttpServer).
    #[must_use]
    pub fn intake(&self) -> TaskIntake {
        TaskIntake::new(Arc::clone(&self.inner))
    }

    /// Takes no more tasks, and waits up to `grace` for those that are under way. What is left is
    /// gone on with by another process, at once.
    pub async fn close(self, grace: Duration) {
        self.tasks_consumer.stop_taking();
        self.stop.cancel();
        self.tasks.close();

        let ending = [
            self.tasks_consumer.stop(grace).boxed(),
            self.cancels_consumer.stop(CLOSE_GRACE.min(grace)).boxed(),
            // What was taken up from others ends by the same token.
            self.tasks.wait().boxed(),
        ];
        join_all(ending).await;

        if self.received.store.opened().is_some()
            && let Err(error) = self.received.release().await
        {
            tracing::warn!(
                error = error.as_dyn(),
                "tasks of others wait until the lease of this process is over"
            );
        }
    }
}

pub(crate) struct Inner {
    deps: WorkerDeps,
    received: ReceivedTasks,
    /// Tasks at a time, those that were taken up from others included.
    room: Arc<Semaphore>,
    /// Wakes whoever looks for tasks of processes that were lost.
    nudge: Notify,
    hub: Arc<ProgressHub>,
    /// What this process does now.
    under_way: Mutex<HashSet<TaskKey>>,
    /// Tasks of clients over HTTP that this process does.
    http_tasks: TaskTracker,
    /// Whether no more of them are begun here.
    is_draining: AtomicBool,
}

impl Inner {
    pub(crate) fn received(&self) -> &ReceivedTasks {
        &self.received
    }

    pub(crate) fn hub(&self) -> &Arc<ProgressHub> {
        &self.hub
    }

    pub(crate) fn config(&self) -> &A2aConfig {
        &self.deps.config
    }

    pub(crate) fn agent(&self) -> &AgentName {
        &self.deps.agent
    }

    pub(crate) fn can_stop(&self) -> bool {
        self.deps.work.can_stop()
    }

    /// Has it be looked for tasks that nobody does.
    pub(crate) fn wake(&self) {
        self.nudge.notify_one();
    }

    pub(crate) async fn drain_http(&self, grace: Duration) {
        self.is_draining.store(true, Ordering::Relaxed);
        self.http_tasks.close();
        if tokio::time::timeout(grace, self.http_tasks.wait()).await.is_err() {
            tracing::info!("tasks of clients over HTTP are left to another process");
        }
    }

    async fn take_task(self: Arc<Self>, delivery: Delivery) -> Disposition {
        let envelope = delivery.envelope;
        if !message::is::<AgentTaskRequest>(&envelope) {
            let reason = format!("unknown message type '{}'", envelope.message_type).into();
            return Disposition::DeadLetter { reason };
        }
        let new = match self.read_task(&envelope) {
            Ok(new) => new,
            Err(refusal) => return self.refuse(&envelope, refusal).await,
        };
        delivery.dead_letter_body.release();
        let envelope = Envelope { body: Default::default(), ..envelope };

        let Ok(_room) = self.room.acquire().await else { return Disposition::Ack };
        match self.begin(&new).await {
            Ok(Begun::Ours) => self.work(new, envelope.trace, 1).await,
            Ok(Begun::UnderWay) => {
                // Whoever had it may be lost.
                self.nudge.notify_one();
                tracing::debug!(task = new.key.id, "a task that is under way has come again");
            }
            Ok(Begun::Answered(answer)) => {
                let reply_to = reply_topic(&new.reply_to);
                self.publish_answer(&new.key, &reply_to, &answer, envelope.trace).await;
            }
            Ok(Begun::Full) => self.refuse_busy(&envelope, &new).await,
            Err(error) => {
                tracing::warn!(error = error.as_dyn(), "a task of another agent cannot be kept");
                self.refuse_busy(&envelope, &new).await;
            }
        }
        Disposition::Ack
    }

    /// Writes a task down, again where the store fails: what is refused may be written all the
    /// same.
    async fn begin(&self, new: &NewReceived) -> Result<Begun, Error> {
        for _ in 1..KEEP_ATTEMPTS_MAX {
            match self.received.begin(new).await {
                Ok(begun) => return Ok(begun),
                Err(error) => {
                    tracing::debug!(error = error.as_dyn(), "could not keep a task yet");
                }
            }
            tokio::time::sleep(self.deps.config.look_interval).await;
        }
        self.received.begin(new).await
    }

    /// What is asked for, where it can be done at all.
    fn read_task(&self, envelope: &Envelope) -> Result<NewReceived, Refusal> {
        if envelope.body.len() > REQUEST_BYTES_MAX {
            let bytes = envelope.body.len();
            return Err(Refusal::invalid(format!(
                "a request of {bytes} bytes is over the limit of {REQUEST_BYTES_MAX}"
            )));
        }
        let request: AgentTaskRequest =
            message::read(envelope).map_err(|error| Refusal::invalid(error.to_string()))?;
        for (what, text) in [("taskId", &request.task_id), ("source", &envelope.source)] {
            if text.is_empty() || text.len() > ID_BYTES_MAX || text.chars().any(char::is_control) {
                return Err(Refusal::invalid(format!(
                    "the {what} is empty, longer than {ID_BYTES_MAX} bytes, or has control \
                     characters"
                )));
            }
        }
        if is_http(&envelope.source) {
            return Err(Refusal::invalid("the source has the name of a client over HTTP"));
        }
        self.check_skill(&request.skill)?;

        let number = |name| {
            let text = envelope.headers.get(name);
            text.and_then(|text| text.trim().parse::<u64>().ok())
        };
        let text = |name| envelope.headers.get(name);
        let lineage = TaskLineage::read(text(DEPTH_HEADER), text(DOORS_HEADER));
        let lineage = lineage.map_err(|error| Refusal::invalid(error.to_string()))?;
        let asked = number(header::TIMEOUT_MS).map(Duration::from_millis);
        let limits = [asked, envelope.expires_after].into_iter().flatten();
        let timeout = limits.fold(self.deps.config.task_timeout, Duration::min);

        Ok(NewReceived {
            key: TaskKey { caller: envelope.source.clone(), id: request.task_id.clone() },
            reply_to: envelope.reply_to.as_ref().map_or("", Topic::as_str).replace('\0', ""),
            lineage,
            context_id: request.context_id.clone(),
            timeout_ms: ms(timeout),
            request: body_of(&request),
        })
    }

    /// An agent that names no skills takes any.
    pub(crate) fn check_skill(&self, skill: &str) -> Result<(), Refusal> {
        let card = self.deps.config.card.as_ref();
        let skills = card.and_then(|card| card.skills.as_deref()).unwrap_or_default();
        if skills.is_empty() || card.is_some_and(|card| has_skill(card, skill)) {
            return Ok(());
        }
        let ids: Vec<_> = skills.iter().map(|skill| skill.id.as_str()).collect();
        let skill: String = skill.chars().take(80).collect();
        let (agent, ids) = (&self.deps.agent, ids.join(", "));
        Err(Refusal {
            code: AgentErrorCode::SkillNotSupported,
            message: format!("Agent '{agent}' has no skill '{skill}'. Its skills: {ids}."),
            is_retryable: false,
        })
    }

    /// Answers a request that makes no sense, where somebody waits for an answer.
    async fn refuse(&self, envelope: &Envelope, refusal: Refusal) -> Disposition {
        let id = task_id_of_malformed(&envelope.body);
        let id = id.or_else(|| envelope.correlation_id.clone());
        let (Some(id), Some(reply_to)) = (id, &envelope.reply_to) else {
            return Disposition::DeadLetter { reason: refusal.message.into() };
        };
        let id = id[..id.floor_char_boundary(ID_BYTES_MAX)].to_owned();
        let key = TaskKey { caller: envelope.source.clone(), id };
        let about = About { id: &key.id, context_id: None };
        let answer = error_of(about, refusal);
        self.publish_answer(&key, reply_to, &answer, envelope.trace.clone()).await;
        Disposition::Ack
    }

    async fn refuse_busy(&self, envelope: &Envelope, new: &NewReceived) {
        let refusal = Refusal {
            code: AgentErrorCode::ExecutionFailed,
            message: "the agent cannot take tasks now".to_owned(),
            is_retryable: true,
        };
        let reply_to = envelope.reply_to.clone().unwrap_or(topic::AGENT_RESPONSE);
        let about = About { id: &new.key.id, context_id: new.context_id.as_deref() };
        self.publish_answer(&new.key, &reply_to, &error_of(about, refusal), None).await;
    }

    /// Does a task that is this process's, and answers it.
    async fn work(&self, new: NewReceived, trace: Option<TraceContext>, begun: i64) {
        let NewReceived { key, reply_to, .. } = &new;
        // A lease may be over while its task is done here: then it goes on under the one of now.
        let Some(_under_way) = UnderWay::enter(&self.under_way, key) else { return };
        let reply_to = reply_topic(reply_to);
        let Ended { end, outcome } = match self.run(&new, begun).await {
            Some(ended) => ended,
            None => {
                tracing::warn!(task = key.id, "another process has taken a task over");
                return;
            }
        };

        let about = About { id: &key.id, context_id: new.context_id.as_deref() };
        let answer = answer_of(about, end);
        if self.keep_answer(key, &answer, outcome).await && !is_http(&key.caller) {
            self.publish_answer(key, &reply_to, &answer, trace).await;
        }
    }

    /// Writes an answer down, and says whether it is to be published.
    async fn keep_answer(&self, key: &TaskKey, answer: &Answer, outcome: Outcome) -> bool {
        for attempt in 1.. {
            match self.received.end(key, answer, outcome).await {
                Ok(true) => return true,
                Ok(false) => {
                    tracing::warn!(task = key.id, "another process has taken a task over");
                    return false;
                }
                Err(error) => {
                    tracing::warn!(
                        error = error.as_dyn(),
                        task = key.id,
                        "the answer to a task is not kept"
                    );
                }
            }

            if attempt >= KEEP_ATTEMPTS_MAX {
                break;
            }
            tokio::time::sleep(self.deps.config.look_interval).await;
        }
        // It is answered all the same; what comes of it twice is one to whoever has asked.
        true
    }

    /// One task to its end. `None`: another process has it.
    async fn run(&self, new: &NewReceived, begun: i64) -> Option<Ended> {
        let Ok(request) = json::read::<AgentTaskRequest>(new.request.as_bytes()) else {
            return Some(Ended::failed("the task that was kept cannot be read".to_owned()));
        };
        let timeout = Duration::from_millis(new.timeout_ms.max(0).unsigned_abs());
        if timeout.is_zero() {
            let message = "the time of the task was over before it could be done".to_owned();
            return Some(Ended::timed_out(message));
        }
        if begun > BEGUN_MAX {
            let message = format!("the task was begun {BEGUN_MAX} times, and lost each time");
            return Some(Ended::failed(message));
        }

        let over_bus = BusProgress {
            bus: &*self.deps.bus,
            agent: &self.deps.agent,
            task_id: request.task_id.clone(),
            context_id: request.context_id.clone(),
        };
        let over_http = HttpProgress { hub: &self.hub, key: &new.key };
        let progress: &dyn TaskProgress = if is_http(&new.key.caller) {
            &over_http
        } else {
            over_bus.publish(None).await;
            &over_bus
        };
        let task = Task {
            request,
            caller: new.key.caller.clone(),
            client: client_of(&new.key.caller),
            lineage: new.lineage,
            is_resumed: begun > 1,
            timeout,
        };
        let stop = CancellationToken::new();
        let run = AssertUnwindSafe(self.deps.work.run(task, progress, stop.clone()));
        let mut run = std::pin::pin!(run.catch_unwind());
        // Every arm only waits; the work goes on through them.
        let ended = tokio::select! {
            ended = &mut run => ended,
            hold = self.watch(&new.key, &stop) => match hold {
                Hold::Lost => return None,
                _ => return Some(TaskEnd::Canceled.into()),
            },
            () = tokio::time::sleep(timeout) => {
                stop.cancel();
                // However it ends now, its time was over.
                let _ = tokio::time::timeout(self.deps.config.timeout_grace, &mut run).await;
                let message = format!("the task took longer than {} s", timeout.as_secs());
                return Some(Ended::timed_out(message));
            }
        };
        Some(match ended {
            Ok(end) => end.into(),
            Err(_) => Ended::failed("the task failed within the agent".to_owned()),
        })
    }

    /// Keeps a task to this process, and stops it when it is cancelled. It returns when the work
    /// is to be dropped.
    async fn watch(&self, key: &TaskKey, stop: &CancellationToken) -> Hold {
        let lease_ttl = self.deps.config.lease_ttl;
        let mut changes = match self.received.store.open().await {
            Ok(store) => Some(store.changes(CHANGES)),
            Err(_) => None,
        };
        loop {
            match self.received.renew(key).await {
                Ok(Hold::Held) => {}
                Ok(Hold::Cancelled) if self.deps.work.can_stop() => {
                    stop.cancel();
                    tokio::time::sleep(self.deps.config.cancel_grace).await;
                    tracing::warn!(task = key.id, "dropped a task that did not stop");
                    return Hold::Cancelled;
                }
                Ok(Hold::Cancelled) => {}
                Ok(Hold::Lost) => return Hold::Lost,
                Err(error) => {
                    tracing::warn!(
                        error = error.as_dyn(),
                        task = key.id,
                        "could not renew the lease of a task"
                    );
                }
            }

            let changed = async {
                let is_open = match &mut changes {
                    Some(changes) => changes.changed().await.is_ok(),
                    None => false,
                };
                if !is_open {
                    std::future::pending().await
                }
            };
            let _ = tokio::time::timeout(lease_ttl / 3, changed).await;
        }
    }

    /// Publishes an answer to whoever has asked, and notes that.
    async fn publish_answer(
        &self,
        key: &TaskKey,
        reply_to: &Topic,
        answer: &Answer,
        trace: Option<TraceContext>,
    ) {
        let Answer { message_type, body } = answer;
        let agent = self.deps.agent.as_str();
        let mut envelope = Envelope::new(message_type.clone(), agent, body.clone().into())
            .with_correlation_id(&key.id)
            .with_trace(trace);
        // The same when it is sent again.
        let digest = sha256_hex(&format!("{agent}\n{}\n{}\nanswer", key.caller, key.id));
        digest[..32].clone_into(&mut envelope.message_id);

        match publish_again(&*self.deps.bus, reply_to, envelope).await {
            Ok(()) => {}
            Err(PublishError::Unroutable(topic)) => {
                tracing::info!(%topic, "an agent whose task was done is gone");
            }
            Err(PublishError::Refused(_) | PublishError::TooLarge { .. }) => {
                tracing::warn!(task = key.id, "the broker does not take the answer to a task");
            }
            Err(error) => {
                tracing::warn!(task = key.id, %error, "the answer to a task waits for the bus");
                return;
            }
        }
        if let Err(error) = self.received.mark_answered(key).await {
            tracing::warn!(
                error = error.as_dyn(),
                task = key.id,
                "the answer to a task is sent again"
            );
        }
    }

    async fn take_cancel(self: Arc<Self>, delivery: Delivery) -> Disposition {
        let envelope = &delivery.envelope;
        if !message::is::<AgentTaskCancelRequest>(envelope) {
            let reason = format!("unknown message type '{}'", envelope.message_type).into();
            return Disposition::DeadLetter { reason };
        }
        let request: AgentTaskCancelRequest = match message::read(envelope) {
            Ok(request) => request,
            Err(error) => return self.refuse(envelope, Refusal::invalid(error.to_string())).await,
        };

        let (code, message) = match self.cancel(envelope, &request.task_id).await {
            // Its result says that it was cancelled, or that it was done before that.
            Ok(CancelNoted::Stops) if self.deps.work.can_stop() => return Disposition::Ack,
            Ok(CancelNoted::Stops) => (AgentErrorCode::TaskNotCancelable, NOT_CANCELABLE),
            Ok(CancelNoted::Ended) => {
                (AgentErrorCode::TaskNotCancelable, "The task has ended already.")
            }
            Ok(CancelNoted::NotThere) => {
                (AgentErrorCode::TaskNotFound, "The agent has no task of this id.")
            }
            Err(error) => {
                tracing::warn!(error = error.as_dyn(), "a task cannot be cancelled");
                (AgentErrorCode::TaskNotCancelable, "The agent cannot cancel tasks now.")
            }
        };
        let error = AgentTaskError {
            task_id: request.task_id,
            context_id: request.context_id,
            code,
            message: message.to_owned(),
            is_retryable: false,
        };
        let reply = Envelope::of(&error, self.deps.agent.as_str())
            .with_correlation_id(&error.task_id)
            .with_trace(envelope.trace.clone());
        let topic = envelope.reply_to.clone().unwrap_or(topic::AGENT_RESPONSE);
        if let Err(error) = publish_again(&*self.deps.bus, &topic, reply).await {
            tracing::info!(%error, "whoever wants a task cancelled is not answered");
        }
        Disposition::Ack
    }

    async fn cancel(&self, envelope: &Envelope, id: &str) -> Result<CancelNoted, Error> {
        let caller = &envelope.source;
        let is_id = |text: &str| text.len() <= ID_BYTES_MAX && !text.chars().any(char::is_control);
        if id.is_empty() || !is_id(id) || !is_id(caller) || is_http(caller) {
            return Ok(CancelNoted::NotThere);
        }
        let key = TaskKey { caller: caller.clone(), id: id.to_owned() };
        let about = About { id, context_id: None };
        self.received.cancel(&key, &answer_of(about, TaskEnd::Canceled)).await
    }

    /// Takes up what processes have left that were lost, until it is stopped.
    async fn take_up(self: Arc<Self>, stop: CancellationToken, tasks: TaskTracker) {
        let mut forgotten: Option<tokio::time::Instant> = None;
        loop {
            if forgotten.is_none_or(|at| at.elapsed() >= FORGET_INTERVAL)
                && self.received.store.may_hold_something()
                && self.received.forget(&self.deps.config).await.is_ok()
            {
                forgotten = Some(tokio::time::Instant::now());
            }
            let wait = self.look(&stop, &tasks).await.unwrap_or_else(|error| {
                tracing::warn!(error = error.as_dyn(), "could not look after tasks of others");
                self.deps.config.look_interval
            });
            // Every arm only waits.
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(wait) => {}
                () = self.nudge.notified() => {}
            }
        }
    }

    async fn look(
        self: &Arc<Self>,
        stop: &CancellationToken,
        tasks: &TaskTracker,
    ) -> Result<Duration, Error> {
        // A file that is not there has no tasks, and is not made for them.
        let store = &self.received.store;
        if !store.may_hold_something() || !self.received.has_open().await? {
            return Ok(IDLE_INTERVAL);
        }

        while let Some(left) = self.received.take_unanswered().await? {
            self.publish_answer(&left.key, &reply_topic(&left.reply_to), &left.answer, None).await;
        }
        while !self.is_draining.load(Ordering::Relaxed) {
            let Ok(room) = Arc::clone(&self.room).try_acquire_owned() else { break };
            let Some(orphan) = self.received.take_orphan().await? else { break };
            if orphan.begun > 1 {
                tracing::info!(task = orphan.new.key.id, "a task goes on that was interrupted");
            }
            let token = is_http(&orphan.new.key.caller).then(|| self.http_tasks.token());
            let (this, stop) = (Arc::clone(self), stop.clone());
            tasks.spawn(async move {
                // What is dropped here is taken up again, for its lease is given back.
                stop.run_until_cancelled(this.work(orphan.new, None, orphan.begun)).await;
                drop((room, token));
                // Another may wait for the room.
                this.wake();
            });
        }
        Ok(self.deps.config.look_interval)
    }
}

/// That this process does a task.
struct UnderWay<'a> {
    tasks: &'a Mutex<HashSet<TaskKey>>,
    key: &'a TaskKey,
}

impl<'a> UnderWay<'a> {
    /// `None`: it does already.
    fn enter(tasks: &'a Mutex<HashSet<TaskKey>>, key: &'a TaskKey) -> Option<Self> {
        let is_new = tasks.lock().insert(key.clone());
        is_new.then(|| Self { tasks, key })
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.tasks.lock().remove(self.key);
    }
}
