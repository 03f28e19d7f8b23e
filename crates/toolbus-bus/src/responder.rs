//! The answering end of a call: runs each request at most once and answers it once.
//!
//! A [`Service`] knows its messages and its work; the responder around it knows everything about
//! delivery. In order: a request that cannot be read is answered or becomes a dead letter; one
//! whose deadline is over is not started; one that is known already gets the outcome that it had;
//! one that somebody else started and did not finish ends as "outcome unknown"; the rest run, with
//! signs of life to the caller, until they end, are cancelled, or are out of time.

mod cancel;
mod heartbeat;
mod key;
mod memory;
mod outbox;
mod parked;
mod questions;

use std::borrow::Cow;
use std::num::NonZeroU16;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};
use toolbus_wire::header::{self, Headers};
use toolbus_wire::message::tool::CallIds;
use toolbus_wire::message::toolbus::ToolCancel;
use toolbus_wire::name::InstanceId;
use toolbus_wire::{Envelope, ErrorCode, Execution, Message, Topic, json, topic};

use crate::metrics::{Answered, AtWork};
use crate::port::{
    BODY_BYTES_MAX, Bus, Consumer, Delivery, Disposition, Flow, Handler, SubscribeError,
    Subscription,
};
use crate::slot::{Slot, SlotRequest};
use crate::{CallContext, Deadline, Progress, TopicPattern};
use cancel::{Cancels, Name};
use heartbeat::Vitals;
pub use key::CallKey;
use memory::{Memory, Recalled};
pub use memory::{OUTCOME_TTL, REMEMBERED_BYTES};
use outbox::Outbox;
use parked::ParkedCalls;
pub use parked::ParkedRequest;
use questions::Asks;

/// How long work that was told to stop may take to tidy up before it is dropped.
const CANCEL_GRACE: Duration = Duration::from_millis(300);
/// Why a request becomes a dead letter that nobody can be told the outcome of.
const NO_REPLY_TOPIC: &str = "the request names no reply topic";

/// One kind of request: how it is read, done, and answered.
pub trait Service: Send + Sync + 'static {
    /// A request, read and checked for its form.
    type Request: Send + 'static;

    /// Reads a request.
    ///
    /// # Errors
    /// A reply that says what is wrong with it.
    fn parse(&self, envelope: &Envelope) -> Result<Call<Self::Request>, Malformed>;

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
            Self::OutcomeUnknown => ErrorCode::OutcomeUnknown,
            Self::Crashed | Self::TooLarge { .. } => ErrorCode::ExecutionFailed,
        };
        code.label()
    }

    /// Whether the work was started.
    #[must_use]
    pub fn execution(&self) -> Execution {
        match self {
            Self::Malformed(_) => Execution::NotStarted,
            Self::Timeout { execution, .. } | Self::Cancelled { execution } => *execution,
            Self::OutcomeUnknown => Execution::Unknown,
            Self::Crashed | Self::TooLarge { .. } => Execution::Started,
        }
    }
}

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
}

/// A service at work. Stop it with [`Responder::stop`].
pub struct Responder {
    requests: Consumer,
    cancels: Consumer,
    outbox: Outbox,
    vitals: Vitals,
    asks: Asks,
    parked: ParkedCalls,
}

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
        let stop = CancellationToken::new();
        // Whatever ends the worker ends what works for it: also a start that fails, a responder
        // that is dropped, a bus that is closed.
        let end = stop.clone().drop_guard();
        let outbox = Outbox::start(Arc::clone(&bus), service.source(), stop.clone());
        let asks =
            Asks::new(Arc::clone(&bus), outbox.clone(), service.source(), &listen.subscription);
        let cancels = Arc::new(Cancels::default());
        let parked = ParkedCalls::new(listen.concurrency.get(), stop.child_token());
        let vitals = Vitals::start(outbox.clone(), &listen.instance, Arc::clone(&cancels), stop);
        let hear_cancels = {
            let cancels = Arc::clone(&cancels);
            move |delivery: Delivery| std::future::ready(take_cancel(&cancels, &delivery.envelope))
        };
        let flow = Flow::Ordered { prefetch: listen.concurrency };
        let subscription = Subscription::private(
            format!("{}.cancel.{}", listen.subscription, listen.instance),
            TopicPattern::from(topic::TOOL_CANCEL),
            flow,
        );

        // Cancels first: no request may run that cannot be cancelled.
        let hear_cancels = bus.subscribe(subscription, Arc::new(hear_cancels)).await?;
        let worker = Arc::new(Worker {
            service,
            topic: listen.topic.clone(),
            memory: Memory::default(),
            cancels,
            outbox: outbox.clone(),
            vitals: vitals.clone(),
            asks: asks.clone(),
            answered: Answered::new(listen.topic.template()),
        });

        for request in parked_requests {
            let worker = Arc::clone(&worker);
            parked.take_up(|slot| Box::pin(worker.answer(request.into_delivery(), slot)));
        }

        let handler = RequestHandler { worker, parked: parked.clone(), _end: end };
        let subscription = Subscription::durable(
            listen.subscription,
            TopicPattern::from(listen.topic),
            Flow::Concurrent(listen.concurrency),
        );
        let requests = bus.subscribe(subscription, Arc::new(handler)).await?;

        Ok(Self { requests, cancels: hear_cancels, outbox, vitals, asks, parked })
    }

    /// Takes no more requests, waits up to `grace` for those that run, and gives the rest back.
    /// Parked calls end at once: as cancelled, or without a word where they are kept in a store.
    pub async fn stop(self, grace: Duration) {
        let ends_at = Instant::now() + grace;
        self.requests.stop(grace).await;
        self.parked.stop(ends_at.saturating_duration_since(Instant::now())).await;
        self.cancels.stop(Duration::ZERO).await;
        self.asks.stop().await;
        self.vitals.stop().await;
        self.outbox.stop().await;
    }
}

fn take_cancel(cancels: &Cancels, envelope: &Envelope) -> Disposition {
    match json::read::<ToolCancel>(&envelope.body) {
        Ok(cancel) => cancels.cancel(&cancel.source, &cancel.tool_call_id),
        Err(error) => tracing::warn!(%error, "a cancel message that cannot be read"),
    }
    Disposition::Ack
}

/// Takes the deliveries of a worker.
struct RequestHandler<S> {
    worker: Arc<Worker<S>>,
    parked: ParkedCalls,
    _end: DropGuard,
}

impl<S: Service> Handler for RequestHandler<S> {
    fn handle(&self, delivery: Delivery) -> BoxFuture<'_, Disposition> {
        let slot = self.parked.slot_of_delivery();
        let answering = Arc::clone(&self.worker).answer(delivery, slot.clone());
        let mut answering = Box::pin(answering);
        Box::pin(async move {
            tokio::select! {
                biased;
                disposition = &mut answering => disposition,
                () = slot.parked() => {
                    self.worker.tell_parked(&slot);
                    self.parked.spawn(answering, slot);
                    Disposition::Ack
                }
            }
        })
    }
}

struct Worker<S> {
    service: S,
    topic: Topic,
    memory: Memory,
    cancels: Arc<Cancels>,
    outbox: Outbox,
    vitals: Vitals,
    asks: Asks,
    answered: Answered,
}

impl<S: Service> Worker<S> {
    async fn answer(self: Arc<Self>, delivery: Delivery, slot: Slot) -> Disposition {
        let Delivery { envelope, redelivered, .. } = delivery;
        let envelope = Arc::new(envelope);
        let record = self.answered.work(&envelope.source);
        let explicit = envelope.reply_to.clone();
        let parsed = self.parse(&envelope);
        let unanswered = |record: AtWork<'_>, reason: Cow<'static, str>| {
            record.end(Some("dead_letter"));
            Disposition::DeadLetter { reason }
        };

        let reply = match (parsed, &explicit) {
            (Err(malformed), Some(_)) => {
                tracing::info!(reason = malformed.reason, "refused a malformed request");
                self.fail(&malformed.ids, Failure::Malformed(malformed.reason))
            }
            (Err(malformed), None) => return unanswered(record, malformed.reason.into()),
            (Ok(_), None) if self.service.default_reply_topic().is_none() => {
                return unanswered(record, NO_REPLY_TOPIC.into());
            }
            (Ok(call), _) => {
                let arrival = Arrival { envelope: &envelope, redelivered, slot };
                self.outcome(call, arrival, &record).await
            }
        };

        let Some(reply_to) = explicit.or_else(|| self.service.default_reply_topic()) else {
            return unanswered(record, NO_REPLY_TOPIC.into());
        };
        record.end(reply.error);
        self.send(&reply_to, &envelope, reply).await;

        Disposition::Ack
    }

    /// The service's reply to a failure, marked as one.
    fn fail(&self, ids: &CallIds, failure: Failure) -> Reply {
        let label = failure.label();
        self.service.fail(ids, failure).failing(label)
    }

    fn parse(&self, envelope: &Envelope) -> Result<Call<S::Request>, Malformed> {
        catch_unwind(AssertUnwindSafe(|| self.service.parse(envelope))).unwrap_or_else(|_| {
            tracing::error!(message_id = envelope.message_id, "a service panicked at a request");
            Err(Malformed {
                ids: CallIds::of_malformed(&envelope.body),
                reason: "the worker panicked when it read the request".to_owned(),
            })
        })
    }

    /// The call's outcome: remembered, shared with a run that is under way, or new.
    async fn outcome(
        &self,
        call: Call<S::Request>,
        arrival: Arrival<'_>,
        record: &AtWork<'_>,
    ) -> Reply {
        let Call { ids, request, default_budget, repeat } = call;
        let key = CallKey::of(arrival.envelope, &ids.tool_call_id);
        let deadline = Deadline::of_request(&arrival.envelope.headers, default_budget);

        let place = match self.memory.recall(key) {
            Recalled::Done(reply) => {
                record.repeats();
                return reply;
            }
            Recalled::Running(run) => {
                record.repeats();
                let outcome = run.outcome().await;
                return outcome.unwrap_or_else(|| self.fail(&ids, Failure::OutcomeUnknown));
            }
            Recalled::New(place) => place,
        };

        let reply = if arrival.redelivered && repeat == Repeat::Never {
            tracing::warn!(
                call_id = ids.tool_call_id,
                "a redelivered call that was started elsewhere: its outcome is unknown"
            );
            self.fail(&ids, Failure::OutcomeUnknown)
        } else if deadline.is_past() {
            let execution = Execution::NotStarted;
            self.fail(&ids, Failure::Timeout { asked: deadline.asked(), execution })
        } else {
            self.run(request, KnownCall { ids: &ids, key, deadline }, arrival).await
        };

        let reply = self.bounded(reply, &ids);
        place.remember(reply.clone());
        reply
    }

    async fn run(&self, request: S::Request, call: KnownCall<'_>, arrival: Arrival<'_>) -> Reply {
        let KnownCall { ids, key, deadline } = call;
        let Arrival { envelope, redelivered, slot } = arrival;
        let running = self.cancels.running(&envelope.source, &ids.tool_call_id);
        if running.token().is_cancelled() {
            return self.fail(ids, Failure::Cancelled { execution: Execution::NotStarted });
        }

        slot.set_request(SlotRequest {
            topic: self.topic.clone(),
            envelope: Arc::clone(envelope),
            deadline,
            cancelled: running.token().clone(),
        });

        let headers = &envelope.headers;
        let topic_of = |name| headers.get(name).and_then(|text| Topic::parse(text).ok());
        let progress_to = topic_of(header::PROGRESS_TO);
        let ask_to = topic_of(header::ASK_TO);
        let _alive =
            progress_to.as_ref().map(|caller| self.vitals.hold(caller, running.name(), &slot));
        let deadline = deadline.for_next_hop();

        // Progress that nobody reads would cost a broker as much as any, and hold up the reply.
        let progress_to = progress_to.filter(|_| headers.get(header::QUIET).is_none());
        let sent = Arc::new(AtomicU64::new(0));
        let asker = self.asks.asker(ask_to, running.name(), deadline, running.token());

        let context = Context {
            envelope: Arc::clone(envelope),
            key,
            redelivered,
            call: CallContext {
                deadline,
                cancelled: running.token().clone(),
                progress: self.progress(progress_to, running.name(), Arc::clone(&sent)),
                asker: asker.with_kinds_header(headers.get(header::ASK_KINDS)),
            },
            slot,
        };

        let reply = match self.serve_in_time(request, context, ids).await {
            Ok(reply) => reply,
            Err(failure) => return self.fail(ids, failure),
        };

        if sent.load(Ordering::Relaxed) > 0 {
            self.outbox.flush().await;
        }

        reply.unwrap_or_else(|_| {
            let (call_id, tool) = (&ids.tool_call_id, &ids.tool_name);
            tracing::error!(call_id, tool, "a service panicked");
            self.fail(ids, Failure::Crashed)
        })
    }

    /// Has the service do the work, until it ends, is cancelled or is out of time.
    ///
    /// # Errors
    /// Why it has no reply of its own.
    async fn serve_in_time(
        &self,
        request: S::Request,
        context: Context,
        ids: &CallIds,
    ) -> Result<std::thread::Result<Reply>, Failure> {
        let slot = context.slot.clone();
        let CallContext { deadline, cancelled, .. } = context.call.clone();
        let work = async {
            // A call that is brought back waits for its turn; any other has its slot.
            match slot.resume().await {
                Ok(()) => self.service.serve(request, context).await,
                Err(_) => self.fail(ids, Failure::Cancelled { execution: slot.execution() }),
            }
        };

        // The work is dropped when its time is over or when it does not end on being told to: the
        // service promises that what it started ends with it.
        let mut work = pin!(AssertUnwindSafe(work).catch_unwind());
        tokio::select! {
            biased;
            reply = &mut work => Ok(reply),
            () = cancelled.cancelled() => {
                let ended = tokio::time::timeout(CANCEL_GRACE, work).await;
                ended.map_err(|_| Failure::Cancelled { execution: slot.execution() })
            }
            () = tokio::time::sleep_until(deadline.at()) => {
                cancelled.cancel();
                let (asked, execution) = (deadline.asked(), slot.execution());
                Err(Failure::Timeout { asked, execution })
            }
        }
    }

    /// Tells the caller of a call that was parked that it is held, and where.
    fn tell_parked(&self, slot: &Slot) {
        let caller = slot.header(header::PROGRESS_TO);
        if let Some(caller) = caller.and_then(|text| Topic::parse(text).ok()) {
            self.vitals.hurry(&caller);
        }
    }

    /// Progress to the topic; `sent` counts it.
    fn progress(&self, topic: Option<Topic>, call: &Arc<Name>, sent: Arc<AtomicU64>) -> Progress {
        let Some(topic) = topic else { return Progress::none() };
        let (outbox, call) = (self.outbox.clone(), Arc::clone(call));
        Progress::to(move |mut progress| {
            progress.tool_call_id = call.call_id.to_string();
            progress.seq = sent.fetch_add(1, Ordering::Relaxed);
            outbox.post(&topic, &progress);
        })
    }

    fn bounded(&self, reply: Reply, ids: &CallIds) -> Reply {
        match reply.body.len() {
            ..=BODY_BYTES_MAX => reply,
            bytes => self.fail(ids, Failure::TooLarge { bytes }),
        }
    }

    async fn send(&self, to: &Topic, request: &Envelope, reply: Reply) {
        let mut envelope = Envelope::new(reply.message_type, self.service.source(), reply.body);
        envelope.correlation_id = request.correlation_id.clone();
        envelope.headers = reply.headers;
        envelope.trace = request.trace.clone();
        self.outbox.deliver(to, envelope).await;
    }
}

/// How a request came.
struct Arrival<'a> {
    envelope: &'a Arc<Envelope>,
    redelivered: bool,
    slot: Slot,
}

/// A call that may run.
struct KnownCall<'a> {
    ids: &'a CallIds,
    key: CallKey,
    /// The caller's own deadline.
    deadline: Deadline,
}

#[cfg(test)]
mod tests;
