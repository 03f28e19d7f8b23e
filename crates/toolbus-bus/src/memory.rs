//! The in-memory broker: the bus of a fleet that lives in one process.
//!
//! It behaves as RabbitMQ does, as far as the port goes: queues by subscription name, competing
//! consumers, unroutable publishes, redelivery, dead letters. It keeps nothing
//! past its own end. Every queue is bounded in messages and bytes, and a publish to a full one is
//! refused at once, so a consumer that has stopped cannot eat the process's memory.

mod consumer;
mod queue;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use parking_lot::{Mutex, RwLock};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolbus_wire::{Envelope, Topic};

use crate::metrics::Traffic;
use crate::port::{
    BODY_BYTES_MAX, Bus, Consumer, Handler, Health, Lifetime, PublishError, SubscribeError,
    Subscription, publish_recorded,
};
use crate::trace;
use queue::{Queue, QueuedMessage};

/// Most dead letters that are kept, and most bytes of their bodies; the oldest go first.
const DEAD_LETTERS_MAX: usize = 1_000;
const DEAD_LETTERS_BYTES_MAX: usize = 64 << 20;
/// Most topics whose routes are remembered. Reply topics come and go, so there must be a bound.
const ROUTES_MAX: usize = 4_096;

/// A connection to an in-memory broker. Clones are the same connection.
#[derive(Clone)]
pub struct MemoryBus {
    broker: Arc<Broker>,
    connection: Arc<MemoryConnection>,
}

/// A message that could not be handled.
#[derive(Debug, Clone)]
pub struct DeadLetter {
    /// Name of the subscription that it came to.
    pub subscription: String,
    /// The topic it was published to.
    pub topic: Topic,
    /// Why it could not be handled.
    pub reason: String,
    /// The message.
    pub envelope: Envelope,
}

/// What OpenTelemetry calls the broker: a name of our own, since it has none for this one.
const SYSTEM: &str = "toolbus_memory";

struct Broker {
    traffic: Traffic,
    routes: RwLock<RouteTable>,
    dead_letters: Mutex<DeadLetters>,
}

#[derive(Default)]
struct DeadLetters {
    letters: VecDeque<DeadLetter>,
    bytes: usize,
}

#[derive(Default)]
struct RouteTable {
    queues: Vec<Arc<Queue>>,
    by_topic: HashMap<Box<str>, Arc<[Arc<Queue>]>>,
}

/// What ends when one side goes away, as a process's connection would.
#[derive(Default)]
struct MemoryConnection {
    stop: CancellationToken,
    expire: CancellationToken,
    consumers: TaskTracker,
}

impl Default for MemoryBus {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryBus {
    /// A new broker, and the first connection to it.
    #[must_use]
    pub fn new() -> Self {
        let broker = Broker {
            traffic: Traffic::new(SYSTEM),
            routes: RwLock::default(),
            dead_letters: Mutex::default(),
        };
        Self { broker: Arc::new(broker), connection: Arc::default() }
    }

    /// Another connection to the same broker, closed apart from this one.
    #[must_use]
    pub fn connect(&self) -> Self {
        Self { broker: Arc::clone(&self.broker), connection: Arc::default() }
    }

    /// The dead letters of a subscription, oldest first.
    #[must_use]
    pub fn dead_letters(&self, subscription: &str) -> Vec<DeadLetter> {
        let dead = self.broker.dead_letters.lock();
        dead.letters.iter().filter(|letter| letter.subscription == subscription).cloned().collect()
    }

    /// How many messages wait in a subscription's queue for a consumer.
    #[must_use]
    pub fn ready_count(&self, subscription: &str) -> usize {
        self.broker.queue(subscription).map_or(0, |queue| queue.ready_count())
    }

    fn deliver(&self, topic: &Topic, mut envelope: Envelope) -> Result<(), PublishError> {
        if self.connection.stop.is_cancelled() {
            return Err(PublishError::Closed);
        }

        let bytes = envelope.body.len();
        if bytes > BODY_BYTES_MAX {
            return Err(PublishError::TooLarge { bytes });
        }

        let queues = self.broker.route_message(topic);
        let Some((last, others)) = queues.split_last() else {
            return Err(PublishError::Unroutable(topic.clone()));
        };

        trace::inject(&tracing::Span::current(), &mut envelope);
        // One full queue does not keep the message from the others, as with RabbitMQ.
        let mut result = Ok(());

        for queue in others {
            result = queue.push(QueuedMessage::new(topic.clone(), envelope.clone())).and(result);
        }

        last.push(QueuedMessage::new(topic.clone(), envelope)).and(result)
    }
}

impl Bus for MemoryBus {
    fn publish<'a>(
        &'a self,
        topic: &'a Topic,
        envelope: Envelope,
    ) -> BoxFuture<'a, Result<(), PublishError>> {
        let traffic = &self.broker.traffic;
        Box::pin(publish_recorded(traffic, topic, envelope, async |envelope| {
            self.deliver(topic, envelope)
        }))
    }

    fn subscribe(
        &self,
        subscription: Subscription,
        handler: Arc<dyn Handler>,
    ) -> BoxFuture<'_, Result<Consumer, SubscribeError>> {
        Box::pin(async move {
            if self.connection.stop.is_cancelled() {
                return Err(SubscribeError::Closed);
            }

            let queue = self.broker.bind(&subscription)?;
            let counted = Some(queue.count_consumer());
            let stop = self.connection.stop.child_token();
            let expire = self.connection.expire.child_token();
            let running = consumer::MemoryConsumer {
                broker: Arc::clone(&self.broker),
                queue,
                counted,
                handler,
                flow: subscription.flow,
                stop: stop.clone(),
                expire: expire.clone(),
                handlers: TaskTracker::new(),
            };

            let tasks = TaskTracker::new();
            self.connection.consumers.spawn(tasks.track_future(running.run()));
            tasks.close();

            Ok(Consumer::new(stop, expire, tasks))
        })
    }

    fn count_consumers<'a>(&'a self, subscription: &'a str) -> BoxFuture<'a, Option<usize>> {
        let queue = self.broker.queue(subscription);
        Box::pin(std::future::ready(queue.map(|queue| queue.consumers())))
    }

    fn health(&self) -> Health {
        if self.connection.stop.is_cancelled() {
            Health::Down { reason: "the bus is closed".to_owned() }
        } else {
            Health::Up
        }
    }

    fn close(&self, _grace: Duration) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.connection.stop.cancel();
            self.connection.expire.cancel();
            self.connection.consumers.close();
            self.connection.consumers.wait().await;
        })
    }
}

impl Broker {
    fn queue(&self, name: &str) -> Option<Arc<Queue>> {
        self.routes.read().queues.iter().find(|queue| queue.name() == name).cloned()
    }

    /// The queues that take a topic.
    fn route_message(&self, topic: &Topic) -> Arc<[Arc<Queue>]> {
        if let Some(queues) = self.routes.read().by_topic.get(topic.as_str()) {
            return Arc::clone(queues);
        }

        let mut routes = self.routes.write();
        let queues: Arc<[_]> =
            routes.queues.iter().filter(|queue| queue.matches(topic)).cloned().collect();

        if !queues.is_empty() {
            if routes.by_topic.len() >= ROUTES_MAX {
                routes.by_topic.clear();
            }
            routes.by_topic.insert(topic.as_str().into(), Arc::clone(&queues));
        }

        queues
    }

    /// The queue of a subscription: the one that is there with one more binding, or a new one.
    fn bind(&self, subscription: &Subscription) -> Result<Arc<Queue>, SubscribeError> {
        let mut routes = self.routes.write();
        routes.by_topic.clear();
        let refused = |reason: &str| SubscribeError::Refused {
            name: subscription.name.clone(),
            reason: reason.to_owned(),
        };

        match routes.queues.iter().find(|queue| queue.name() == subscription.name) {
            Some(queue) if queue.is_private() => {
                Err(refused("the queue belongs to another consumer"))
            }
            Some(_) if subscription.lifetime == Lifetime::Private => {
                Err(refused("the queue is there already and is not private"))
            }
            Some(queue) => {
                queue.bind(&subscription.pattern);
                Ok(Arc::clone(queue))
            }
            None => {
                let queue = Arc::new(Queue::new(subscription));
                routes.queues.push(Arc::clone(&queue));
                Ok(queue)
            }
        }
    }

    fn remove(&self, queue: &Arc<Queue>) {
        let mut routes = self.routes.write();
        routes.by_topic.clear();
        routes.queues.retain(|other| !Arc::ptr_eq(other, queue));
    }

    fn dead_letter(&self, queue: &Queue, message: QueuedMessage, reason: String) {
        let topic = &message.topic;
        tracing::warn!(queue = queue.name(), %topic, reason, "moved a message to the dead letters");
        self.dead_letters.lock().keep(DeadLetter {
            subscription: queue.name().to_owned(),
            topic: message.topic,
            reason,
            envelope: message.envelope,
        });
    }
}

impl DeadLetters {
    fn keep(&mut self, letter: DeadLetter) {
        self.bytes += letter.envelope.body.len();
        self.letters.push_back(letter);
        while self.letters.len() > DEAD_LETTERS_MAX || self.bytes > DEAD_LETTERS_BYTES_MAX {
            let Some(oldest) = self.letters.pop_front() else { return };
            self.bytes -= oldest.envelope.body.len();
        }
    }
}

#[cfg(test)]
mod tests;
