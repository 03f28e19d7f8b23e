//! One queue: messages that wait, and a count of those that are out.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedMutexGuard};
use tokio::time::Instant;
use toolbus_wire::{Envelope, Topic};

use crate::TopicPattern;
use crate::port::{DeadLetterBody, Delivery, Lifetime, PublishError, Subscription};

/// Most messages that a queue holds, those that are out for handling included.
pub(super) const MESSAGES_MAX: usize = 10_000;
/// Most bytes of bodies that a queue holds, those that are out for handling included.
pub(super) const BYTES_MAX: usize = 64 << 20;

pub(super) struct Queue {
    name: String,
    lifetime: Lifetime,
    patterns: Mutex<Vec<TopicPattern>>,
    state: Mutex<QueueState>,
    arrived: Notify,
    /// As many clones as there are consumers, and one.
    consumers: Arc<()>,
    /// Held by the consumer that is active, where one alone is.
    turn: Arc<tokio::sync::Mutex<()>>,
}

/// A consumer of a queue, counted until this is dropped.
pub(super) struct CountedConsumer(#[expect(dead_code, reason = "it is counted")] Arc<()>);

#[derive(Default)]
struct QueueState {
    ready: VecDeque<QueuedMessage>,
    /// Messages and bytes that the queue answers for: ready, or out for handling.
    count: usize,
    bytes: usize,
}

/// A message in a queue.
pub(super) struct QueuedMessage {
    pub(super) topic: Topic,
    pub(super) envelope: Envelope,
    /// How often it was handed out before.
    pub(super) earlier_deliveries: u32,
    expires_at: Option<Instant>,
}

/// What a queue hands out next.
pub(super) enum QueueHead {
    /// A message to handle.
    QueuedMessage(QueuedMessage),
    /// A message whose time was over.
    Expired(QueuedMessage),
    /// Nothing is there.
    Empty,
}

impl QueuedMessage {
    pub(super) fn new(topic: Topic, envelope: Envelope) -> Self {
        // A time that no clock can show never comes.
        let expires_at = envelope.expires_after.and_then(|after| Instant::now().checked_add(after));
        Self { topic, envelope, earlier_deliveries: 0, expires_at }
    }

    /// What a handler is given. The message itself stays with the consumer until the handler has
    /// answered; a body is shared, not copied.
    pub(super) fn delivery(&self) -> Delivery {
        Delivery {
            topic: self.topic.clone(),
            envelope: self.envelope.clone(),
            redelivered: self.earlier_deliveries > 0,
            earlier_deliveries: self.earlier_deliveries,
            dead_letter_body: DeadLetterBody::default(),
        }
    }
}

impl Queue {
    pub(super) fn new(subscription: &Subscription) -> Self {
        Self {
            name: subscription.name.clone(),
            lifetime: subscription.lifetime,
            patterns: Mutex::new(vec![subscription.pattern.clone()]),
            state: Mutex::default(),
            arrived: Notify::new(),
            consumers: Arc::default(),
            turn: Arc::default(),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// One more consumer.
    pub(super) fn count_consumer(&self) -> CountedConsumer {
        CountedConsumer(Arc::clone(&self.consumers))
    }

    pub(super) fn consumers(&self) -> usize {
        Arc::strong_count(&self.consumers) - 1
    }

    /// Waits for one's turn to consume; `None` where all consumers have messages.
    pub(super) async fn wait_turn(&self) -> Option<OwnedMutexGuard<()>> {
        match self.lifetime {
            Lifetime::SingleActive => Some(Arc::clone(&self.turn).lock_owned().await),
            Lifetime::Durable | Lifetime::Private => None,
        }
    }

    pub(super) fn is_private(&self) -> bool {
        self.lifetime == Lifetime::Private
    }

    pub(super) fn bind(&self, pattern: &TopicPattern) {
        let mut patterns = self.patterns.lock();
        if !patterns.contains(pattern) {
            patterns.push(pattern.clone());
        }
    }

    pub(super) fn matches(&self, topic: &Topic) -> bool {
        self.patterns.lock().iter().any(|pattern| pattern.matches(topic.as_str()))
    }

    pub(super) fn ready_count(&self) -> usize {
        self.state.lock().ready.len()
    }

    /// Takes in a new message, when there is room.
    pub(super) fn push(&self, message: QueuedMessage) -> Result<(), PublishError> {
        let mut state = self.state.lock();
        let bytes = state.bytes + message.envelope.body.len();
        if state.count >= MESSAGES_MAX || bytes > BYTES_MAX {
            return Err(PublishError::Refused(format!("the queue {} is full", self.name)));
        }
        state.count += 1;
        state.bytes = bytes;
        state.ready.push_back(message);
        drop(state);
        self.arrived.notify_one();
        Ok(())
    }

    /// Takes out the next message. It counts as held until [`Queue::forget`] or
    /// [`Queue::give_back`].
    pub(super) fn pop(&self) -> QueueHead {
        let mut state = self.state.lock();
        let Some(message) = state.ready.pop_front() else { return QueueHead::Empty };
        let more = !state.ready.is_empty();
        drop(state);

        if more {
            // A wake-up is kept once while no consumer waits, however many messages came meanwhile,
            // so a consumer that takes a message wakes the next one for the rest.
            self.arrived.notify_one();
        }

        match message.expires_at {
            Some(at) if at <= Instant::now() => QueueHead::Expired(message),
            _ => QueueHead::QueuedMessage(message),
        }
    }

    /// Waits until a message may be there.
    pub(super) async fn next_arrival(&self) {
        self.arrived.notified().await;
    }

    /// The message is done with.
    pub(super) fn forget(&self, message: &QueuedMessage) {
        let mut state = self.state.lock();
        state.count -= 1;
        state.bytes -= message.envelope.body.len();
    }

    /// Puts a held message back to the front, so that the order is kept.
    pub(super) fn give_back(&self, message: QueuedMessage) {
        self.state.lock().ready.push_front(message);
        self.arrived.notify_one();
    }
}

#[cfg(test)]
mod tests;
