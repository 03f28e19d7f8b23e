//! The answering end of a call: runs each request at most once and answers it once.
//!
//! A [`Service`] knows its messages and its work; the responder around it knows everything about
//! delivery. In order: a request that cannot be read is answered or becomes a dead letter; one that
//! the service does not authorize is refused; one that is known already gets the outcome that it
//! had; one that somebody else started and did not finish ends as "outcome unknown"; one whose
//! deadline is over is not started; the rest run, with signs of life to the caller, until they end,
//! are cancelled, or are out of time.

mod cancel;
mod control;
mod heartbeat;
mod key;
mod outbox;
mod outcome_memory;
mod parked;
mod queries;
mod questions;
mod room;
mod worker;

use std::borrow::Cow;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{BoxFuture, join_all};
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};
use toolbus_wire::header::Headers;
use toolbus_wire::message::tool::CallIds;
use toolbus_wire::name::InstanceId;
use toolbus_wire::{Envelope, ErrorCode, Execution, Message, Topic, json, topic};

use crate::clock::PeerClocks;
use crate::deadline::REQUEST_TIMEOUT_MAX;
use crate::metrics::Answered;
pub use crate::parked_request::ParkedRequest;
use crate::port::{Bus, Consumer, Flow, Handler, SubscribeError, Subscription};
use crate::slot::Slot;
use crate::{CallContext, TopicPattern};
use cancel::Cancels;
pub(crate) use control::FLOW as CONTROL_FLOW;
use control::{ControlConsumers, ControlReader};
use heartbeat::Heartbeats;
pub use key::CallKey;
use outbox::Outbox;
pub(crate) use outbox::{NOTIFICATIONS_BYTES_MAX, REPLIES_BYTES_MAX};
use outcome_memory::OutcomeMemory;
pub(crate) use outcome_memory::{BYTES_MAX as OUTCOMES_BYTES_MAX, KNOWN_BYTES_MAX};
pub use outcome_memory::{OUTCOME_TTL, REMEMBERED_BYTES};
use parked::ParkedCalls;
use queries::CallQueries;
use questions::{Asks, OpenQuestions};
pub use room::LARGE_REQUESTS_BYTES;
use room::RequestRoom;
pub(crate) use room::requests_bytes_max;
use worker::{RequestHandler, Worker};

/// One kind of request: how it is read, done, and answered.
pub trait Service: Send + Sync + 'static {
    /// A request, read and checked for its form.
    type Request: Send + 'static;

    /// Reads a request.
    ///
    /// # Errors
    /// A reply that says what is wrong with it.
    fn parse(&self, envelope: &Envelope) -> Result<Call<Self::Request>, Malformed>;

    /// Says whether a request may be made at all, before anything else becomes of it: one that may
    /// not is answered with the refusal, which is not remembered, and learns of no other's outcome.
    ///
    /// # Errors
    /// The reply that refuses it.
    fn authorize(&self, call: &Call<Self::Request>, received: Received<'_>) -> Result<(), Reply> {
        let _ = (call, received);
        Ok(())
    }

    /// The topic of the worker that a request is for, if that is not this one. A request that was
    /// not begun is passed on as it is, and answered there.
    fn forward_to(&self, request: &Self::Request, received: Received<'_>) -> Option<Topic> {
        let _ = (request, received);
        None
    }

    /// Does the work. The future is dropped when time is up, so what it started must end with it.
    fn serve(&self, request: Self::Request, context: Context) -> BoxFuture<'_, Reply>;

    /// The reply to a request that has no outcome of its own.
    fn fail(&self, ids: &CallIds, failure: Failure) -> Reply;

    /// Where replies go when the request names no topic. `None`: such a request is a dead letter.
    fn default_reply_topic(&self) -> Option<Topic>;

    /// The sender's name on replies.
    fn source(&self) -> &str;
}

/// A request that was read.
pub struct Call<R> {
    /// The call's id and its tool, as the caller names them.
    pub ids: CallIds,
    /// What is asked for.
    pub request: R,
    /// How long it may take when the caller does not say.
    pub default_budget: Duration,
    /// Whether it may run again when nobody knows whether it ran.
    pub repeat: Repeat,
}

/// A request as it came.
#[derive(Debug, Clone, Copy)]
pub struct Received<'a> {
    /// The topic that its caller sent it to.
    pub topic: &'a Topic,
    /// The message.
    pub envelope: &'a Envelope,
    /// It came before, to a worker that did not answer it, and that may have started it.
    pub redelivered: bool,
}

/// Whether a call may run twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeat {
    /// It may have side effects: once at most.
    Never,
    /// It is declared idempotent or read-only.
    Harmless,
    /// The service finds out whether it ran: [`Context::redelivered`] asks for that.
    FoundOut,
}

/// A request that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Malformed {
    /// As much of its ids as could be read.
    pub ids: CallIds,
    /// What is wrong, for the caller.
    pub reason: String,
}

/// Why a call has no outcome of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The request cannot be read; the text says why.
    Malformed(String),
    /// Time was up.
    Timeout {
        /// What the caller asked for.
        asked: Duration,
        /// Whether the work was started.
        execution: Execution,
    },
    /// The caller cancelled it.
    Cancelled {
        /// Whether the work was started.
        execution: Execution,
    },
    /// There is no room for a request of its size. It was not started.
    Busy,
    /// It was started before, by a worker that was lost.
    OutcomeUnknown,
    /// The work panicked.
    Crashed,
    /// The outcome is too large for a message.
    TooLarge {
        /// Its size.
        bytes: usize,
    },
}

impl Failure {
    /// Which of them it is, for metrics: the code that callers of tools are told.
    fn label(&self) -> &'static str {
        let code = match self {
            Self::Malformed(_) => ErrorCode::InvalidArguments,
            Self::Timeout { .. } => ErrorCode::Timeout,
            Self::Cancelled { .. } => ErrorCode::Cancelled,
            Self::Busy => ErrorCode::Busy,
            Self::OutcomeUnknown => ErrorCode::OutcomeUnknown,
            Self::Crashed | Self::TooLarge { .. } => ErrorCode::ExecutionFailed,
        };
        code.label()
    }

    /// Whether the work was started.
    #[must_use]
    pub fn execution(&self) -> Execution {
        match self {
            Self::Malformed(_) | Self::Busy => Execution::NotStarted,
            Self::Timeout { execution, .. } | Self::Cancelled { execution } => *execution,
            Self::OutcomeUnknown => Execution::Unknown,
            Self::Crashed | Self::TooLarge { .. } => Execution::Started,
        }
    }
}

/// What a service says of [`Failure::Busy`].
pub const NO_ROOM: &str = "the worker holds too many bytes of other requests";

/// A reply, ready to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The body's type.
    pub message_type: Cow<'static, str>,
    /// The body.
    pub body: Bytes,
    /// Headers beside those of every message.
    pub headers: Headers,
    /// The code of the error that it tells of, for metrics and spans: one of a fixed set.
    pub error: Option<&'static str>,
}

impl Reply {
    /// A reply that carries this body.
    #[must_use]
    pub fn of<M: Message>(body: &M) -> Self {
        let (message_type, body) = (M::TYPE.into(), json::write(body));
        Self { message_type, body, headers: Headers::new(), error: None }
    }

    /// The same reply, which tells of an error of this code.
    #[must_use]
    pub fn failing(self, code: &'static str) -> Self {
        Self { error: Some(code), ..self }
    }

    /// The message that carries the reply.
    fn into_envelope(self, source: &str, correlation_id: Option<String>) -> Envelope {
        let mut envelope = Envelope::new(self.message_type, source, self.body);
        envelope.correlation_id = correlation_id;
        envelope.headers = self.headers;
        envelope
    }
}

/// What surrounds a call that runs.
pub struct Context {
    /// The request, as it came.
    pub envelope: Arc<Envelope>,
    /// The call's identity, which it keeps when it comes again, here or at another worker.
    pub key: CallKey,
    /// The call came before, and may have been started by a worker that was lost. Only calls that
    /// may run again come to a service then, and those of which it finds out.
    pub redelivered: bool,
    /// What the call brings along. Its deadline is earlier than the caller's own, so that the
    /// answer is there in time.
    pub call: CallContext,
    /// The delivery that the call holds, which is freed when the call is parked.
    pub slot: Slot,
}

impl Context {
    /// Who asked, as the message says.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.envelope.source
    }

    /// The request's headers.
    #[must_use]
    pub fn headers(&self) -> &Headers {
        &self.envelope.headers
    }
}

/// How a responder hears its requests.
#[derive(Debug, Clone)]
pub struct Listen {
    /// The topic of the requests.
    pub topic: Topic,
    /// Name of the subscription, shared by all workers of the kind.
    pub subscription: String,
    /// This worker's own name among them, new for each process.
    pub instance: InstanceId,
    /// How many calls run at a time. Of those that were parked and go on, as many run beside them.
    pub concurrency: NonZeroU16,
    /// How many bytes its requests of more than 64 KiB may have together. One that finds no room
    /// is refused as busy, so this is at least one of the largest.
    pub large_requests_bytes: usize,
}

/// A service at work. Stop it with [`Responder::stop`].
pub struct Responder {
    bus: Arc<dyn Bus>,
    subscription: Subscription,
    handler: Arc<dyn Handler>,
    /// The last one takes requests, unless it is paused; those before it end what they have.
    consumers: Vec<Consumer>,
    control: ControlConsumers,
    outbox: Outbox,
    heartbeats: Heartbeats,
    parked: ParkedCalls,
    take_up: TakeUp,
    _expire_parked: DropGuard,
}

/// Takes up one request that was parked.
type TakeUp = Box<dyn Fn(ParkedRequest) + Send + Sync>;

impl Responder {
    /// Starts to answer requests.
    ///
    /// # Errors
    /// When a queue cannot be had.
    pub async fn start(
        bus: Arc<dyn Bus>,
        listen: Listen,
        service: impl Service,
    ) -> Result<Self, SubscribeError> {
        Self::resume(bus, listen, Vec::new(), service).await
    }

    /// Starts to answer requests, and goes on with those that an earlier process has left parked,
    /// before any new one.
    ///
    /// # Errors
    /// When a queue cannot be had.
    pub async fn resume(
        bus: Arc<dyn Bus>,
        listen: Listen,
        parked_requests: Vec<ParkedRequest>,
        service: impl Service,
    ) -> Result<Self, SubscribeError> {
        let subscription = Subscription::durable(
            listen.subscription.clone(),
            TopicPattern::from(listen.topic.clone()),
            Flow::Concurrent(listen.concurrency),
        );

        let prepared = PreparedResponder::start(&bus, listen, service).await?;
        // They are known at once, and started when nothing can keep this responder from working.
        let held_back = prepared.parked.hold_back();
        for request in parked_requests {
            prepared.take_up(request);
        }

        let handler = Arc::clone(&prepared.handler) as Arc<dyn Handler>;
        let requests = bus.subscribe(subscription.clone(), Arc::clone(&handler)).await?;
        drop(held_back);
        prepared.opened.cancel();

        let PreparedResponder { worker, control, outbox, heartbeats, parked, .. } = prepared;
        let _expire_parked = parked.expire_guard();
        let parked_calls = parked.clone();
        let take_up = Box::new(move |request| take_up(&worker, &parked_calls, request));
        Ok(Self {
            bus,
            subscription,
            handler,
            consumers: vec![requests],
            control,
            outbox,
            heartbeats,
            parked,
            take_up,
            _expire_parked,
        })
    }

    /// Takes up a request that was left to a store, here or by another process. One that is under
    /// way here is not run twice.
    pub fn take_up(&self, request: ParkedRequest) {
        (self.take_up)(request);
    }

    /// Takes no more requests for now, and leaves them to other workers. Those that it has go on,
    /// and can be cancelled. While no worker takes any, callers are told that there is none.
    pub fn pause(&mut self) {
        self.consumers.iter().for_each(Consumer::stop_taking);
    }

    /// Takes requests again.
    ///
    /// # Errors
    /// When the queue cannot be had. The responder is paused as before.
    pub async fn unpause(&mut self) -> Result<(), SubscribeError> {
        if self.consumers.last().is_some_and(Consumer::is_taking) {
            return Ok(());
        }

        let handler = Arc::clone(&self.handler);
        let requests = self.bus.subscribe(self.subscription.clone(), handler).await?;
        self.consumers.retain(|consumer| !consumer.has_ended());
        self.consumers.push(requests);
        Ok(())
    }

    /// Takes no more requests, waits up to `grace` for those that run, and gives the rest back.
    /// Parked calls end at once: as cancelled, or without a word where they are kept in a store.
    pub async fn stop(self, grace: Duration) {
        let ends_at = Instant::now() + grace.min(REQUEST_TIMEOUT_MAX);
        join_all(self.consumers.into_iter().map(|consumer| consumer.stop(grace))).await;
        self.parked.stop(ends_at.saturating_duration_since(Instant::now())).await;
        self.control.stop().await;
        self.heartbeats.stop().await;
        self.outbox.stop().await;
    }
}

/// A responder that hears cancel messages, and no requests yet.
struct PreparedResponder<S> {
    worker: Arc<Worker<S>>,
    handler: Arc<RequestHandler<S>>,
    /// Fires when requests may be answered.
    opened: CancellationToken,
    control: ControlConsumers,
    outbox: Outbox,
    heartbeats: Heartbeats,
    parked: ParkedCalls,
}

impl<S: Service> PreparedResponder<S> {
    async fn start(bus: &Arc<dyn Bus>, listen: Listen, service: S) -> Result<Self, SubscribeError> {
        let stop = CancellationToken::new();
        let outbox = Outbox::start(Arc::clone(bus), service.source(), stop.clone());
        let questions = Arc::new(OpenQuestions::default());
        let inbox = topic::tool_worker(&listen.instance);
        let (source, own) = (service.source(), inbox.clone());
        let clocks = Arc::new(PeerClocks::new());
        let queries =
            CallQueries::new(Arc::clone(bus), source, &listen.instance, own, Arc::clone(&clocks));
        let queries = Arc::new(queries);
        let asks =
            Asks::new(Arc::clone(bus), outbox.clone(), source, inbox, Arc::clone(&questions));
        let cancels = Arc::new(Cancels::default());
        let memory = OutcomeMemory::default();
        let parked = ParkedCalls::new(listen.concurrency.get());
        let (instance, calls) = (&listen.instance, Arc::clone(&cancels));
        let heartbeats = Heartbeats::start(outbox.clone(), instance, calls, stop.clone());
        // Whatever ends the worker ends what works for it: also a start that fails, a responder
        // that is dropped, a bus that is closed.
        let end = stop.drop_guard();

        // Cancels first: no request may run that cannot be cancelled.
        let control = ControlReader {
            cancels: Arc::clone(&cancels),
            queries: Arc::clone(&queries),
            questions,
            memory: memory.clone(),
            outbox: outbox.clone(),
        };
        let control = control.subscribe(&**bus, &listen.subscription, &listen.instance).await?;
        let worker = Arc::new(Worker {
            bus: Arc::clone(bus),
            service,
            memory,
            clocks,
            cancels,
            room: RequestRoom::new(listen.concurrency, listen.large_requests_bytes),
            outbox: outbox.clone(),
            heartbeats: heartbeats.clone(),
            asks,
            queries,
            answered: Answered::new(listen.topic.template()),
            _end: end,
        });

        let opened = CancellationToken::new();
        let handler = RequestHandler::new(Arc::clone(&worker), parked.clone(), opened.clone());
        let handler = Arc::new(handler);
        Ok(Self { worker, handler, opened, control, outbox, heartbeats, parked })
    }

    /// Takes up a request that an earlier process has left parked.
    fn take_up(&self, request: ParkedRequest) {
        take_up(&self.worker, &self.parked, request);
    }
}

/// Answers a request that was parked, as if it came in now.
fn take_up<S: Service>(worker: &Arc<Worker<S>>, parked: &ParkedCalls, request: ParkedRequest) {
    let worker = Arc::clone(worker);
    let deadline = Some(request.deadline());
    let delivery = request.into_delivery();
    parked.take_up(|slot| Box::pin(worker.answer(delivery, slot, deadline)));
}

/// A service that answers the requests of several queues, which come and go. Stop it with
/// [`MultiQueueResponder::stop`].
pub struct MultiQueueResponder {
    bus: Arc<dyn Bus>,
    handler: Arc<dyn Handler>,
    control: ControlConsumers,
    outbox: Outbox,
    heartbeats: Heartbeats,
}

impl MultiQueueResponder {
    /// Starts without any queue. Of `listen`, the topic is the requests' name in metrics, and the
    /// small requests of all queues have as much room as so many of the largest small ones.
    ///
    /// # Errors
    /// When it cannot hear cancel messages.
    pub async fn start(
        bus: Arc<dyn Bus>,
        listen: Listen,
        service: impl Service,
    ) -> Result<Self, SubscribeError> {
        let prepared = PreparedResponder::start(&bus, listen, service).await?;
        prepared.opened.cancel();
        let PreparedResponder { handler, control, outbox, heartbeats, .. } = prepared;
        Ok(Self { bus, handler, control, outbox, heartbeats })
    }

    /// Answers the requests of one more queue, until the consumer is stopped.
    ///
    /// # Errors
    /// When the queue cannot be had.
    pub async fn take_requests(
        &self,
        subscription: Subscription,
    ) -> Result<Consumer, SubscribeError> {
        self.bus.subscribe(subscription, Arc::clone(&self.handler)).await
    }

    /// Ends what works for it, once its consumers have been stopped.
    pub async fn stop(self) {
        self.control.stop().await;
        self.heartbeats.stop().await;
        self.outbox.stop().await;
    }
}

#[cfg(test)]
mod tests;
