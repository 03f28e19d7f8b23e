//! What a responder sends: replies, which must arrive, and notifications (progress), which may be
//! lost.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolbus_wire::{Envelope, Message, Topic};
use tracing::{Instrument as _, Span};

use super::outcome_memory::Answer;
use crate::Deadline;
use crate::port::{Bus, PublishError};

/// Notifications that wait to be sent, and bytes of their bodies; past that they are dropped and
/// counted.
const NOTIFICATIONS_MAX: NonZeroUsize = NonZeroUsize::new(1_024).expect("1024 is not zero");
pub(crate) const NOTIFICATIONS_BYTES_MAX: usize = 8 << 20;
/// How long the broker keeps a notification: a late one is worthless.
const NOTIFICATION_TTL: Duration = Duration::from_secs(10);
/// How long a reply waits for the notifications before it.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);
/// Replies that wait for their caller to come back; past that they are dropped.
const BACKGROUND_REPLIES_MAX: usize = 256;
/// Bytes of all replies that are being sent, in KiB: 64 MiB.
const REPLIES_KIB_MAX: usize = 64 << 10;
pub(crate) const REPLIES_BYTES_MAX: usize = REPLIES_KIB_MAX << 10;
/// How long a reply waits for its caller to come back (its queue goes with its connection), and how
/// often it is tried.
const CALLER_AWAY_TIMEOUT: Duration = Duration::from_secs(5);
const REPLY_RETRY_BACKOFF: Duration = Duration::from_millis(250);

/// Sends for one responder. Clones are the same outbox.
#[derive(Clone)]
pub(super) struct Outbox {
    inner: Arc<OutboxInner>,
}

struct OutboxInner {
    bus: Arc<dyn Bus>,
    source: String,
    queue: mpsc::Sender<QueuedNotification>,
    notification_bytes: Arc<Semaphore>,
    dropped: AtomicU64,
    background_places: Arc<Semaphore>,
    replies_kib: Arc<Semaphore>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

/// The share that one reply has of the bytes that may wait to be sent.
pub(super) struct ReplyRoom {
    _permit: OwnedSemaphorePermit,
}

enum QueuedNotification {
    Message {
        topic: Topic,
        envelope: Box<Envelope>,
        /// Span of the call that it is about, so that it belongs to its trace.
        span: Span,
        _room: OwnedSemaphorePermit,
    },
    /// Whatever came before it was sent.
    Mark(oneshot::Sender<()>),
}

impl Outbox {
    /// `stop` ends it.
    pub(super) fn start(bus: Arc<dyn Bus>, source: &str, stop: CancellationToken) -> Self {
        let (queue, incoming) = mpsc::channel(NOTIFICATIONS_MAX.get());
        let inner = Arc::new(OutboxInner {
            bus: Arc::clone(&bus),
            source: source.to_owned(),
            queue,
            notification_bytes: Arc::new(Semaphore::new(NOTIFICATIONS_BYTES_MAX)),
            dropped: AtomicU64::new(0),
            background_places: Arc::new(Semaphore::new(BACKGROUND_REPLIES_MAX)),
            replies_kib: Arc::new(Semaphore::new(REPLIES_KIB_MAX)),
            stop: stop.clone(),
            tasks: TaskTracker::new(),
        });

        inner.tasks.spawn(async move {
            // What is being sent may be dropped with the rest: notifications may be lost.
            tokio::select! {
                () = publish_notifications(bus, incoming) => {}
                () = stop.cancelled() => {}
            }
        });

        Self { inner }
    }

    /// Queues a notification, which is sent in order with the others, or drops it when too many
    /// wait.
    pub(super) fn post_notification<M: Message>(&self, topic: &Topic, notification: &M) {
        let envelope = Box::new(self.wrap_notification(notification));
        let bytes = u32::try_from(envelope.body.len()).unwrap_or(u32::MAX);
        let notification_bytes =
            Arc::clone(&self.inner.notification_bytes).try_acquire_many_owned(bytes);
        let posted = notification_bytes.is_ok_and(|notification_bytes| {
            let topic = topic.clone();
            let span = Span::current();
            let message =
                QueuedNotification::Message { topic, envelope, span, _room: notification_bytes };
            self.inner.queue.try_send(message).is_ok()
        });

        if !posted {
            let dropped = self.inner.dropped.fetch_add(1, Ordering::Relaxed) + 1;
            tracing::debug!(dropped, "dropped a notification: too many wait to be sent");
        }
    }

    /// Waits until the notifications that were queued before are sent, but not for long: a reply
    /// that comes before the progress of its call makes it worthless. Returns at once where none
    /// are queued.
    pub(super) async fn flush_notifications(&self) {
        // Notifications hold their share of bytes until they are sent, and none are empty.
        if self.inner.notification_bytes.available_permits() == NOTIFICATIONS_BYTES_MAX {
            return;
        }

        let (mark, passed) = oneshot::channel();
        let flushed = async {
            if self.inner.queue.send(QueuedNotification::Mark(mark)).await.is_ok() {
                // An error says that the outbox has stopped, and then nothing is sent any more.
                let _ = passed.await;
            }
        };

        if tokio::time::timeout(FLUSH_TIMEOUT, flushed).await.is_err() {
            tracing::debug!("a reply stopped waiting for the notifications before it");
        }
    }

    /// Sends a heartbeat at once, and says whether any queue took it.
    pub(super) async fn send<M: Message>(
        &self,
        topic: &Topic,
        notification: &M,
    ) -> Result<(), PublishError> {
        self.inner.bus.publish(topic, self.wrap_notification(notification)).await
    }

    fn wrap_notification<M: Message>(&self, notification: &M) -> Envelope {
        Envelope::of(notification, &self.inner.source).with_expiry(NOTIFICATION_TTL)
    }

    /// Sends a reply, which keeps its room until it is sent. It returns when the broker has it,
    /// when its caller has stopped waiting, or when the reply is tried in the background. Its
    /// request is not acked while the broker is away, so that a worker which dies then, or whose
    /// connection is lost, leaves it to another.
    pub(super) async fn deliver(
        &self,
        topic: &Topic,
        reply: Envelope,
        room: Option<ReplyRoom>,
        until: Deadline,
    ) {
        loop {
            match self.inner.bus.publish(topic, reply.clone()).await {
                Ok(()) => return,
                Err(PublishError::Unavailable(_) | PublishError::Unconfirmed)
                    if !until.is_past() =>
                {
                    tokio::time::sleep(REPLY_RETRY_BACKOFF).await;
                }
                // It is this one caller's queue, and a caller must hold up no other.
                Err(error @ (PublishError::Unroutable(_) | PublishError::Refused(_))) => {
                    return self.retry_in_background(topic.clone(), reply, room, error);
                }
                Err(error) => return log_dropped_reply(topic, &error),
            }
        }
    }

    /// Retries in the background, so that a caller that is gone holds up no other.
    fn retry_in_background(
        &self,
        topic: Topic,
        reply: Envelope,
        room: Option<ReplyRoom>,
        error: PublishError,
    ) {
        let Ok(place) = Arc::clone(&self.inner.background_places).try_acquire_owned() else {
            return log_dropped_reply(&topic, &error);
        };

        let bus = Arc::clone(&self.inner.bus);
        let stop = self.inner.stop.clone();

        self.inner.tasks.spawn(async move {
            let give_up = Instant::now() + CALLER_AWAY_TIMEOUT;
            let mut last = error;

            while Instant::now() < give_up && !stop.is_cancelled() {
                tokio::time::sleep(REPLY_RETRY_BACKOFF).await;
                // A broker that is away must not hold up the stop.
                match stop.run_until_cancelled(bus.publish(&topic, reply.clone())).await {
                    Some(Ok(())) | None => return,
                    Some(Err(error)) => last = error,
                }
            }

            log_dropped_reply(&topic, &last);
            drop((place, room));
        });
    }

    /// Sends an answer once more, in the background, for a caller that may have missed it.
    pub(super) fn send_again(&self, answer: Answer) {
        let Answer { reply, to, correlation_id } = answer;
        let Some(room) = self.reserve_reply(reply.body.len()) else { return };
        let Ok(place) = Arc::clone(&self.inner.background_places).try_acquire_owned() else {
            return;
        };

        let envelope = reply.into_envelope(&self.inner.source, correlation_id);
        let bus = Arc::clone(&self.inner.bus);
        let stop = self.inner.stop.clone();
        self.inner.tasks.spawn(async move {
            // One that is not published is asked for again.
            if let Some(Err(error)) = stop.run_until_cancelled(bus.publish(&to, envelope)).await {
                log_dropped_reply(&to, &error);
            }
            drop((place, room));
        });
    }

    /// Room for the body of a reply while it is sent, where there is some.
    pub(super) fn reserve_reply(&self, bytes: usize) -> Option<ReplyRoom> {
        let kib = u32::try_from(bytes.div_ceil(1 << 10)).ok()?;
        let permit = Arc::clone(&self.inner.replies_kib).try_acquire_many_owned(kib).ok()?;
        Some(ReplyRoom { _permit: permit })
    }

    pub(super) async fn stop(&self) {
        self.inner.stop.cancel();
        self.inner.tasks.close();
        self.inner.tasks.wait().await;
    }
}

async fn publish_notifications(
    bus: Arc<dyn Bus>,
    mut incoming: mpsc::Receiver<QueuedNotification>,
) {
    while let Some(queued) = incoming.recv().await {
        match queued {
            QueuedNotification::Message { topic, envelope, span, _room } => {
                let published = async { bus.publish(&topic, *envelope).await };
                if let Err(error) = published.instrument(span).await {
                    tracing::debug!(%error, %topic, "dropped a notification: not published");
                }
            }
            QueuedNotification::Mark(passed) => {
                // The reply may have stopped waiting for it.
                let _ = passed.send(());
            }
        }
    }
}

fn log_dropped_reply(topic: &Topic, error: &PublishError) {
    // Callers come and go; one that was cancelled is often gone before its reply comes.
    tracing::info!(%topic, %error, "dropped a reply: no queue took it");
}
