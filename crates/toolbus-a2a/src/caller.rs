//! The caller's end: hears what becomes of tasks, waits for those that take too long, and tells.
//!
//! What comes in is written down and nothing else. A loop reads what is written, whoever has
//! written it, and tells it: so a result that came while nobody was there, or to another process,
//! is told like any other.

use std::collections::{HashMap, HashSet};
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolbus_bus::{
    Consumer, Delivery, Disposition, Envelope, Flow, SubscribeError, Subscription, TopicPattern,
};
use toolbus_store::until_changed;
use toolbus_wire::message::a2a::{
    AgentErrorCode, AgentTaskError, AgentTaskResult, AgentTaskStatusUpdate,
};
use toolbus_wire::{Message, message, queue, topic};

use crate::Error;
use crate::asked::{AskedRow, Claim, Recorded};
use crate::config::ms;
use crate::event::{TaskChange, TaskEvent};
use crate::ports::{ResultText, Told};
use crate::tables::CHANGES;
use crate::tasks::Tasks;

/// Answers that are written down at a time.
pub(crate) const RESPONSES_FLOW: Flow =
    Flow::Concurrent(NonZeroU16::new(2).expect("2 is not zero"));
/// Statuses that are fetched ahead.
pub(crate) const STATUSES_FLOW: Flow = Flow::Ordered { prefetch: NonZeroU16::MIN };
/// Events that are told at a time.
const TELLING_MAX: usize = 16;
/// How long it may take to tell one: a turn of an agent.
const TELL_TIMEOUT: Duration = Duration::from_secs(30 * 60);
/// How often it is said meanwhile that others are not to tell it.
const TELL_RENEW_INTERVAL: Duration = Duration::from_secs(10);
/// How long it may take to tell a status.
const PROGRESS_TIMEOUT: Duration = Duration::from_secs(1);
/// Longest time before an event that could not be taken is told again.
const TELL_BACKOFF_MAX: Duration = Duration::from_secs(5);
/// The longest sleep while there are no tasks.
const IDLE_INTERVAL: Duration = Duration::from_secs(30);
/// The shortest sleep.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(5);
/// How long to wait after the store has failed.
const STORE_BACKOFF: Duration = Duration::from_secs(1);
/// How often an answer is written down, where the store fails, before its message goes back.
const RECORD_ATTEMPTS_MAX: u32 = 30;
/// How long the text of a result is kept.
const RESULT_TTL: Duration = Duration::from_secs(60 * 60);
/// How long what is being written has at the end.
const CLOSE_GRACE: Duration = Duration::from_secs(5);
/// How long what is being told has at the end, before it is left to the next process.
const TELL_GRACE: Duration = Duration::from_secs(2);

/// Hears and tells what becomes of tasks, until it is closed.
pub struct Caller {
    consumers: Vec<Consumer>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Caller {
    /// Begins to hear and to tell.
    ///
    /// # Errors
    /// When a queue cannot be had.
    pub async fn start(asked: &Tasks) -> Result<Self, SubscribeError> {
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let deps = asked.deps();

        let responses = topic::agent_response(&deps.agent);
        let name = queue::of_agent(&deps.agent, responses.as_str());
        let durable = Subscription::durable(name, TopicPattern::from(responses), RESPONSES_FLOW);
        let hear = asked.clone();
        let handler = move |delivery| hear_response(hear.clone(), delivery);
        let responses = deps.bus.subscribe(durable, Arc::new(handler)).await?;

        let name = queue::agent_task_status(&deps.agent, &deps.instance);
        let pattern = TopicPattern::from(topic::AGENT_TASK_STATUS);
        let hear = asked.clone();
        let handler = move |delivery| hear_status(hear.clone(), delivery);
        let private = Subscription::private(name, pattern, STATUSES_FLOW);
        let statuses = deps.bus.subscribe(private, Arc::new(handler)).await?;

        let teller = Teller {
            asked: asked.clone(),
            changes: None,
            under_way: Arc::default(),
            put_off: Arc::default(),
            tellings: tasks.clone(),
            stop: stop.clone(),
        };
        tasks.spawn(teller.run());
        Ok(Self { consumers: vec![responses, statuses], stop, tasks })
    }

    /// Hears and tells no more. What was not told is told by the next process.
    pub async fn close(self) {
        self.stop.cancel();
        self.tasks.close();
        join_all(self.consumers.into_iter().map(|consumer| consumer.stop(CLOSE_GRACE))).await;
        if tokio::time::timeout(CLOSE_GRACE, self.tasks.wait()).await.is_err() {
            tracing::warn!("what became of a task was being told when the agent was closed");
        }
    }
}

/// What an answer says, and of which task.
struct Answer {
    task_id: String,
    change: TaskChange,
    /// Whether it may be about a wish to cancel the task, and not about the task.
    may_be_of_cancel: bool,
}

async fn hear_response(asked: Tasks, delivery: Delivery) -> Disposition {
    let envelope = &delivery.envelope;
    let answer = match read_answer(envelope) {
        Ok(answer) => answer,
        Err(reason) => return Disposition::DeadLetter { reason: reason.into() },
    };
    delivery.dead_letter_body.release();

    // Such an agent answers where it was asked.
    if asked.is_over_http(&envelope.source) {
        log_ignored(Recorded::OtherAgent, envelope);
        return Disposition::Ack;
    }
    for attempt in 1.. {
        match record(&asked, &envelope.source, &answer).await {
            Ok(recorded) => {
                log_ignored(recorded, envelope);
                break;
            }
            Err(error) if attempt >= RECORD_ATTEMPTS_MAX => {
                tracing::error!(error = error.as_dyn(), "the answer of an agent is not kept");
                return Disposition::DeadLetter { reason: "the state cannot be used".into() };
            }
            Err(error) => {
                tracing::warn!(error = error.as_dyn(), "could not keep the answer of an agent");
                tokio::time::sleep(STORE_BACKOFF).await;
            }
        }
    }
    asked.wake();
    Disposition::Ack
}

fn read_answer(envelope: &Envelope) -> Result<Answer, String> {
    fn read<T: Message>(envelope: &Envelope) -> Result<T, String> {
        message::read(envelope).map_err(|error| error.to_string())
    }

    if message::is::<AgentTaskResult>(envelope) {
        let result: AgentTaskResult = read(envelope)?;
        let change = TaskChange::of_result(&result);
        return Ok(Answer { task_id: result.task_id, change, may_be_of_cancel: false });
    }
    if message::is::<AgentTaskError>(envelope) {
        let error: AgentTaskError = read(envelope)?;
        let of_cancel = [AgentErrorCode::TaskNotCancelable, AgentErrorCode::TaskNotFound];
        let may_be_of_cancel = of_cancel.contains(&error.code);
        let task_id = error.task_id.clone();
        return Ok(Answer { task_id, change: TaskChange::of_error(error), may_be_of_cancel });
    }
    Err(format!("unknown message type '{}'", envelope.message_type))
}

async fn record(asked: &Tasks, source: &str, answer: &Answer) -> Result<Recorded, Error> {
    let Answer { task_id, change, may_be_of_cancel } = answer;
    // No database takes that in a text, and no task of ours has it in its id.
    if task_id.contains('\0') {
        return Ok(Recorded::NotOpen);
    }
    if *may_be_of_cancel && let TaskChange::Failed { code, message, .. } = change {
        let (code, message) = (code.clone(), message.clone());
        let refused = TaskChange::NotCancelled { code, message };
        let recorded = asked.rows().refuse_cancel(task_id, source, &refused).await?;
        if recorded != Recorded::NotOpen {
            return Ok(recorded);
        }
    }
    asked.end(task_id, Some(source), change).await
}

fn log_ignored(recorded: Recorded, envelope: &Envelope) {
    let source: String = envelope.source.chars().take(80).collect();
    match recorded {
        Recorded::Ended { .. } | Recorded::GoesOn => {}
        Recorded::NotOpen => {
            tracing::info!(source, "ignored an answer to a task that is not open");
        }
        Recorded::OtherAgent => {
            tracing::warn!(source, "ignored an answer of an agent that was not asked");
        }
    }
}

async fn hear_status(asked: Tasks, delivery: Delivery) -> Disposition {
    let envelope = &delivery.envelope;
    if !message::is::<AgentTaskStatusUpdate>(envelope) {
        return Disposition::Ack;
    }
    // Every agent's statuses come here, so what is not for this one is not logged.
    let Ok(status) = message::read::<AgentTaskStatusUpdate>(envelope) else {
        return Disposition::Ack;
    };
    let Some(row) = asked.find_noted(&status.task_id) else { return Disposition::Ack };
    if !row.target.eq_ignore_ascii_case(&envelope.source) || asked.is_over_http(&row.target) {
        return Disposition::Ack;
    }
    let change = TaskChange::of_status(status.state, status.message.as_ref());
    tell_progress(&asked, &row, change).await;
    Disposition::Ack
}

/// Tells how a task is going, without a promise.
pub(crate) async fn tell_progress(asked: &Tasks, row: &AskedRow, change: TaskChange) {
    let event = event_of(row, change);
    let told = asked.deps().on_task.tell(&event);
    if tokio::time::timeout(PROGRESS_TIMEOUT, told).await.is_err() {
        tracing::debug!(task = row.id, "a status of a task was not taken in time");
    }
}

fn event_of(row: &AskedRow, what: TaskChange) -> TaskEvent {
    TaskEvent {
        task_id: row.id.clone(),
        owner: row.owner.clone(),
        target: row.target.clone(),
        skill: row.skill.clone(),
        what,
        kept_at: None,
        lineage: row.lineage.clone(),
    }
}

/// When an event may be told again, and after which wait.
#[derive(Debug, Clone, Copy)]
struct PutOff {
    until: Instant,
    wait: Duration,
}

struct Teller {
    asked: Tasks,
    /// Told when others write, once there is something to wait for.
    changes: Option<watch::Receiver<u64>>,
    under_way: Arc<Mutex<HashSet<String>>>,
    put_off: Arc<Mutex<HashMap<String, PutOff>>>,
    tellings: TaskTracker,
    stop: CancellationToken,
}

impl Teller {
    async fn run(mut self) {
        while !self.stop.is_cancelled() {
            let wait = self.round().await.unwrap_or_else(|error| {
                tracing::warn!(
                    error = error.as_dyn(),
                    "could not look after tasks for other agents"
                );
                STORE_BACKOFF
            });
            self.pause(wait).await;
        }
    }

    async fn pause(&mut self, wait: Duration) {
        let changed = until_changed(self.changes.as_mut());
        // Every arm only waits.
        tokio::select! {
            () = self.stop.cancelled() => {}
            () = tokio::time::sleep(wait) => {}
            () = self.asked.nudged() => {}
            () = changed => {}
        }
    }

    /// Does what is to be done, and says how long to wait.
    async fn round(&mut self) -> Result<Duration, Error> {
        let store = &self.asked.deps().store;
        if !store.may_hold_something() {
            return Ok(IDLE_INTERVAL);
        }
        let opened = store.open().await?;
        self.changes.get_or_insert_with(|| opened.changes(CHANGES)).mark_unchanged();
        let (now_ms, rows) = self.asked.rows().view().await?;
        self.asked.note_open(&rows);
        self.put_off.lock().retain(|id, _| rows.iter().any(|row| row.id == *id));
        if rows.is_empty() {
            // A file of SQLite is looked at four times a second while somebody waits for changes.
            self.changes = None;
            return Ok(IDLE_INTERVAL);
        }

        let config = &self.asked.deps().config;
        let mut wait = config.tell_interval;
        for row in &rows {
            if row.is_open {
                let left_ms = row.deadline_ms.saturating_sub(now_ms);
                match u64::try_from(left_ms) {
                    Ok(left @ 1..) => wait = wait.min(Duration::from_millis(left)),
                    _ => self.time_out(row).await?,
                }
            }
            if row.may_be_told_by(&self.asked.deps().instance, now_ms, config.handover_grace) {
                wait = wait.min(self.tell(row).await?);
            }
        }
        let oldest_ms = now_ms.saturating_sub(ms(config.history_ttl));
        if rows.iter().any(|row| row.ended_ms.is_some_and(|ended_ms| ended_ms < oldest_ms)) {
            let forgotten = self.asked.rows().forget_untold(config).await?;
            tracing::warn!(forgotten, "forgot results of tasks that no session has taken");
        }
        Ok(wait.max(SHORTEST_INTERVAL))
    }

    /// Gives up a task whose time is over, and has its agent do so.
    async fn time_out(&self, row: &AskedRow) -> Result<(), Error> {
        let time_ms = row.deadline_ms.saturating_sub(row.created_ms);
        let seconds = time_ms.unsigned_abs().div_ceil(1_000);
        let timed_out = TaskChange::TimedOut { seconds };
        let recorded = self.asked.end(&row.id, None, &timed_out).await?;
        if matches!(recorded, Recorded::Ended { .. }) {
            self.asked.wake();
            if let Err(error) = self.asked.send_cancel(row).await {
                tracing::debug!(task = row.id, %error, "an agent is not told that time is over");
            }
        }
        Ok(())
    }

    /// Begins to tell an event, and says when to look again where it is not yet time.
    async fn tell(&self, row: &AskedRow) -> Result<Duration, Error> {
        let put_off = self.put_off.lock().get(&row.id).copied();
        if let Some(left) = put_off.map(|put_off| put_off.until - Instant::now())
            && !left.is_zero()
        {
            return Ok(left);
        }
        {
            let mut under_way = self.under_way.lock();
            if under_way.len() >= TELLING_MAX || !under_way.insert(row.id.clone()) {
                return Ok(self.asked.deps().config.tell_interval);
            }
        }

        let claimed = self.asked.rows().claim(row).await;
        let Ok(Some(claim)) = claimed else {
            self.under_way.lock().remove(&row.id);
            claimed?;
            return Ok(self.asked.deps().config.tell_interval);
        };
        let telling = Telling {
            asked: self.asked.clone(),
            stop: self.stop.clone(),
            under_way: Arc::clone(&self.under_way),
            put_off: Arc::clone(&self.put_off),
        };
        self.tellings.spawn(telling.run(claim));
        Ok(self.asked.deps().config.tell_interval)
    }
}

/// What tells one event.
struct Telling {
    asked: Tasks,
    stop: CancellationToken,
    under_way: Arc<Mutex<HashSet<String>>>,
    put_off: Arc<Mutex<HashMap<String, PutOff>>>,
}

impl Telling {
    async fn run(self, claim: Claim) {
        let stopped = async {
            self.stop.cancelled().await;
            tokio::time::sleep(TELL_GRACE).await;
        };
        // Every arm only waits.
        let is_told = tokio::select! {
            told = self.tell(&claim) => told == Told::Taken,
            () = self.keep(&claim) => false,
            () = tokio::time::sleep(TELL_TIMEOUT) => false,
            () = stopped => false,
        };

        let id = &claim.row.id;
        {
            let mut put_off = self.put_off.lock();
            let last = put_off.remove(id).map(|put_off| put_off.wait);
            if !is_told {
                let wait = last.map_or(self.asked.deps().config.tell_backoff, |wait| {
                    (wait * 2).min(TELL_BACKOFF_MAX)
                });
                put_off.insert(id.clone(), PutOff { until: Instant::now() + wait, wait });
            }
        }
        if let Err(error) = self.asked.rows().settle(&claim, is_told).await {
            tracing::warn!(
                error = error.as_dyn(),
                task = id,
                "what was told of a task is told again"
            );
        }
        self.under_way.lock().remove(id);
        self.asked.wake();
    }

    /// Keeps others from telling it. Ends when another does.
    async fn keep(&self, claim: &Claim) {
        loop {
            tokio::time::sleep(TELL_RENEW_INTERVAL).await;
            match self.asked.rows().renew_claim(claim).await {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => {
                    let (error, task) = (error.as_dyn(), &claim.row.id);
                    tracing::warn!(error, task, "what is told of a task may be told twice");
                }
            }
        }
    }

    async fn tell(&self, claim: &Claim) -> Told {
        let Ok(what) = toolbus_json::from_trusted(&claim.event) else {
            tracing::warn!(task = claim.row.id, "what became of a task cannot be read");
            return Told::Taken;
        };
        let mut event = event_of(&claim.row, what);
        if let Some(text) = event.result() {
            let key = format!("a2a/{}/{}/result", event.target, event.task_id);
            let result = ResultText { owner: &event.owner, key, text, ttl: RESULT_TTL };
            event.kept_at = self.asked.deps().keep.keep(result).await;
        }
        self.asked.deps().on_task.tell(&event).await
    }
}
