//! Windows: how many messages a broker may hand out at once to a subscription whose handlers run
//! side by side, so that what it holds has a bound in bytes.
//!
//! RabbitMQ hands out messages by their number and knows no limit in bytes, and what it has handed
//! out cannot be put off: it is in memory, and one that goes back to its queue looks begun. So a
//! consumer is given a small window. One whose messages are all at work is cancelled, which leaves
//! those to their handlers, and another one is started: only while all handlers together hold few
//! enough bytes.
//!
//! To cancel one consumer with a large prefetch when too much is held would bound nothing: a burst
//! is on its way in whole before the broker reads that.
//!
//! Calls that are short never fill a window for long, and are handed out without any of this.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use lapin::Channel;
use lapin::options::BasicCancelOptions;
use tokio::sync::{Notify, OwnedSemaphorePermit};
use toolbus_bus::port::HELD_BYTES_MAX;

/// How long all messages of a window must be at work before another one is opened: less costs the
/// broker consumers, more keeps a burst of long calls waiting.
const NEXT_WINDOW_BACKOFF: Duration = Duration::from_millis(2);

/// Bytes of the bodies that the handlers of a subscription hold, those of lost channels included.
#[derive(Default)]
pub(crate) struct HeldBytes {
    bytes: AtomicUsize,
    released: Notify,
}

impl HeldBytes {
    /// Waits until the broker may hand out as many messages again. For one waiter at a time.
    pub(crate) async fn wait_for_room(&self) {
        while self.bytes.load(Ordering::Relaxed) > HELD_BYTES_MAX {
            self.released.notified().await;
        }
    }
}

/// A consumer at the broker, and how much it is handed at once.
pub(crate) struct Window {
    pub(crate) consumer: lapin::Consumer,
    pub(crate) usage: WindowUsage,
    is_closing: bool,
}

/// How many messages a consumer is handed at once, and how many of them are at work.
pub(crate) struct WindowUsage {
    size: usize,
    at_work: Arc<AtomicUsize>,
}

impl Window {
    /// A consumer that is handed so many messages at once.
    pub(crate) fn new(consumer: lapin::Consumer, size: u16) -> Self {
        let usage = WindowUsage { size: size.into(), at_work: Arc::default() };
        Self { consumer, usage, is_closing: false }
    }

    /// Has the broker hand out no more. What it has handed out by then still comes, and then the
    /// end.
    pub(crate) fn close(&mut self, channel: &Channel) {
        self.is_closing = true;
        // A frame is on its way with the first poll; the consumer's end says that it has arrived.
        let options = BasicCancelOptions::default();
        let _ = channel.basic_cancel(self.consumer.tag(), options).now_or_never();
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.is_closing
    }
}

impl WindowUsage {
    /// Waits until all messages are at work and another window may be opened.
    pub(crate) async fn wait_used_up(&self, held: &HeldBytes) {
        // It fills only as the consumer is polled, which ends this wait.
        while self.is_full() {
            held.wait_for_room().await;
            tokio::time::sleep(NEXT_WINDOW_BACKOFF).await;
            if self.is_full() {
                return;
            }
        }

        std::future::pending().await
    }

    /// Counts a message of this many bytes, which has a handler's permit.
    pub(crate) fn count(
        &self,
        permit: OwnedSemaphorePermit,
        bytes: usize,
        held: &Arc<HeldBytes>,
    ) -> CountedMessage {
        self.at_work.fetch_add(1, Ordering::Relaxed);
        held.bytes.fetch_add(bytes, Ordering::Relaxed);
        let (at_work, held) = (Arc::clone(&self.at_work), Arc::clone(held));
        CountedMessage { bytes, at_work, held, _permit: permit }
    }

    pub(crate) fn is_of_size(&self, size: u16) -> bool {
        self.size == usize::from(size)
    }

    fn is_full(&self) -> bool {
        self.at_work.load(Ordering::Relaxed) >= self.size
    }
}

/// A message at work, counted until this is dropped.
pub(crate) struct CountedMessage {
    bytes: usize,
    at_work: Arc<AtomicUsize>,
    held: Arc<HeldBytes>,
    /// Free once the message is not counted any more.
    _permit: OwnedSemaphorePermit,
}

impl Drop for CountedMessage {
    fn drop(&mut self) {
        self.at_work.fetch_sub(1, Ordering::Relaxed);
        self.held.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        self.held.released.notify_one();
    }
}
