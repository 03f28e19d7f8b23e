//! What a responder sends: replies, which must arrive, and news, which may be lost.

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

use crate::port::{Bus, PublishError};

/// News that wait to be sent, and bytes of their bodies; past that they are dropped and counted.
const NEWS_MAX: NonZeroUsize = NonZeroUsize::new(1_024).expect("1024 is not zero");
const NEWS_BYTES_MAX: usize = 16 << 20;
/// How long news are worth anything.
const NEWS_EXPIRE_AFTER: Duration = Duration::from_secs(10);
/// How long a reply waits for the news before it.
const FLUSH_WAITS: Duration = Duration::from_secs(1);
/// Replies that wait for their caller to come back; past that they are dropped and counted. A reply
/// takes one place for each [`PLACE_BYTES`] of its body, so there is a bound in bytes as well.
const REPLIES_MAX: usize = 256;
const PLACE_BYTES: usize = 256 << 10;
/// How long a reply waits for its caller to come back (its queue goes with its connection), and how
/// often it is tried.
const REPLY_WAITS: Duration = Duration::from_secs(5);
const REPLY_EVERY: Duration = Duration::from_millis(250);
/// How long a reply is tried while the broker is away. The request is not acked meanwhile, so the
/// broker hands it out again, and the outcome memory answers it.
const BROKER_WAITS: Duration = Duration::from_secs(30);

/// Sends for one responder. Clones are the same outbox.
#[derive(Clone)]
pub(super) struct Outbox {
    inner: Arc<Inner>,
}

struct Inner {
    bus: Arc<dyn Bus>,
    source: String,
    news: mpsc::Sender<News>,
    room: Arc<Semaphore>,
    dropped: AtomicU64,
    waiting: Arc<Semaphore>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

enum News {
    Message {
        topic: Topic,
        envelope: Box<Envelope>,
        /// Of the call that the news are about, so that they belong to its trace.
        span: Span,
        _room: OwnedSemaphorePermit,
    },
    /// Whatever came before it was sent.
    Mark(oneshot::Sender<()>),
}

impl Outbox {
    /// `stop` ends it.
    pub(super) fn start(bus: Arc<dyn Bus>, source: &str, stop: CancellationToken) -> Self {
        let (news, incoming) = mpsc::channel(NEWS_MAX.get());
        let inner = Arc::new(Inner {
            bus: Arc::clone(&bus),
            source: source.to_owned(),
            news,
            room: Arc::new(Semaphore::new(NEWS_BYTES_MAX)),
            dropped: AtomicU64::new(0),
            waiting: Arc::new(Semaphore::new(REPLIES_MAX)),
            stop: stop.clone(),
            tasks: TaskTracker::new(),
        });
        inner.tasks.spawn(async move {
            // What is being sent may be dropped with the rest: it is news.
            tokio::select! {
                () = send_news(bus, incoming) => {}
                () = stop.cancelled() => {}
            }
        });
        Self { inner }
    }

    /// Sends news, in order with other news.
    pub(super) fn post<M: Message>(&self, topic: &Topic, news: &M) {
        let envelope = Box::new(self.news(news));
        let bytes = u32::try_from(envelope.body.len()).unwrap_or(u32::MAX);
        let room = Arc::clone(&self.inner.room).try_acquire_many_owned(bytes);
        let posted = room.is_ok_and(|room| {
            let (topic, span) = (topic.clone(), Span::current());
            let message = News::Message { topic, envelope, span, _room: room };
            self.inner.news.try_send(message).is_ok()
        });
        if !posted {
            let dropped = self.inner.dropped.fetch_add(1, Ordering::Relaxed) + 1;
            tracing::debug!(dropped, "dropped news: too many wait to be sent");
        }
    }

    /// Waits until the news that were posted before are sent, but not for long: a reply that comes
    /// before the news of its call makes them worthless. Where none are under way it is done at
    /// once.
    pub(super) async fn flush(&self) {
        // News hold their room until they are sent, and none are empty.
        if self.inner.room.available_permits() == NEWS_BYTES_MAX {
            return;
        }
        let (mark, passed) = oneshot::channel();
        let flushed = async {
            if self.inner.news.send(News::Mark(mark)).await.is_ok() {
                // An error says that the outbox has stopped, and then nothing is sent any more.
                let _ = passed.await;
            }
        };
        if tokio::time::timeout(FLUSH_WAITS, flushed).await.is_err() {
            tracing::debug!("a reply does not wait any longer for the news before it");
        }
    }

    /// Sends a sign of life at once, and says whether anybody took it.
    pub(super) async fn send<M: Message>(
        &self,
        topic: &Topic,
        news: &M,
    ) -> Result<(), PublishError> {
        self.inner.bus.publish(topic, self.news(news)).await
    }

    fn news<M: Message>(&self, news: &M) -> Envelope {
        Envelope::of(news, &self.inner.source).with_expiry(NEWS_EXPIRE_AFTER)
    }

    /// Sends a reply. It returns when the broker has it, or when somebody else goes on trying.
    pub(super) async fn deliver(&self, topic: &Topic, reply: Envelope) {
        let give_up = Instant::now() + BROKER_WAITS;
        loop {
            match self.inner.bus.publish(topic, reply.clone()).await {
                Ok(()) => return,
                Err(PublishError::Unavailable(_) | PublishError::Unconfirmed)
                    if Instant::now() < give_up =>
                {
                    tokio::time::sleep(REPLY_EVERY).await;
                }
                Err(error @ (PublishError::Unroutable(_) | PublishError::Refused(_))) => {
                    return self.try_later(topic.clone(), reply, error);
                }
                Err(error) => return lost(topic, &error),
            }
        }
    }

    /// Tries again in the background, so that a caller that is gone holds up nobody.
    fn try_later(&self, topic: Topic, reply: Envelope, error: PublishError) {
        let places = u32::try_from(reply.body.len().div_ceil(PLACE_BYTES).max(1));
        let waiting = Arc::clone(&self.inner.waiting);
        let Ok(place) = waiting.try_acquire_many_owned(places.unwrap_or(u32::MAX)) else {
            return lost(&topic, &error);
        };
        let (bus, stop) = (Arc::clone(&self.inner.bus), self.inner.stop.clone());
        self.inner.tasks.spawn(async move {
            let give_up = Instant::now() + REPLY_WAITS;
            let mut last = error;
            while Instant::now() < give_up && !stop.is_cancelled() {
                tokio::time::sleep(REPLY_EVERY).await;
                match bus.publish(&topic, reply.clone()).await {
                    Ok(()) => return,
                    Err(error) => last = error,
                }
            }
            lost(&topic, &last);
            drop(place);
        });
    }

    pub(super) async fn stop(&self) {
        self.inner.stop.cancel();
        self.inner.tasks.close();
        self.inner.tasks.wait().await;
    }
}

async fn send_news(bus: Arc<dyn Bus>, mut incoming: mpsc::Receiver<News>) {
    while let Some(news) = incoming.recv().await {
        match news {
            News::Message { topic, envelope, span, _room } => {
                let published = async { bus.publish(&topic, *envelope).await };
                if let Err(error) = published.instrument(span).await {
                    tracing::debug!(%error, %topic, "news that nobody took");
                }
            }
            News::Mark(passed) => {
                // Whoever waited for it may be gone.
                let _ = passed.send(());
            }
        }
    }
}

fn lost(topic: &Topic, error: &PublishError) {
    // Callers come and go; one that was cancelled is often gone before it is told.
    tracing::info!(%topic, %error, "dropped a reply: nobody takes it");
}
