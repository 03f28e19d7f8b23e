//! The worker: answers the deliveries of a responder, each once.

use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio_util::sync::{CancellationToken, DropGuard};
use toolbus_wire::clock::unix_now;
use toolbus_wire::header;
use toolbus_wire::message::tool::{CallIds, ID_BYTES_MAX};
use toolbus_wire::message::toolbus::CallState;
use toolbus_wire::{Envelope, Execution, Topic, TraceContext};

use super::cancel::{CallName, Cancels};
use super::heartbeat::{Heartbeats, HeldCall};
use super::outbox::Outbox;
use super::outcome_memory::{Answer, OUTCOME_TTL, OutcomeMemory, Recalled, correlation_id_of};
use super::parked::ParkedCalls;
use super::queries::{CallQueries, QueriedCall};
use super::questions::Asks;
use super::room::RequestRoom;
use super::{
    Call, CallKey, Context, Failure, Malformed, NO_ROOM, Received, Repeat, Reply, Service,
};
use crate::clock::PeerClocks;
use crate::metrics::{Answered, AtWork};
use crate::port::{
    BODY_BYTES_MAX, Bus, DeadLetterBody, Delivery, Disposition, Handler, PublishError,
};
use crate::slot::{Slot, SlotRequest};
use crate::{CallContext, Deadline, Interruption, Progress};

/// How long work that was told to stop may take to tidy up before it is dropped.
pub(super) const CANCEL_GRACE: Duration = Duration::from_millis(300);
/// How long a reply is tried at least, and at most, while the broker is away. Its request holds a
/// slot for as long.
const REPLY_TIMEOUT_MIN: Duration = Duration::from_secs(30);
const REPLY_TIMEOUT_MAX: Duration = OUTCOME_TTL;
/// How often a request may be handed out to workers that do not live to answer it, or lose their
/// connection. Only a quorum queue counts that. From a classic one, a request that may not repeat
/// is run once all the same, and one that may is run until its time is over. One that ends its
/// worker as it is read comes until the broker drops it.
const DELIVERIES_MAX: u32 = 5;
/// By how much the clock of a caller may be behind ours, or ahead of it.
const CLOCKS_GRACE: Duration = Duration::from_secs(300);
/// Why a request becomes a dead letter that nobody can be told the outcome of.
const NO_REPLY_TOPIC: &str = "the request names no reply topic";

/// Takes the deliveries of a worker.
pub(super) struct RequestHandler<S> {
    worker: Arc<Worker<S>>,
    parked: ParkedCalls,
    /// Fires when requests may be answered: not before those that were parked.
    opened: CancellationToken,
    _give_up_parked: DropGuard,
}

impl<S> RequestHandler<S> {
    /// Dropped, it gives up the calls that are parked.
    pub(super) fn new(
        worker: Arc<Worker<S>>,
        parked: ParkedCalls,
        opened: CancellationToken,
    ) -> Self {
        let _give_up_parked = parked.give_up_guard();
        Self { worker, parked, opened, _give_up_parked }
    }
}

impl<S: Service> Handler for RequestHandler<S> {
    fn handle(&self, delivery: Delivery) -> BoxFuture<'_, Disposition> {
        let slot = self.parked.slot_of_delivery();
        let answering = Arc::clone(&self.worker).answer(delivery, slot.clone(), None);
        let mut answering = Box::pin(answering);
        Box::pin(async move {
            self.opened.cancelled().await;
            tokio::select! {
                biased;
                disposition = &mut answering => disposition,
                () = slot.wait_left() => {
                    self.worker.tell_left(&slot).await;
                    Disposition::Ack
                }
                () = slot.wait_parked() => {
                    self.worker.tell_parked(&slot);
                    self.parked.spawn(answering, slot);
                    Disposition::Ack
                }
            }
        })
    }

    fn on_resubscribed(&self) {
        // The queue of cancel messages was lost as well, and may not be there again yet.
        self.worker.queries.note_listening();
    }
}

/// What the deliveries of a responder share.
pub(super) struct Worker<S> {
    pub(super) bus: Arc<dyn Bus>,
    pub(super) service: S,
    pub(super) memory: OutcomeMemory,
    pub(super) clocks: Arc<PeerClocks>,
    pub(super) room: RequestRoom,
    pub(super) cancels: Arc<Cancels>,
    pub(super) outbox: Outbox,
    pub(super) heartbeats: Heartbeats,
    pub(super) asks: Asks,
    pub(super) queries: Arc<CallQueries>,
    pub(super) answered: Answered,
    /// Ends what works for the responder once no call of it runs any more, parked ones included.
    pub(super) _end: DropGuard,
}

impl<S: Service> Worker<S> {
    /// Answers one request. `deadline` is that of a request which was counted from when it came
    /// for the first time; without one the request says how long it may take.
    pub(super) async fn answer(
        self: Arc<Self>,
        delivery: Delivery,
        slot: Slot,
        deadline: Option<Deadline>,
    ) -> Disposition {
        let Delivery { topic, envelope, redelivered, earlier_deliveries, dead_letter_body } =
            delivery;
        let record = self.answered.work(&envelope.source);
        if earlier_deliveries >= DELIVERIES_MAX {
            record.end(Some("dead_letter"));
            return self.refuse_deadly(&envelope, earlier_deliveries).await;
        }

        let share = self.room.reserve(envelope.body.len());
        let has_share = share.is_some();
        slot.hold_arrival_room(share);
        let is_addressed = envelope.reply_to.is_some();
        let reply_to = envelope.reply_to.clone().or_else(|| self.service.default_reply_topic());
        let names = ReplyNames::of(&envelope);
        let parsed = self.parse(&envelope);
        let unanswered = |record: AtWork<'_>, reason: Cow<'static, str>| {
            record.end(Some("dead_letter"));
            Disposition::DeadLetter { reason }
        };

        let mut caller_deadline = None;
        let mut held_call = None;
        let mut room = None;
        let (reply, reply_to) = match (parsed, reply_to) {
            (Err(malformed), Some(reply_to)) if is_addressed => {
                tracing::info!(reason = malformed.reason, "refused a malformed request");
                drop(envelope);
                (self.fail(&malformed.ids, Failure::Malformed(malformed.reason)), reply_to)
            }
            (Err(malformed), _) => return unanswered(record, malformed.reason.into()),
            (Ok(_), None) => return unanswered(record, NO_REPLY_TOPIC.into()),
            (Ok(call), Some(reply_to)) => {
                let arrival = Arrival {
                    topic: sent_to(topic, &envelope),
                    envelope: Arc::new(envelope),
                    // A request that was parked has its room there.
                    has_room: has_share || deadline.is_some(),
                    dead_letter_body: dead_letter_body.clone(),
                    reply_to: &reply_to,
                    redelivered,
                    slot: slot.clone(),
                    deadline,
                };
                let Some(outcome) = self.outcome(call, arrival, &record).await else {
                    record.end(None);
                    return Disposition::Ack;
                };
                caller_deadline = outcome.deadline;
                held_call = outcome.held_call;
                room = self.outbox.reserve_reply(outcome.reply.body.len());
                let reply =
                    if room.is_some() { outcome.reply } else { self.give_up_reply(&outcome.ids) };
                (reply, reply_to)
            }
        };
        record.end(reply.error);
        dead_letter_body.release();
        // Until its caller has the reply, it hears that the call is held.
        let left = caller_deadline.map_or(Duration::ZERO, |deadline| deadline.left());
        let limit = Deadline::after(left.clamp(REPLY_TIMEOUT_MIN, REPLY_TIMEOUT_MAX));
        let reply = self.address(names, reply);
        self.outbox.deliver(&reply_to, reply, room, limit).await;
        drop(held_call);
        slot.free_arrival_room();

        Disposition::Ack
    }

    /// Answers a request that nobody who had it lived to answer, without reading it: it may be what
    /// ends its worker.
    async fn refuse_deadly(&self, envelope: &Envelope, deliveries: u32) -> Disposition {
        let reason = format!("it was handed out {deliveries} times before, and nobody answered");
        tracing::error!(message_id = envelope.message_id, deliveries, "a request ends its workers");

        if let Some(reply_to) = &envelope.reply_to {
            let reply = self.fail_unknown(&CallIds::of_malformed(&envelope.body), envelope);
            let reply = self.address(ReplyNames::of(envelope), reply);
            self.outbox.deliver(reply_to, reply, None, Deadline::after(REPLY_TIMEOUT_MIN)).await;
        }

        Disposition::DeadLetter { reason: reason.into() }
    }

    /// What a call is answered with whose reply has no room among those that wait for the broker or
    /// for their callers.
    fn give_up_reply(&self, ids: &CallIds) -> Reply {
        tracing::warn!(call_id = ids.tool_call_id, "dropped a reply: too many bytes of them wait");
        self.fail(ids, Failure::OutcomeUnknown)
    }

    /// The service's reply to a failure, marked as one.
    fn fail(&self, ids: &CallIds, failure: Failure) -> Reply {
        let label = failure.label();
        self.service.fail(ids, failure).failing(label)
    }

    /// The reply for a call that another worker may have. That one may live, and have lost its
    /// connection only, so a caller that can hear it takes the reply as tentative.
    fn fail_unknown(&self, ids: &CallIds, request: &Envelope) -> Reply {
        let mut reply = self.fail(ids, Failure::OutcomeUnknown);
        if takes_heartbeats(request) {
            reply.headers.set(header::TENTATIVE, "1");
        }
        reply
    }

    fn parse(&self, envelope: &Envelope) -> Result<Call<S::Request>, Malformed> {
        let parsed = catch_unwind(AssertUnwindSafe(|| self.service.parse(envelope)));
        let call = parsed.unwrap_or_else(|_| {
            tracing::error!(message_id = envelope.message_id, "a service panicked at a request");
            Err(Malformed {
                ids: CallIds::of_malformed(&envelope.body),
                reason: "the worker panicked when it read the request".to_owned(),
            })
        })?;

        // Every heartbeat repeats it.
        match call.ids.tool_call_id.len() {
            ..=ID_BYTES_MAX => Ok(call),
            bytes => Err(Malformed {
                ids: call.ids.truncate(),
                reason: format!("the id of a call has {bytes} bytes, over {ID_BYTES_MAX}"),
            }),
        }
    }

    /// The call's outcome: remembered, shared with a run that is under way, or new. `None` where
    /// the call itself answers its caller, and this request is nothing but a copy of it.
    async fn outcome(
        &self,
        call: Call<S::Request>,
        arrival: Arrival<'_>,
        record: &AtWork<'_>,
    ) -> Option<CallOutcome> {
        let key = CallKey::of(&arrival.envelope, &call.ids.tool_call_id);
        let received = arrival.received();
        if let Err(refusal) = self.service.authorize(&call, received) {
            // A refusal goes where the call's own answer goes, so a copy must not get one.
            return (!self.memory.knows(key)).then(|| CallOutcome::of(refusal, call.ids));
        }

        let Call { ids, request, default_budget, repeat } = call;
        let deadline = arrival.deadline.unwrap_or_else(|| {
            Deadline::of_request(&arrival.envelope, default_budget, &self.clocks)
        });

        let place = match self.memory.recall(key, &arrival.envelope, &arrival.slot) {
            Recalled::Done(reply) => {
                record.mark_repeat();
                return Some(CallOutcome::of(reply, ids).with_deadline(deadline));
            }
            Recalled::Forgotten if repeat == Repeat::Never => {
                record.mark_repeat();
                return Some(CallOutcome::of(self.fail(&ids, Failure::OutcomeUnknown), ids));
            }
            Recalled::Forgotten => self.memory.reserve(key, &arrival.envelope, &arrival.slot),
            Recalled::Running(run) => {
                record.mark_repeat();
                // It may be parked for a day, and a copy that waits with it would hold a delivery.
                if run.slot().will_answer_later(&arrival.envelope) {
                    return None;
                }

                drop((request, arrival.without_body()));
                let outcome = run.outcome().await;
                let reply = outcome.unwrap_or_else(|| self.fail(&ids, Failure::OutcomeUnknown));
                return Some(CallOutcome::of(reply, ids).with_deadline(deadline));
            }
            Recalled::New(place) => place,
        };

        let (request, arrival) = match arrival.has_room {
            true => (Some(request), arrival),
            false => (None, arrival.without_body()),
        };

        let mut held_call = None;
        let (to, correlation_id) =
            (arrival.reply_to.clone(), arrival.envelope.correlation_id.clone());
        let call = NamedCall { ids: &ids, key, deadline };
        let to_other = |request: &S::Request| self.service.forward_to(request, arrival.received());
        let to_other = request.as_ref().and_then(to_other);
        let reply = match self.find_obstacle(&call, &arrival, repeat).await {
            Obstacle::None if self.has_forwarded(to_other, &call, &arrival).await => return None,
            Obstacle::None => match request {
                Some(request) => self.run(request, call, arrival, &mut held_call).await,
                None => self.refuse_large(&ids, &arrival),
            },
            Obstacle::Reply(reply) => reply,
            Obstacle::NoReply => return None,
        };

        let reply = self.within_limit(reply, &ids);
        place.remember(Answer { reply: reply.clone(), to, correlation_id });
        Some(CallOutcome { reply, ids, deadline: Some(deadline), held_call })
    }

    /// What keeps a call that is new here from being run.
    async fn find_obstacle(
        &self,
        call: &NamedCall<'_>,
        arrival: &Arrival<'_>,
        repeat: Repeat,
    ) -> Obstacle {
        let NamedCall { ids, deadline, .. } = *call;
        if arrival.redelivered && repeat == Repeat::Never {
            return self.wait_for_other_worker(call, arrival).await;
        }
        let may_repeat = repeat == Repeat::Harmless;
        let is_overdue = arrival.redelivered && may_repeat && is_overdue(arrival, deadline);
        if deadline.is_past() || is_overdue {
            let execution = execution_before(arrival.redelivered);
            let failure = Failure::Timeout { asked: deadline.asked(), execution };
            return Obstacle::Reply(self.fail(ids, failure));
        }

        let envelope = &*arrival.envelope;
        let is_new = arrival.deadline.is_none();
        let Some(caller) = topic_in(envelope, header::STATUS_TO)
            // One that was kept may have been given up while nobody had it.
            .filter(|_| !is_new || self.queries.may_be_cancelled_unheard(envelope))
        else {
            return Obstacle::None;
        };

        let call_id = &ids.tool_call_id;
        match self.queries.ask_caller(&caller, &queried(ids, envelope), deadline).await {
            Some(CallState::Abandoned) => {
                tracing::info!(call_id, "dropped a request that its caller has given up");
                Obstacle::NoReply
            }
            Some(_) => Obstacle::None,
            None => {
                tracing::info!(call_id, "a request is not started: its caller does not answer");
                let execution = execution_before(arrival.redelivered);
                Obstacle::Reply(self.fail(ids, Failure::Cancelled { execution }))
            }
        }
    }

    /// Passes a request on to the worker whose it is, if that is another. Whether that one has it
    /// is not known when the broker goes away meanwhile; its caller hears it then, or hears nobody.
    async fn has_forwarded(
        &self,
        to: Option<Topic>,
        call: &NamedCall<'_>,
        arrival: &Arrival<'_>,
    ) -> bool {
        let Some(topic) = to else { return false };
        let call_id = &call.ids.tool_call_id;
        let mut envelope = Envelope::clone(&arrival.envelope);
        envelope.headers.set(header::FORWARDED_FROM, arrival.topic.as_str());
        if envelope.expires_after.is_some() {
            envelope.expires_after = Some(call.deadline.left());
        }

        match self.bus.publish(&topic, envelope).await {
            Ok(()) | Err(PublishError::Unconfirmed) => {
                tracing::debug!(call_id, %topic, "passed a request on");
                true
            }
            Err(error) => {
                tracing::info!(call_id, %topic, %error, "could not pass a request on");
                false
            }
        }
    }

    /// A call that was handed out before may be running at a worker that lives, and then that one
    /// answers it. Most callers find out by themselves who has the call; for the others, the
    /// workers are asked.
    async fn wait_for_other_worker(&self, call: &NamedCall<'_>, arrival: &Arrival<'_>) -> Obstacle {
        let NamedCall { ids, deadline, .. } = *call;
        let (envelope, call_id) = (&*arrival.envelope, &ids.tool_call_id);
        tracing::warn!(call_id, "a redelivered call may have been started elsewhere");

        if !takes_heartbeats(envelope)
            && self.queries.wait_for_other_worker(&queried(ids, envelope), deadline).await
        {
            tracing::info!(call_id, "a redelivered call was answered by another worker");
            return Obstacle::NoReply;
        }
        Obstacle::Reply(self.fail_unknown(ids, envelope))
    }

    /// What a call is answered with for whose request there is no room.
    fn refuse_large(&self, ids: &CallIds, arrival: &Arrival<'_>) -> Reply {
        tracing::info!(call_id = ids.tool_call_id, "refused a request: {NO_ROOM}");
        match arrival.redelivered {
            true => self.fail_unknown(ids, &arrival.envelope),
            false => self.fail(ids, Failure::Busy),
        }
    }

    /// Runs a call; `held_call` is what its caller is told of it by heartbeats.
    async fn run(
        &self,
        request: S::Request,
        call: NamedCall<'_>,
        arrival: Arrival<'_>,
        held_call: &mut Option<HeldCall>,
    ) -> Reply {
        let NamedCall { ids, key, deadline } = call;
        let Arrival { topic, envelope, redelivered, slot, .. } = arrival;
        let running = self.cancels.register(&envelope.source, &ids.tool_call_id);
        if running.token().is_cancelled() {
            let execution = execution_before(redelivered);
            return self.fail(ids, Failure::Cancelled { execution });
        }

        slot.set_request(SlotRequest {
            topic,
            envelope: Arc::clone(&envelope),
            deadline,
            cancelled: running.token().clone(),
        });

        let headers = &envelope.headers;
        let progress_to = topic_in(&envelope, header::PROGRESS_TO);
        let ask_to = topic_in(&envelope, header::ASK_TO);
        *held_call =
            progress_to.as_ref().map(|caller| self.heartbeats.hold(caller, running.name(), &slot));
        let deadline = deadline.for_next_hop();

        // Progress that nobody reads would cost a broker as much as any, and hold up the reply.
        let progress_to = progress_to.filter(|_| headers.get(header::QUIET).is_none());
        let sent = Arc::new(AtomicU64::new(0));
        // A call that goes on for longer may ask for as long.
        let asker = self.asks.asker(ask_to, running.name(), deadline.at_latest(), running.token());

        let context = Context {
            envelope: Arc::clone(&envelope),
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
            self.outbox.flush_notifications().await;
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
        let CallContext { deadline, cancelled, progress, .. } = context.call.clone();
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
        let ended = deadline.enforce_with(&progress, &cancelled, CANCEL_GRACE, work.as_mut()).await;
        ended.map_err(|interruption| {
            let execution = slot.execution();
            match interruption {
                Interruption::Cancelled => Failure::Cancelled { execution },
                Interruption::TimedOut => {
                    cancelled.cancel();
                    Failure::Timeout { asked: deadline.asked(), execution }
                }
            }
        })
    }

    /// Tells the caller of a call that was parked that it is held, and where.
    fn tell_parked(&self, slot: &Slot) {
        let caller = slot.header(header::PROGRESS_TO);
        if let Some(caller) = caller.and_then(|text| Topic::parse(text).ok()) {
            self.heartbeats.send_soon(&caller);
        }
    }

    /// Tells the caller of a call that is left to its store that it is kept, so that it takes no
    /// silence for a loss.
    async fn tell_left(&self, slot: &Slot) {
        let caller = slot.header(header::PROGRESS_TO);
        if let Some(caller) = caller.and_then(|text| Topic::parse(text).ok()) {
            self.heartbeats.send_now(&caller).await;
        }
    }

    /// Progress to the topic; `sent` counts it.
    fn progress(
        &self,
        topic: Option<Topic>,
        call: &Arc<CallName>,
        sent: Arc<AtomicU64>,
    ) -> Progress {
        let Some(topic) = topic else { return Progress::none() };
        let (outbox, call) = (self.outbox.clone(), Arc::clone(call));
        Progress::to(move |mut progress| {
            progress.tool_call_id = call.call_id.to_string();
            progress.seq = sent.fetch_add(1, Ordering::Relaxed);
            outbox.post_notification(&topic, &progress);
        })
    }

    fn within_limit(&self, reply: Reply, ids: &CallIds) -> Reply {
        match reply.body.len() {
            ..=BODY_BYTES_MAX => reply,
            bytes => self.fail(ids, Failure::TooLarge { bytes }),
        }
    }

    /// The message that carries the reply to a request.
    fn address(&self, names: ReplyNames, reply: Reply) -> Envelope {
        let mut envelope = reply.into_envelope(self.service.source(), names.correlation_id);
        envelope.trace = names.trace;
        envelope
    }
}

/// What a reply repeats of its request.
struct ReplyNames {
    correlation_id: Option<String>,
    trace: Option<TraceContext>,
}

impl ReplyNames {
    fn of(request: &Envelope) -> Self {
        Self { correlation_id: request.correlation_id.clone(), trace: request.trace.clone() }
    }
}

/// What a request is answered with.
struct CallOutcome {
    reply: Reply,
    ids: CallIds,
    /// When its caller stops waiting, where that is known.
    deadline: Option<Deadline>,
    /// Dropped once the caller has the reply.
    held_call: Option<HeldCall>,
}

impl CallOutcome {
    fn of(reply: Reply, ids: CallIds) -> Self {
        Self { reply, ids, deadline: None, held_call: None }
    }

    fn with_deadline(self, deadline: Deadline) -> Self {
        Self { deadline: Some(deadline), ..self }
    }
}

/// How a request came.
struct Arrival<'a> {
    /// The topic that its caller sent it to.
    topic: Topic,
    envelope: Arc<Envelope>,
    /// Whether there is room for its body.
    has_room: bool,
    dead_letter_body: DeadLetterBody,
    reply_to: &'a Topic,
    redelivered: bool,
    slot: Slot,
    /// Set where it was counted from when the request came for the first time.
    deadline: Option<Deadline>,
}

impl Arrival<'_> {
    fn received(&self) -> Received<'_> {
        let Self { topic, envelope, redelivered, .. } = self;
        Received { topic, envelope, redelivered: *redelivered }
    }

    /// The same without its body, for a request that is not run.
    fn without_body(self) -> Self {
        self.dead_letter_body.release();
        let mut envelope = Arc::unwrap_or_clone(self.envelope);
        envelope.body = Bytes::new();
        Self { envelope: Arc::new(envelope), ..self }
    }
}

/// A call that may run.
struct NamedCall<'a> {
    ids: &'a CallIds,
    key: CallKey,
    /// The caller's own deadline.
    deadline: Deadline,
}

/// What keeps a call from being run.
enum Obstacle {
    None,
    /// It is answered with this.
    Reply(Reply),
    /// Its caller has given it up, or has had its answer from another worker.
    NoReply,
}

/// Whether a request has come again for longer than it may take. The broker drops one of ours; one
/// of C# says no end, and would be run as often as it comes.
fn is_overdue(arrival: &Arrival<'_>, deadline: Deadline) -> bool {
    let Envelope { timestamp, expires_after, .. } = *arrival.envelope;
    let age = unix_now().saturating_sub(Duration::from_secs(timestamp));
    timestamp > 0 && expires_after.is_none() && age > deadline.asked() + CLOCKS_GRACE
}

/// Whether a call that is not started here was started: by a worker that had it before, perhaps.
fn execution_before(redelivered: bool) -> Execution {
    if redelivered { Execution::Unknown } else { Execution::NotStarted }
}

/// The topic that a request was sent to by its caller, where `topic` is the one that it came by.
fn sent_to(topic: Topic, request: &Envelope) -> Topic {
    topic_in(request, header::FORWARDED_FROM).unwrap_or(topic)
}

fn takes_heartbeats(request: &Envelope) -> bool {
    request.headers.get(header::PROGRESS_TO).is_some()
}

fn topic_in(request: &Envelope, header: &str) -> Option<Topic> {
    request.headers.get(header).and_then(|text| Topic::parse(text).ok())
}

fn queried<'a>(ids: &'a CallIds, request: &'a Envelope) -> QueriedCall<'a> {
    QueriedCall {
        source: &request.source,
        call_id: &ids.tool_call_id,
        correlation_id: correlation_id_of(request),
    }
}
