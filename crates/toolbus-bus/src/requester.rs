//! The asking end of a call: sends a request and finds its one reply.
//!
//! A requester has a queue of its own, so nobody else takes its answers, and on it come replies,
//! progress, questions and heartbeats, in the order in which a worker sent them. A request ends in
//! exactly one way: its reply, or a typed [`Error`]. What comes after that is dropped and counted.

mod pending;
mod questions;
mod seal;
mod to_workers;
mod watch;

use std::num::NonZeroU16;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolbus_wire::message::tool::ID_BYTES_MAX;
use toolbus_wire::message::toolbus::{Alive, CallQuery, ToolAsk, ToolProgress};
use toolbus_wire::name::{AgentName, InstanceId};
use toolbus_wire::{Envelope, Topic, header, json, message, queue, topic};

use crate::clock::PeerClocks;
use crate::metrics::Asked;
use crate::port::{
    Bus, Consumer, Delivery, Disposition, Flow, Handler, PublishError, SubscribeError, Subscription,
};
use crate::{CallContext, Deadline, Interruption, TopicPattern};
use pending::{Pending, Workers};
use questions::Questions;
pub use seal::Seal;
use seal::Unsealed;
use to_workers::WorkerMessages;
use watch::HeartbeatWatch;

/// Most requests that are under way at a time.
pub const REQUESTS_MAX: usize = 10_000;
/// How a requester reads its own queue. It takes microseconds for each message, so more that are
/// fetched ahead would not come sooner, and each may be a reply of the largest size.
pub(crate) const FLOW: Flow = Flow::Ordered { prefetch: PREFETCH };
const PREFETCH: NonZeroU16 = NonZeroU16::new(16).expect("16 is not zero");
/// How long it may take to find out whether a queue has consumers.
const COUNT_TIMEOUT: Duration = Duration::from_secs(1);
/// How long to wait before a message is sent again whose confirm was lost.
const RESEND_BACKOFF: Duration = Duration::from_millis(100);

/// Sends requests and correlates their replies. Clones are the same requester.
#[derive(Clone)]
pub struct Requester {
    inner: Arc<Inner>,
}

struct Inner {
    bus: Arc<dyn Bus>,
    agent: AgentName,
    reply_topic: Topic,
    progress_topic: Topic,
    ask_topic: Topic,
    pending: Arc<Pending>,
    counters: Arc<Counters>,
    asked: Arc<Asked>,
    to_workers: Arc<WorkerMessages>,
    closed: CancellationToken,
    tasks: TaskTracker,
    consumer: parking_lot::Mutex<Option<Consumer>>,
}

/// One request: where it goes, and how long it may take.
pub struct Request<'a> {
    /// Where the request goes.
    pub topic: &'a Topic,
    /// The subscription that workers take it from, where the caller knows which. While it has no
    /// consumer, the request ends as unroutable.
    pub workers: Option<&'a str>,
    /// The request itself. Correlation id, reply topic, source, deadline and the topics for
    /// progress and questions are the requester's to fill in.
    pub envelope: Envelope,
    /// The call that the request is about, as its body names it: what heartbeats and cancel
    /// messages speak of.
    pub call_id: &'a str,
    /// Whether the call is declared idempotent or read-only. Any other is published once, and not
    /// again when its confirm is lost.
    pub may_repeat: bool,
    /// When to give up, and who cancels, hears and answers meanwhile. A request that is given up
    /// is cancelled at its worker too.
    pub context: CallContext,
}

/// Why a request has no reply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It could not be sent.
    #[error(transparent)]
    Publish(#[from] PublishError),
    /// The deadline came before the reply.
    #[error("no reply within {} ms", asked.as_millis())]
    Timeout {
        /// What the caller asked for.
        asked: Duration,
    },
    /// The worker that had taken the request was lost: what it did is unknown.
    #[error("the worker that had taken the call was lost")]
    WorkerLost,
    /// The broker did not confirm the request, and no worker spoke of it: whether one has it is
    /// unknown.
    #[error("the broker did not confirm the call, and no worker has spoken of it")]
    Unconfirmed,
    /// A queue refused the request, and no worker that takes it from another spoke of it.
    #[error("the broker refused the call: {0}")]
    Refused(String),
    /// No worker takes requests of this topic. The request is withdrawn: a worker that comes later
    /// does not start it.
    #[error("no worker takes the topic {0}")]
    Unserved(Topic),
    /// The caller cancelled it.
    #[error("cancelled")]
    Cancelled,
    /// Too many requests are under way.
    #[error("{REQUESTS_MAX} requests are under way already")]
    Busy,
    /// The requester was closed.
    #[error("the requester is closed")]
    Closed,
}

impl Error {
    /// Whether there is no worker to take the request. It was not started, and will not be.
    #[must_use]
    pub fn is_unroutable(&self) -> bool {
        matches!(self, Self::Publish(PublishError::Unroutable(_)) | Self::Unserved(_))
    }

    /// Whether a worker may have the request, or get it yet.
    fn may_be_at_work(&self) -> bool {
        match self {
            Self::Timeout { .. }
            | Self::WorkerLost
            | Self::Unconfirmed
            | Self::Refused(_)
            | Self::Unserved(_)
            | Self::Cancelled => true,
            Self::Publish(_) | Self::Busy | Self::Closed => false,
        }
    }

    /// Which of them it is, for metrics.
    fn label(&self) -> &'static str {
        match self {
            Self::Publish(error) => error.label(),
            Self::Timeout { .. } => "timeout",
            Self::WorkerLost => "worker_lost",
            Self::Unconfirmed => "unconfirmed",
            Self::Refused(_) => "refused",
            Self::Unserved(_) => "unserved",
            Self::Cancelled => "cancelled",
            Self::Busy => "busy",
            Self::Closed => "closed",
        }
    }
}

/// What came that nobody waited for, and how many wait.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Requests under way.
    pub pending: usize,
    /// Replies to requests that had ended already.
    pub late: u64,
    /// Replies to requests that this requester never made, or made long ago.
    pub unknown: u64,
}

#[derive(Default)]
struct Counters {
    late: AtomicU64,
    unknown: AtomicU64,
}

impl Requester {
    /// Opens the reply queue of `agent`'s process `instance` and starts to read it.
    ///
    /// # Errors
    /// When the queue cannot be had.
    pub async fn start(
        bus: Arc<dyn Bus>,
        agent: AgentName,
        instance: &InstanceId,
    ) -> Result<Self, SubscribeError> {
        let pending = Arc::new(Pending::default());
        let counters = Arc::new(Counters::default());
        let asked = Arc::new(Asked::new(agent.as_str()));
        let closed = CancellationToken::new();
        let tasks = TaskTracker::new();
        let to_workers = Arc::new(WorkerMessages::new(
            Arc::clone(&bus),
            agent.as_str(),
            closed.clone(),
            tasks.clone(),
        ));

        let reader = ReplyReader {
            pending: Arc::clone(&pending),
            agent: agent.clone(),
            counters: Arc::clone(&counters),
            asked: Arc::clone(&asked),
            to_workers: Arc::clone(&to_workers),
            clocks: PeerClocks::new(),
            questions: Questions::new(
                Arc::clone(&bus),
                agent.as_str(),
                Arc::clone(&pending),
                closed.clone(),
                tasks.clone(),
            ),
        };

        let subscription = Subscription::private(
            queue::replies(&agent, instance),
            TopicPattern::from(topic::of_instance(&agent, instance)),
            FLOW,
        );
        let consumer = bus.subscribe(subscription, Arc::new(reader)).await?;

        let inner = Arc::new(Inner {
            reply_topic: topic::tool_result_of_instance(&agent, instance),
            progress_topic: topic::tool_progress(&agent, instance),
            ask_topic: topic::tool_ask(&agent, instance),
            bus,
            agent,
            pending,
            counters,
            asked,
            to_workers,
            closed,
            tasks,
            consumer: parking_lot::Mutex::new(Some(consumer)),
        });

        let watch = HeartbeatWatch {
            bus: Arc::clone(&inner.bus),
            source: inner.agent.as_str().to_owned(),
            topic: inner.progress_topic.clone(),
            pending: Arc::clone(&inner.pending),
            to_workers: Arc::clone(&inner.to_workers),
        };
        inner.tasks.spawn(watch.run(inner.closed.clone()));

        Ok(Self { inner })
    }

    /// Sends a request and waits for its end. Dropping the future forgets the request; its worker
    /// is told so when it next speaks of the call, and stops.
    ///
    /// # Errors
    /// See [`Error`]; each is final. Nothing is sent again behind the caller's back but a request
    /// that may repeat, when its confirm was lost.
    pub async fn request(&self, request: Request<'_>) -> Result<Envelope, Error> {
        self.request_sealed(request, &Unsealed).await
    }

    /// The same with a seal on the request, set once it is complete.
    ///
    /// # Errors
    /// As of [`Requester::request`].
    pub async fn request_sealed(
        &self,
        request: Request<'_>,
        seal: &dyn Seal,
    ) -> Result<Envelope, Error> {
        let Request { topic, workers, envelope, call_id, may_repeat, context } = request;
        let CallContext { deadline, cancelled, progress, asker } = context;
        let inner = &self.inner;

        // What nobody waits for any more is not sent at all.
        if cancelled.is_cancelled() {
            return Err(Error::Cancelled);
        }

        if deadline.is_past() {
            return Err(Error::Timeout { asked: deadline.asked() });
        }

        let (takes_progress, takes_questions) = (progress.is_wanted(), asker.is_there());
        let kinds = asker.kinds_header();
        let (waiting, reply) = inner.pending.add(call_id, progress.clone(), asker)?;
        let mut envelope = inner.address(envelope, &waiting, deadline);

        if !takes_progress {
            envelope.headers.set(header::QUIET, "1");
        }

        if takes_questions {
            envelope.headers.set(header::ASK_TO, inner.ask_topic.as_str());
            if let Some(kinds) = kinds {
                envelope.headers.set(header::ASK_KINDS, kinds);
            }
        }

        seal.seal(topic, deadline, &mut envelope);

        let record = inner.asked.wait(topic.template());
        let workers = workers.map(|subscription| Workers::new(topic, subscription));
        let bus = &*inner.bus;
        let publication =
            Publication { bus, topic, workers, deadline, may_repeat, waiting: &waiting };

        // Boxed: it would make the future of every caller larger by kilobytes.
        let answered = Box::pin(reply_or_error(reply, publication.publish(envelope)));
        let end = match deadline.enforce_with(&progress, &cancelled, Duration::ZERO, answered).await
        {
            Ok(end) => end,
            Err(Interruption::Cancelled) => Err(Error::Cancelled),
            Err(Interruption::TimedOut) => Err(Error::Timeout { asked: deadline.asked() }),
        };

        if let Err(error) = &end
            && error.may_be_at_work()
        {
            let worker = waiting.worker();
            inner.to_workers.cancel(call_id, worker.as_deref(), &error.to_string());
        }

        record.end(end.as_ref().err().map(Error::label));
        end
    }

    /// Name of the agent that asks.
    #[must_use]
    pub fn agent(&self) -> &AgentName {
        &self.inner.agent
    }

    /// The topic on which this requester takes replies.
    #[must_use]
    pub fn reply_topic(&self) -> &Topic {
        &self.inner.reply_topic
    }

    /// The bus that requests go out on.
    #[must_use]
    pub fn bus(&self) -> &Arc<dyn Bus> {
        &self.inner.bus
    }

    /// What came that nobody waited for, and how many wait.
    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats {
            pending: self.inner.pending.len(),
            late: self.inner.counters.late.load(Ordering::Relaxed),
            unknown: self.inner.counters.unknown.load(Ordering::Relaxed),
        }
    }

    /// Ends every request with [`Error::Closed`] and gives the reply queue up.
    pub async fn close(&self) {
        self.inner.closed.cancel();
        self.inner.pending.close();
        let consumer = self.inner.consumer.lock().take();
        if let Some(consumer) = consumer {
            consumer.stop(Duration::from_secs(1)).await;
        }
        self.inner.tasks.close();
        self.inner.tasks.wait().await;
    }
}

impl Drop for Inner {
    /// A requester that is dropped without [`Requester::close`] leaves no task behind.
    fn drop(&mut self) {
        self.closed.cancel();
    }
}

impl Inner {
    fn address(
        &self,
        mut envelope: Envelope,
        waiting: &pending::Waiting,
        deadline: Deadline,
    ) -> Envelope {
        envelope.correlation_id = Some(waiting.correlation_id().to_owned());
        envelope.reply_to = Some(self.reply_topic.clone());
        envelope.source = self.agent.as_str().to_owned();
        envelope.headers.set(header::PROGRESS_TO, self.progress_topic.as_str());
        envelope.headers.set(header::STATUS_TO, self.progress_topic.as_str());
        deadline.write(&mut envelope.headers);
        envelope
    }
}

/// The reply, or why it cannot come. The reply often overtakes the broker's confirm, and then the
/// confirm is not waited for.
async fn reply_or_error(
    reply: oneshot::Receiver<Result<Envelope, Error>>,
    sent: impl Future<Output = Result<(), PublishError>>,
) -> Result<Envelope, Error> {
    let mut reply = pin!(reply);
    let closed = |_| Err(Error::Closed);
    tokio::select! {
        biased;
        reply = &mut reply => return reply.unwrap_or_else(closed),
        sent = sent => sent?,
    }
    reply.await.unwrap_or_else(closed)
}

/// How one request is published.
struct Publication<'a> {
    bus: &'a dyn Bus,
    topic: &'a Topic,
    workers: Option<Workers>,
    deadline: Deadline,
    may_repeat: bool,
    waiting: &'a pending::Waiting,
}

impl Publication<'_> {
    /// Publishes a request. It ends well where a worker has the request or may have it; in doubt,
    /// workers are expected to speak of it, and their silence ends the request.
    ///
    /// A second copy could be run by another worker than the first, so only what may repeat is
    /// published again. And a queue that refuses says nothing of the other queues of its topic.
    async fn publish(mut self, envelope: Envelope) -> Result<(), PublishError> {
        let mut left = self.deadline.left();
        self.look_for_workers().await;

        let mut may_be_there = false;
        loop {
            // The broker drops what nobody waits for any more, by its own clock; and a worker
            // learns from it how much time was left, and so when the request was sent.
            let copy = envelope.clone().with_expiry(left);
            match self.bus.publish(self.topic, copy).await {
                Err(PublishError::Unconfirmed) => may_be_there = true,
                // The broker went away with it and is not back yet.
                Err(PublishError::Unavailable(_)) if may_be_there => {}
                Err(PublishError::Refused(reason)) if !may_be_there => {
                    self.waiting.expect_worker(Error::Refused(reason));
                    return Ok(());
                }
                Err(_) if may_be_there => {
                    self.waiting.expect_worker(Error::Unconfirmed);
                    return Ok(());
                }
                result => return result,
            }

            if !self.may_repeat {
                self.waiting.expect_worker(Error::Unconfirmed);
                return Ok(());
            }
            tokio::time::sleep(RESEND_BACKOFF).await;
            left = self.deadline.left();
            self.waiting.note_second_copy();
        }
    }

    /// Finds out whether there are workers, where none was heard of lately. Where there are none,
    /// whichever comes later hears of the request after it was sent, and asks before it starts it.
    async fn look_for_workers(&mut self) {
        let Some(workers) = self.workers.take() else { return };
        let is_unclaimed = !self.waiting.has_heard_of(&workers) && {
            let counting = self.bus.count_consumers(&workers.subscription);
            tokio::time::timeout(COUNT_TIMEOUT, counting).await == Ok(Some(0))
        };
        self.waiting.note_workers(workers, is_unclaimed);
    }
}

struct ReplyReader {
    agent: AgentName,
    clocks: PeerClocks,
    pending: Arc<Pending>,
    counters: Arc<Counters>,
    asked: Arc<Asked>,
    to_workers: Arc<WorkerMessages>,
    questions: Questions,
}

impl Handler for ReplyReader {
    fn handle(&self, delivery: Delivery) -> BoxFuture<'_, Disposition> {
        // None of them becomes a dead letter, and whoever gets a reply may take its body apart.
        delivery.dead_letter_body.release();
        self.read(delivery.envelope);
        Box::pin(std::future::ready(Disposition::Ack))
    }

    fn on_resubscribed(&self) {
        self.pending.note_missed_replies();
    }
}

impl ReplyReader {
    fn read(&self, envelope: Envelope) {
        if message::is::<Alive>(&envelope) {
            match json::read::<Alive>(&envelope.body) {
                Ok(alive) => self.take_heartbeat(&alive, &envelope),
                Err(error) => tracing::warn!(%error, "dropped a malformed heartbeat"),
            }
        } else if message::is::<ToolProgress>(&envelope) {
            match json::read::<ToolProgress>(&envelope.body) {
                Ok(progress) => self.pending.progress(progress),
                Err(error) => tracing::warn!(%error, "dropped malformed progress"),
            }
        } else if message::is::<ToolAsk>(&envelope) {
            self.questions.take(&envelope);
        } else if message::is::<CallQuery>(&envelope) {
            self.answer_query(&envelope);
        } else {
            self.count(self.pending.answer(envelope));
        }
    }

    /// Its worker lives, and is told which of its calls nobody waits for any more.
    fn take_heartbeat(&self, alive: &Alive, envelope: &Envelope) {
        // It is kept for each of its calls.
        if alive.instance.len() > ID_BYTES_MAX {
            return tracing::warn!("dropped a heartbeat: the name of its worker is too long");
        }

        self.clocks.hear_heartbeat(self.agent.as_str(), &alive.instance, envelope);

        for call_id in self.pending.take_heartbeat(alive) {
            tracing::debug!(call_id, worker = alive.instance, "a worker runs an abandoned call");
            let reason = "its caller does not wait for it any more";
            self.to_workers.cancel(call_id, Some(&alive.instance), reason);
        }
    }

    /// Tells a worker whether the call that it was handed is still waited for.
    fn answer_query(&self, envelope: &Envelope) {
        match json::read::<CallQuery>(&envelope.body) {
            Ok(query) => {
                let Some(reply_to) = envelope.reply_to.clone() else { return };
                // The answer repeats it. Ours are much shorter.
                if query.correlation_id.len() > ID_BYTES_MAX {
                    return tracing::warn!("dropped a query: its correlation id is too long");
                }

                let is_awaited = self.pending.claim_awaited(&query.correlation_id);
                self.to_workers.answer_query(reply_to, query.correlation_id, is_awaited);
            }
            Err(error) => tracing::warn!(%error, "dropped a malformed query"),
        }
    }

    fn count(&self, answer: pending::Answer) {
        match answer {
            pending::Answer::Taken => {}
            pending::Answer::Late(correlation_id) => {
                self.counters.late.fetch_add(1, Ordering::Relaxed);
                self.asked.record_dropped("late");
                tracing::debug!(correlation_id, "dropped a late reply");
            }
            pending::Answer::Unknown(correlation_id) => {
                self.counters.unknown.fetch_add(1, Ordering::Relaxed);
                self.asked.record_dropped("unknown");
                tracing::warn!(correlation_id, "dropped a reply to an unknown request");
            }
        }
    }
}

#[cfg(test)]
mod tests;
