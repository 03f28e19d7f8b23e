//! Parked requests: acknowledged, not answered yet, and to be brought back.

use std::fmt;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use toolbus_wire::header::Headers;
use toolbus_wire::{Envelope, Topic, TraceContext};
use tracing::Instrument as _;

use crate::Deadline;
use crate::port::{Delivery, Disposition};
use crate::slot::{Kept, Slot, SlotPool};

/// Most parked calls of one responder; more keep the permits that they came with.
const PARKED_MAX: u16 = 1_024;
/// How long a call that is given up may take to be answered.
const ANSWER_GRACE: Duration = Duration::from_secs(1);

/// A request that was parked, as whoever keeps it writes it down. A responder that is given it when
/// it starts takes it up as if it came in then, answers at its reply address, and holds its
/// deadline. So only a request whose tool was not started may be brought back.
///
/// It holds the arguments of the call: it is as secret as they are.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ParkedRequest {
    /// The topic that it came by.
    topic: Topic,
    message_id: String,
    message_type: String,
    correlation_id: Option<String>,
    reply_to: Option<Topic>,
    source: String,
    destination: Option<String>,
    timestamp: u64,
    headers: Vec<(String, String)>,
    /// What the caller asked for, in milliseconds, and when it stops waiting, in Unix milliseconds:
    /// how long it waits was counted from when the request came. Apart from the headers, which a
    /// grant seals.
    asked_ms: u64,
    deadline_ms: u64,
    /// `traceparent` and `tracestate`.
    trace: Option<(String, Option<String>)>,
    /// JSON, as it came.
    body: String,
}

impl ParkedRequest {
    /// A request that was read, so its body is text.
    pub(crate) fn new(topic: &Topic, envelope: &Envelope, deadline: Deadline) -> Self {
        let headers =
            envelope.headers.iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
        let trace = envelope
            .trace
            .as_ref()
            .map(|trace| (trace.traceparent().to_owned(), trace.tracestate().map(str::to_owned)));

        Self {
            topic: topic.clone(),
            message_id: envelope.message_id.clone(),
            message_type: envelope.message_type.clone(),
            correlation_id: envelope.correlation_id.clone(),
            reply_to: envelope.reply_to.clone(),
            source: envelope.source.clone(),
            destination: envelope.destination.clone(),
            timestamp: envelope.timestamp,
            headers: headers.collect(),
            asked_ms: deadline.asked().as_millis().try_into().unwrap_or(u64::MAX),
            deadline_ms: deadline.unix_ms(),
            trace,
            body: String::from_utf8_lossy(&envelope.body).into_owned(),
        }
    }

    /// The topic that it came by: that of the responder which is to take it up.
    #[must_use]
    pub fn topic(&self) -> &Topic {
        &self.topic
    }

    /// When its caller stops waiting.
    pub(super) fn deadline(&self) -> Deadline {
        Deadline::at_unix_ms(self.deadline_ms, Duration::from_millis(self.asked_ms))
    }

    /// The request as if it came in now, for the first time.
    pub(super) fn into_delivery(self) -> Delivery {
        let mut headers = Headers::new();
        for (name, value) in self.headers {
            headers.set(name, value);
        }
        let trace = self.trace.as_ref();
        let envelope = Envelope {
            message_id: self.message_id,
            message_type: self.message_type,
            correlation_id: self.correlation_id,
            reply_to: self.reply_to,
            source: self.source,
            destination: self.destination,
            timestamp: self.timestamp,
            headers,
            trace: trace.and_then(|(parent, state)| TraceContext::parse(parent, state.as_deref())),
            expires_after: None,
            body: self.body.into(),
        };
        Delivery { topic: self.topic, envelope, redelivered: false }
    }
}

/// Without its body and the values of its headers.
impl fmt::Debug for ParkedRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ParkedRequest")
            .field("topic", &self.topic)
            .field("message_id", &self.message_id)
            .field("message_type", &self.message_type)
            .finish_non_exhaustive()
    }
}

/// The calls of a responder that run without a delivery: those that were parked, and go on.
/// Clones are the same.
#[derive(Clone)]
pub(super) struct ParkedCalls {
    /// What the calls that come back share; the others are counted by the broker.
    slots: SlotPool,
    tasks: TaskTracker,
    stop: CancellationToken,
    expire: CancellationToken,
}

impl ParkedCalls {
    /// As many of them run at a time as of the others.
    pub(super) fn new(concurrency: u16) -> Self {
        Self {
            slots: SlotPool::new(concurrency, PARKED_MAX),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
            expire: CancellationToken::new(),
        }
    }

    /// The slot of a call that holds a delivery.
    pub(super) fn slot_of_delivery(&self) -> Slot {
        self.slots.slot_of_delivery()
    }

    /// Keeps calls that are taken up from being started until the guard is dropped.
    pub(super) fn hold_back(&self) -> Option<OwnedSemaphorePermit> {
        self.slots.take_all()
    }

    /// Gives up the calls that are parked when it is dropped.
    pub(super) fn give_up_guard(&self) -> DropGuard {
        self.stop.clone().drop_guard()
    }

    /// Drops the calls that run, and gives up the others, when it is dropped.
    pub(super) fn expire_guard(&self) -> DropGuard {
        self.expire.clone().drop_guard()
    }

    /// Takes up a request that an earlier process has left: it is known from now on, and runs once
    /// there is a slot.
    pub(super) fn take_up(&self, answer: impl FnOnce(Slot) -> BoxFuture<'static, Disposition>) {
        let slot = self.slots.restored_slot();
        let mut answering = answer(slot.clone());
        // The first step takes the call's place in the outcome memory, so that a request that comes
        // again finds it there.
        if (&mut answering).now_or_never().is_none() {
            self.spawn(answering, slot);
        }
    }

    /// Has a call go on without a delivery.
    pub(super) fn spawn(&self, answering: BoxFuture<'static, Disposition>, slot: Slot) {
        let parked = self.clone();
        let finishing = async move { parked.finish(answering, slot).await };
        self.tasks.spawn(finishing.in_current_span());
    }

    /// Has the call end, or gives it up with the responder.
    async fn finish(&self, mut answering: BoxFuture<'static, Disposition>, slot: Slot) {
        let ended = self.stop.run_until_cancelled(&mut answering).await;
        if ended.is_some() {
            return;
        }

        match slot.kept() {
            // Whoever keeps it brings it back.
            Some(Kept::InStore) => return,
            Some(Kept::InMemory) => slot.cancel(),
            // It runs, and has the grace that every call has.
            None => {
                if self.expire.run_until_cancelled(&mut answering).await.is_some() {
                    return;
                }
                slot.cancel();
            }
        }
        // A broker that is away must not hold up the stop.
        if tokio::time::timeout(ANSWER_GRACE, answering).await.is_err() {
            tracing::warn!("a call that was parked ends without an answer");
        }
    }

    /// Gives up what is parked, and waits up to `grace` for what runs.
    pub(super) async fn stop(&self, grace: Duration) {
        self.stop.cancel();
        self.tasks.close();
        if tokio::time::timeout(grace, self.tasks.wait()).await.is_err() {
            self.expire.cancel();
            self.tasks.wait().await;
        }
    }
}
