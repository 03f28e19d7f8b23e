//! What the tests stand on: a bus, a handler that writes down what it gets, and a plain AMQP client
//! to look from the other side.

use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use lapin::{Channel, Connection, ConnectionProperties};
use parking_lot::Mutex;
use toolbus_bus::{
    Bus as _, Consumer, Delivery, Disposition, Flow, Handler, Health, Subscription, TopicPattern,
};
use toolbus_rabbitmq::{Config, RabbitBus, Start};
use toolbus_testkit::eventually;
use toolbus_testkit::rabbit::{Message, Vhost};
use toolbus_wire::{Envelope, Topic};

/// Longer than anything takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// Runs a test with a virtual host of its own, or says that it cannot.
macro_rules! vhost {
    () => {
        match toolbus_testkit::rabbit::vhost().await {
            Some(vhost) => vhost,
            None => return,
        }
    };
}

/// Runs a test with a broker of its own, or says that it cannot.
macro_rules! node {
    () => {
        match toolbus_testkit::rabbit::node().await {
            Some(node) => node,
            None => return,
        }
    };
}

/// Runs a test with a broker of three nodes of its own, or says that it cannot.
macro_rules! cluster {
    () => {
        match toolbus_testkit::rabbit::cluster().await {
            Some(cluster) => cluster,
            None => return,
        }
    };
}

pub(crate) use {cluster, node, vhost};

pub(crate) fn config(url: &str) -> Config {
    let mut config = Config::new(url).unwrap();
    config.start = Start::Within(PATIENCE);
    config
}

pub(crate) async fn connect(url: &str) -> Arc<RabbitBus> {
    RabbitBus::connect(config(url)).await.unwrap()
}

pub(crate) fn topic(text: &str) -> Topic {
    Topic::parse(text).unwrap()
}

pub(crate) fn message(text: &str) -> Envelope {
    Envelope::new("Toolbus.Test", "test", Bytes::copy_from_slice(text.as_bytes()))
}

pub(crate) fn at_once(permits: u16) -> Flow {
    Flow::Concurrent(NonZeroU16::new(permits).unwrap())
}

pub(crate) fn in_order(prefetch: u16) -> Flow {
    Flow::Ordered { prefetch: NonZeroU16::new(prefetch).unwrap() }
}

pub(crate) fn durable(name: &str, pattern: &str, flow: Flow) -> Subscription {
    Subscription::durable(name, TopicPattern::parse(pattern).unwrap(), flow)
}

pub(crate) fn single_active(name: &str, pattern: &str, flow: Flow) -> Subscription {
    Subscription::single_active(name, TopicPattern::parse(pattern).unwrap(), flow)
}

pub(crate) fn private(name: &str, pattern: &str) -> Subscription {
    Subscription::private(name, TopicPattern::parse(pattern).unwrap(), in_order(8))
}

pub(crate) async fn subscribe(
    bus: &RabbitBus,
    subscription: Subscription,
    handler: &Arc<impl Handler>,
) -> Consumer {
    bus.subscribe(subscription, Arc::clone(handler) as Arc<dyn Handler>).await.unwrap()
}

pub(crate) async fn is_up(bus: &RabbitBus) {
    eventually(PATIENCE, async || match bus.health() {
        Health::Up => Ok(()),
        other => Err(other),
    })
    .await;
}

/// The connections into a virtual host, once the one of a bus is listed.
pub(crate) async fn connections(vhost: &Vhost) -> Vec<String> {
    eventually(PATIENCE, async || {
        let connections = vhost.connections().await.map_err(|error| vec![format!("{error:?}")])?;
        if connections.len() == 1 { Ok(connections) } else { Err(connections) }
    })
    .await
}

type Script = dyn Fn(&Delivery) -> Disposition + Send + Sync;

/// A handler that writes down what it gets and answers by a script.
pub(crate) struct Recorder {
    script: Box<Script>,
    seen: Mutex<Vec<Delivery>>,
}

impl Recorder {
    pub(crate) fn acking() -> Arc<Self> {
        Self::answering(|_| Disposition::Ack)
    }

    pub(crate) fn answering(
        script: impl Fn(&Delivery) -> Disposition + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self { script: Box::new(script), seen: Mutex::default() })
    }

    pub(crate) fn seen(&self) -> Vec<Delivery> {
        self.seen.lock().clone()
    }

    pub(crate) fn count(&self) -> usize {
        self.seen.lock().len()
    }

    pub(crate) fn texts(&self) -> Vec<String> {
        let text = |delivery: &Delivery| String::from_utf8_lossy(&delivery.envelope.body).into();
        self.seen.lock().iter().map(text).collect()
    }

    /// Waits until so many have come, and gives all.
    pub(crate) async fn received(&self, count: usize) -> Vec<Delivery> {
        eventually(PATIENCE, async || {
            let seen = self.seen();
            if seen.len() >= count { Ok(seen) } else { Err(format!("{} came", seen.len())) }
        })
        .await
    }
}

impl Handler for Recorder {
    fn handle(&self, delivery: Delivery) -> BoxFuture<'_, Disposition> {
        let disposition = (self.script)(&delivery);
        self.seen.lock().push(delivery);
        Box::pin(std::future::ready(disposition))
    }
}

/// A plain client: the other side's view.
pub(crate) struct Plain {
    pub(crate) channel: Channel,
    _connection: Connection,
}

impl Plain {
    pub(crate) async fn connect(url: &str) -> Self {
        let connection = Connection::connect(url, ConnectionProperties::default()).await.unwrap();
        let channel = connection.create_channel().await.unwrap();
        Self { channel, _connection: connection }
    }
}

/// What is in a queue of dead letters, once there are so many.
pub(crate) async fn dead_letters(vhost: &Vhost, queue: &str, count: usize) -> Vec<Message> {
    eventually(PATIENCE, async || {
        let letters = vhost.peek(queue, 100).await.unwrap();
        if letters.len() >= count { Ok(letters) } else { Err(format!("{} letters", letters.len())) }
    })
    .await
}
