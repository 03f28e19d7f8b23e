//! The queues of the broker of these tests: messages that wait, and those that a worker holds.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use toolbus_bus::{Handler, Lifetime, Subscription};
use toolbus_wire::{Envelope, Topic};

use crate::event::Party;

/// A message in a queue.
#[derive(Clone)]
pub(crate) struct Message {
    pub(crate) topic: Topic,
    pub(crate) envelope: Envelope,
    pub(crate) redelivered: bool,
    /// When the broker drops it.
    expires_at: Option<Instant>,
}

impl Message {
    pub(crate) fn new(topic: Topic, envelope: Envelope) -> Self {
        let expires_at = envelope.expires_after.map(|after| Instant::now() + after);
        Self { topic, envelope, redelivered: false, expires_at }
    }

    fn is_expired(&self) -> bool {
        self.expires_at.is_some_and(|at| at <= Instant::now())
    }
}

/// Who takes messages from a queue.
#[derive(Clone)]
pub(crate) struct QueueConsumer {
    pub(crate) party: Party,
    pub(crate) handler: Arc<dyn Handler>,
    pub(crate) stop: CancellationToken,
    pub(crate) expire: CancellationToken,
    /// Fires when a message may be there.
    pub(crate) arrived: Arc<Notify>,
    prefetch: usize,
}

/// A message that a worker has not answered yet.
struct Unacked {
    party: Party,
    number: u64,
    message: Message,
}

/// A message on its way to a consumer.
pub(crate) struct Handout {
    /// Name of the queue.
    pub(crate) queue: String,
    pub(crate) consumer: QueueConsumer,
    pub(crate) number: u64,
    pub(crate) message: Message,
}

pub(crate) struct Queue {
    pub(crate) subscription: Subscription,
    pub(crate) consumers: Vec<QueueConsumer>,
    /// A private queue is gone while its owner has no connection.
    pub(crate) is_open: bool,
    arrived: Arc<Notify>,
    /// Who had the message before the one that is handed out next.
    pub(crate) last_party: Option<Party>,
    ready: VecDeque<Message>,
    unacked: Vec<Unacked>,
    handed_out: u64,
}

impl Queue {
    pub(crate) fn new(subscription: Subscription) -> Self {
        Self {
            subscription,
            consumers: Vec::new(),
            is_open: true,
            arrived: Arc::default(),
            last_party: None,
            ready: VecDeque::new(),
            unacked: Vec::new(),
            handed_out: 0,
        }
    }

    pub(crate) fn add_consumer(
        &mut self,
        party: Party,
        handler: Arc<dyn Handler>,
    ) -> QueueConsumer {
        let consumer = QueueConsumer {
            party,
            handler,
            stop: CancellationToken::new(),
            expire: CancellationToken::new(),
            arrived: Arc::clone(&self.arrived),
            prefetch: usize::from(self.subscription.flow.prefetch().get()),
        };
        self.consumers.push(consumer.clone());
        consumer
    }

    /// Has whoever waits for a message look for one.
    pub(crate) fn wake(&self) {
        self.arrived.notify_one();
    }

    pub(crate) fn is_private(&self) -> bool {
        self.subscription.lifetime == Lifetime::Private
    }

    pub(crate) fn handler_of(&self, party: Party) -> Option<Arc<dyn Handler>> {
        let consumer = self.consumers.iter().find(|consumer| consumer.party == party)?;
        Some(Arc::clone(&consumer.handler))
    }

    pub(crate) fn belongs_to(&self, party: Party) -> bool {
        self.is_private() && self.consumers.iter().any(|consumer| consumer.party == party)
    }

    pub(crate) fn takes(&self, topic: &Topic) -> bool {
        self.is_open && self.subscription.pattern.matches(topic.as_str())
    }

    /// Whether no message is in it, or held by a worker.
    pub(crate) fn is_idle(&self) -> bool {
        self.ready.is_empty() && self.unacked.is_empty()
    }

    pub(crate) fn push(&mut self, message: Message) {
        self.ready.push_back(message);
        self.wake();
    }

    pub(crate) fn pop(&mut self) -> Option<Message> {
        self.ready.retain(|message| !message.is_expired());
        self.ready.pop_front()
    }

    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Consumers that have room for a message.
    pub(crate) fn free_consumers(&self, mut is_up: impl FnMut(Party) -> bool) -> Vec<Party> {
        let held = |party| self.unacked.iter().filter(|unacked| unacked.party == party).count();
        let free = self
            .consumers
            .iter()
            .filter(|consumer| is_up(consumer.party) && held(consumer.party) < consumer.prefetch);
        free.map(|consumer| consumer.party).collect()
    }

    /// Takes the next message out for a consumer, which has to answer it.
    pub(crate) fn hand_out(&mut self, party: Party) -> Option<Handout> {
        let consumer = self.consumers.iter().find(|consumer| consumer.party == party)?.clone();
        let message = self.pop()?;
        self.handed_out += 1;
        self.last_party = Some(party);
        let number = self.handed_out;
        self.unacked.push(Unacked { party, number, message: message.clone() });
        let queue = self.subscription.name.clone();
        Some(Handout { queue, consumer, number, message })
    }

    pub(crate) fn ack(&mut self, number: u64) {
        self.unacked.retain(|unacked| unacked.number != number);
    }

    /// Puts back what a worker held that is lost.
    pub(crate) fn requeue(&mut self, party: Party) {
        for index in (0..self.unacked.len()).rev() {
            if self.unacked[index].party == party {
                let mut message = self.unacked.remove(index).message;
                message.redelivered = true;
                self.ready.push_front(message);
            }
        }
    }

    /// The queue goes with its owner's connection, and gives back what is lost with it.
    pub(crate) fn close(&mut self) -> VecDeque<Message> {
        self.is_open = false;
        std::mem::take(&mut self.ready)
    }

    /// Drops what a dead process was at.
    pub(crate) fn kill_consumer(&mut self, party: Party) {
        for consumer in self.consumers.iter().filter(|consumer| consumer.party == party) {
            consumer.expire.cancel();
        }
        self.remove_consumer(party);
    }

    pub(crate) fn remove_consumer(&mut self, party: Party) {
        self.consumers.retain(|consumer| consumer.party != party);
    }
}
