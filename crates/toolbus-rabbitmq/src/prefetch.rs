//! How many messages a broker may hand out to a subscription whose handlers run side by side: as
//! many as there are handlers, those counted that are still at work on messages of lost channels.
//!
//! RabbitMQ fixes that number as a consumer starts. So a channel gets one consumer for the handlers
//! that are free, and more of them as the others end.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::StreamExt as _;
use lapin::message::Delivery;

/// How often it is looked whether a channel is lost, while it cannot be heard, and whether it may
/// be handed more.
pub(crate) const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// The consumers of one channel.
pub(crate) struct ChannelConsumers {
    consumers: Vec<lapin::Consumer>,
    /// How many messages they are handed at once, all together.
    prefetch: u16,
}

impl ChannelConsumers {
    /// The first one, which is handed so many messages at once.
    pub(crate) fn new(consumer: lapin::Consumer, prefetch: u16) -> Self {
        Self { consumers: vec![consumer], prefetch }
    }

    /// One more, which is handed so many messages beside what the others are.
    pub(crate) fn add(&mut self, consumer: lapin::Consumer, prefetch: u16) {
        self.consumers.push(consumer);
        self.prefetch = self.prefetch.saturating_add(prefetch);
    }

    /// How many messages another consumer may be handed, where of `handlers` so many are at work
    /// for other channels. So that the consumers stay few, it is at least as many again, or all
    /// that are left.
    pub(crate) fn missing(&self, handlers: u16, elsewhere: usize) -> Option<u16> {
        let elsewhere = u16::try_from(elsewhere).unwrap_or(u16::MAX);
        let missing = handlers.saturating_sub(elsewhere).saturating_sub(self.prefetch);
        let is_worth_it = missing >= self.prefetch || elsewhere == 0;
        (missing > 0 && is_worth_it).then_some(missing)
    }

    /// The next message of any; `None` once one of them has ended. Dropping the wait loses nothing:
    /// a message stays in its consumer until it is taken out.
    pub(crate) async fn next(&mut self) -> Option<lapin::Result<Delivery>> {
        std::future::poll_fn(|context| self.poll_next(context)).await
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<lapin::Result<Delivery>>> {
        let mut polled =
            self.consumers.iter_mut().map(|consumer| consumer.poll_next_unpin(context));
        polled.find(Poll::is_ready).unwrap_or(Poll::Pending)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut lapin::Consumer> {
        self.consumers.iter_mut()
    }
}

/// How many messages of a channel are at work.
#[derive(Clone, Default)]
pub(crate) struct AtWork(Arc<AtomicUsize>);

/// A message at work, counted until this is dropped.
pub(crate) struct CountedMessage(AtWork);

impl AtWork {
    pub(crate) fn count_one(&self) -> CountedMessage {
        self.0.fetch_add(1, Ordering::Relaxed);
        CountedMessage(self.clone())
    }

    pub(crate) fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for CountedMessage {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}
