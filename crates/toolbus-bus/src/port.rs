//! The port: what a broker does for us, and what we owe it.
//!
//! A handler answers every delivery with a [`Disposition`]; only an adapter speaks of acks. An
//! adapter delivers at least once, so every handler must bear a message that comes twice.

use std::borrow::Cow;
use std::future::Future;
use std::num::NonZeroU16;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolbus_wire::{Envelope, Topic};
use tracing::Instrument as _;

use crate::metrics::{DeadLetterReason, Traffic};
use crate::{TopicPattern, trace};

/// Largest body that is published, in bytes: what a stock RabbitMQ 4 takes.
pub const BODY_BYTES_MAX: usize = 16 << 20;

/// A message broker.
pub trait Bus: Send + Sync + 'static {
    /// Publishes a message and waits until the broker has it for sure.
    ///
    /// It is safe to drop the future: the message then may have been published or not.
    fn publish<'a>(
        &'a self,
        topic: &'a Topic,
        envelope: Envelope,
    ) -> BoxFuture<'a, Result<(), PublishError>>;

    /// Starts to hand the messages of a subscription to a handler, and goes on through every
    /// outage until the [`Consumer`] is stopped. Returns once the queue is there and bound: what is
    /// published after that is not missed.
    fn subscribe(
        &self,
        subscription: Subscription,
        handler: Arc<dyn Handler>,
    ) -> BoxFuture<'_, Result<Consumer, SubscribeError>>;

    /// How many consumers the queue of a durable subscription has at this moment, in all processes.
    /// `None` where there is no such queue, or that cannot be found out.
    fn count_consumers<'a>(&'a self, subscription: &'a str) -> BoxFuture<'a, Option<usize>> {
        let _ = subscription;
        Box::pin(std::future::ready(None))
    }

    /// How the broker is, as last seen.
    fn health(&self) -> Health;

    /// Ends the connection, once outstanding confirms are in or `grace` is over. Consumers are to
    /// be stopped before; what is left of them ends here and its messages go back to their queues.
    fn close(&self, grace: Duration) -> BoxFuture<'_, ()>;
}

/// Why a message was not published.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PublishError {
    /// No queue takes the topic: it has no subscriber.
    #[error("no queue takes the topic {0}")]
    Unroutable(Topic),
    /// The broker refused it, because a queue is full for example.
    #[error("the broker refused the message: {0}")]
    Refused(String),
    /// The body is over [`BODY_BYTES_MAX`].
    #[error("a body of {bytes} bytes is over the limit of {BODY_BYTES_MAX}")]
    TooLarge {
        /// Size of the body.
        bytes: usize,
    },
    /// The broker could not be reached in time. The message was not sent.
    #[error("the broker is not reachable: {0}")]
    Unavailable(String),
    /// The connection was lost before the broker confirmed: the message is there or not.
    #[error("the connection was lost before the broker confirmed the message")]
    Unconfirmed,
    /// This process has closed its bus.
    #[error("the bus is closed")]
    Closed,
}

impl PublishError {
    /// Which of them it is, for metrics and spans.
    #[must_use]
    pub fn label(&self) -> &'static str {
        match self {
            Self::Unroutable(_) => "unroutable",
            Self::Refused(_) => "refused",
            Self::TooLarge { .. } => "too_large",
            Self::Unavailable(_) => "unavailable",
            Self::Unconfirmed => "unconfirmed",
            Self::Closed => "closed",
        }
    }
}

/// Why a subscription was not made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SubscribeError {
    /// The broker refused it for good, because of missing rights for example.
    #[error("the broker refused the subscription {name}: {reason}")]
    Refused {
        /// Name of the subscription.
        name: String,
        /// What the broker said.
        reason: String,
    },
    /// The broker could not be reached in time.
    #[error("the broker is not reachable: {0}")]
    Unavailable(String),
    /// This process has closed its bus.
    #[error("the bus is closed")]
    Closed,
}

/// A subscription: which topics to consume, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscription {
    /// Which topics.
    pub pattern: TopicPattern,
    /// Subscriptions of one name share a queue, and each message goes to one of them; of different
    /// names, each gets a copy. On RabbitMQ the queue is `rockbot.{name}`.
    pub name: String,
    /// What becomes of the queue.
    pub lifetime: Lifetime,
    /// How many messages at a time, and in what order.
    pub flow: Flow,
}

/// What becomes of a subscription's queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lifetime {
    /// It outlives its consumers and the broker's restarts, and keeps messages for them.
    Durable,
    /// It outlives its consumers as a durable one does. Of those that are there, one alone is
    /// handed messages, until it ends: a single active consumer, as RabbitMQ calls it. A consumer
    /// ends when it is lost, where others go on, since another may have been active meanwhile. A
    /// queue that nobody has consumed for ten minutes is gone, and it keeps no dead letters.
    SingleActive,
    /// It belongs to one consumer and ends with it or with its connection.
    Private,
}

/// How many messages a consumer holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// Up to this many at once, in any order. The broker hands out no more than are being
    /// handled, so what a dead consumer held had been started.
    ///
    /// A broker counts messages and not their bytes, and what it has handed out is in memory: a
    /// handler that must hold less lets go of the bodies that it does not work on, and of
    /// [`Delivery::dead_letter_body`] with them.
    Concurrent(NonZeroU16),
    /// One at a time, in the order of the queue, with this many fetched ahead. For handlers that
    /// take microseconds, such as the matching of replies.
    Ordered {
        /// How many are fetched ahead.
        prefetch: NonZeroU16,
    },
}

impl Flow {
    /// How many unanswered messages the broker may hand out.
    #[must_use]
    pub const fn prefetch(self) -> NonZeroU16 {
        match self {
            Self::Concurrent(prefetch) | Self::Ordered { prefetch } => prefetch,
        }
    }

    /// How many bytes of bodies a consumer may hold at most.
    #[must_use]
    pub const fn bytes_max(self) -> usize {
        self.prefetch().get() as usize * BODY_BYTES_MAX
    }
}

impl Subscription {
    /// A durable queue that competing consumers share.
    #[must_use]
    pub fn durable(name: impl Into<String>, pattern: TopicPattern, flow: Flow) -> Self {
        Self { pattern, name: name.into(), lifetime: Lifetime::Durable, flow }
    }

    /// A durable queue that one consumer has at a time.
    #[must_use]
    pub fn single_active(name: impl Into<String>, pattern: TopicPattern, flow: Flow) -> Self {
        Self { pattern, name: name.into(), lifetime: Lifetime::SingleActive, flow }
    }

    /// A queue of one's own that ends with its consumer.
    #[must_use]
    pub fn private(name: impl Into<String>, pattern: TopicPattern, flow: Flow) -> Self {
        Self { pattern, name: name.into(), lifetime: Lifetime::Private, flow }
    }
}

/// A message as it is handed to a handler.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// The topic it was published to.
    pub topic: Topic,
    /// The message.
    pub envelope: Envelope,
    /// Whether it was handed out before, to somebody who did not answer for it.
    pub redelivered: bool,
    /// How often, where the broker counts that: RabbitMQ does so for quorum queues, and not for
    /// classic ones. Else 0.
    pub earlier_deliveries: u32,
    /// What the adapter keeps for a dead letter.
    pub dead_letter_body: DeadLetterBody,
}

/// An adapter's own reference to the body of a message, from which it makes a dead letter if the
/// handler asks for one. Clones are the same reference.
#[derive(Debug, Clone, Default)]
pub struct DeadLetterBody(Arc<Mutex<Option<Bytes>>>);

impl DeadLetterBody {
    /// For adapters: a reference to this body.
    #[must_use]
    pub fn new(body: Bytes) -> Self {
        Self(Arc::new(Mutex::new(Some(body))))
    }

    /// Lets go of the body, for a handler that is not done yet and will ask for no dead letter.
    pub fn release(&self) {
        self.0.lock().take();
    }

    /// For adapters: the body, unless it was let go.
    #[must_use]
    pub fn take(&self) -> Option<Bytes> {
        self.0.lock().take()
    }
}

/// What becomes of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Disposition {
    /// It is done with.
    Ack,
    /// It cannot be handled and is kept for people to look at.
    DeadLetter {
        /// Why, in a few words.
        reason: Cow<'static, str>,
    },
}

/// Handles the messages of a subscription.
pub trait Handler: Send + Sync + 'static {
    /// Handles one message. A panic makes it a dead letter. The future is dropped, and the message
    /// goes back to its queue, when the consumer is stopped and its grace is over.
    fn handle(&self, delivery: Delivery) -> BoxFuture<'_, Disposition>;

    /// Called when the subscription was lost and is there again. A queue that is private to this
    /// process received nothing meanwhile, and nobody will send it again. Must not block.
    fn on_resubscribed(&self) {}
}

impl<F, Fut> Handler for F
where
    F: Fn(Delivery) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Disposition> + Send + 'static,
{
    fn handle(&self, delivery: Delivery) -> BoxFuture<'_, Disposition> {
        Box::pin(self(delivery))
    }
}

/// Publishes a message by `work` in its `publish` span, and records it. For adapters.
///
/// It is recorded when the future is dropped, too: whoever has the reply already does not wait for
/// the confirm.
pub async fn publish_recorded<Fut>(
    traffic: &Traffic,
    topic: &Topic,
    envelope: Envelope,
    work: impl FnOnce(Envelope) -> Fut,
) -> Result<(), PublishError>
where
    Fut: Future<Output = Result<(), PublishError>>,
{
    let span = trace::publish_span(traffic.system(), topic, &envelope);
    let mut record = traffic.publishing(topic.template());
    let result = work(envelope).instrument(span.clone()).await;

    if let Err(error) = &result {
        trace::fail(&span, error.label());
        record.error = Some(error.label());
    }

    result
}

/// Runs a handler on a delivery in its `process` span, turns a panic into a dead letter, and
/// records it all. For adapters.
pub async fn dispatch(handler: &dyn Handler, delivery: Delivery, traffic: &Traffic) -> Disposition {
    let topic = delivery.topic.clone();
    let destination = topic.template();
    let span = trace::process_span(traffic.system(), &delivery);
    let mut record = traffic.record_process(destination, delivery.redelivered);
    record.error = Some("dropped");

    let handled = AssertUnwindSafe(async { handler.handle(delivery).await })
        .catch_unwind()
        .instrument(span.clone())
        .await;

    let (disposition, result, error) = match handled {
        Ok(disposition @ Disposition::Ack) => (disposition, "ack", None),
        Ok(disposition @ Disposition::DeadLetter { .. }) => {
            traffic.dead_letter(destination, DeadLetterReason::Refused);
            (disposition, "deadletter", Some("dead_letter"))
        }
        Err(_) => {
            tracing::error!(%topic, "a message handler panicked");
            traffic.dead_letter(destination, DeadLetterReason::HandlerPanicked);
            let reason = "the handler panicked".into();
            (Disposition::DeadLetter { reason }, "deadletter", Some("panic"))
        }
    };

    record.error = error;
    span.record("messaging.result", result);

    if let Some(error) = error {
        trace::fail(&span, error);
    }

    disposition
}

/// A running subscription. Dropping it stops it without waiting.
#[derive(Debug)]
pub struct Consumer {
    stop: CancellationToken,
    expire: CancellationToken,
    tasks: TaskTracker,
}

impl Consumer {
    /// For adapters: `stop` ends the fetching of messages, `expire` drops handlers that still run,
    /// and the consumer has ended when `tasks` is closed and empty. A consumer that is lost and
    /// does not go on cancels `stop` itself.
    #[must_use]
    pub fn new(stop: CancellationToken, expire: CancellationToken, tasks: TaskTracker) -> Self {
        Self { stop, expire, tasks }
    }

    /// Waits until it takes no more messages: it was stopped, its bus was closed, or it was lost
    /// and does not go on.
    pub async fn wait_stopped(&self) {
        self.stop.cancelled().await;
    }

    /// Takes no more messages. Those that it was handed are handled to their end, and it has to be
    /// [stopped](Consumer::stop) all the same. To take messages again, subscribe again.
    pub fn stop_taking(&self) {
        self.stop.cancel();
    }

    /// Whether it takes messages.
    #[must_use]
    pub fn is_taking(&self) -> bool {
        !self.stop.is_cancelled()
    }

    /// Whether it takes no more messages, and all that it was handed are handled.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        !self.is_taking() && self.tasks.is_empty()
    }

    /// Takes no more messages, waits up to `grace` for handlers that run, and gives the messages
    /// of the rest back to the queue.
    pub async fn stop(self, grace: Duration) {
        self.stop.cancel();
        if tokio::time::timeout(grace, self.tasks.wait()).await.is_err() {
            self.expire.cancel();
            self.tasks.wait().await;
        }
    }

    /// Ends the consumer at once, as its death would: whatever it held goes back to the queue.
    pub async fn kill(self) {
        self.stop(Duration::ZERO).await;
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// How a broker is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// Messages flow.
    Up,
    /// The broker is there but takes no messages for now (it is short of disk or memory).
    Blocked {
        /// What the broker said.
        reason: String,
    },
    /// The broker is away; the adapter tries to come back.
    Down {
        /// What happened.
        reason: String,
    },
}

impl Health {
    /// Whether messages flow.
    #[must_use]
    pub fn is_up(&self) -> bool {
        matches!(self, Self::Up)
    }
}
