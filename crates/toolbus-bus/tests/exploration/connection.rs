//! A party's connection to the broker: the bus that the code under test is given.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio_util::task::TaskTracker;
use toolbus_bus::{Bus, Consumer, Handler, Health, PublishError, SubscribeError, Subscription};
use toolbus_wire::clock::unix_now;
use toolbus_wire::{Envelope, Topic, header};

use crate::broker::Broker;
use crate::event::{Event, Kind, Moment, Party};
use crate::link::{ConnectionLost, Link, LinkStatus};
use crate::queue::Message;

/// How long a publish waits for a broker that is away.
const BROKER_TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) struct Connection {
    broker: Arc<Broker>,
    party: Party,
}

impl Connection {
    pub(crate) fn new(broker: &Arc<Broker>, party: Party) -> Arc<Self> {
        Arc::new(Self { broker: Arc::clone(broker), party })
    }

    async fn send(&self, topic: &Topic, mut envelope: Envelope) -> Result<(), PublishError> {
        let connection = self.wait_connected().await?;
        let unconfirmed = |ConnectionLost| PublishError::Unconfirmed;
        self.link().hop(connection).await.map_err(unconfirmed)?;

        let kind = Kind::of(&envelope);
        let event = self.broker.come_to(Moment::Publish(kind), self.party);
        if self.link().connection() != connection {
            return Err(PublishError::Unconfirmed);
        }

        if let Event::LoseUnnoticed(ms) = event {
            tokio::time::sleep(Duration::from_millis(ms)).await;
            return Err(PublishError::Unconfirmed);
        }
        correct_clock(&mut envelope);
        self.take(topic, Message::new(topic.clone(), envelope), event)?;
        self.link().hop(connection).await.map_err(unconfirmed)
    }

    /// What the broker does with a message that has come to it.
    fn take(&self, topic: &Topic, message: Message, event: Event) -> Result<(), PublishError> {
        let broker = &self.broker;
        match event {
            Event::LoseMessage => return Err(PublishError::Unconfirmed),
            Event::NotSent => return Err(PublishError::Unavailable("it is away".to_owned())),
            Event::Refuse if broker.has_queue(topic) => {
                return Err(PublishError::Refused("the queue is full".to_owned()));
            }
            Event::Delay(ms) => {
                broker.route_late(topic.clone(), message, ms);
                return Ok(());
            }
            Event::DelayUnconfirmed(ms) => {
                broker.route_late(topic.clone(), message, ms);
                return Err(PublishError::Unconfirmed);
            }
            _ => {}
        }

        if !broker.route(topic, &message) {
            broker.history.add_unroutable(&message.envelope);
            return Err(PublishError::Unroutable(topic.clone()));
        }
        match event {
            Event::LoseConfirm => Err(PublishError::Unconfirmed),
            Event::RefuseOneCopy => Err(PublishError::Refused("one queue is full".to_owned())),
            _ => Ok(()),
        }
    }

    /// The number of the connection, once there is one.
    async fn wait_connected(&self) -> Result<u32, PublishError> {
        let link = self.link();
        let connected = link.wait_until(|| link.is_connected());
        match tokio::time::timeout(BROKER_TIMEOUT, connected).await {
            Ok(()) => Ok(link.connection()),
            Err(_) => Err(PublishError::Unavailable("no connection".to_owned())),
        }
    }

    fn link(&self) -> &Link {
        self.broker.link(self.party)
    }
}

impl Bus for Connection {
    fn publish<'a>(
        &'a self,
        topic: &'a Topic,
        envelope: Envelope,
    ) -> BoxFuture<'a, Result<(), PublishError>> {
        Box::pin(async move {
            let heard = self.send(topic, envelope).await;
            // A dead process hears nothing.
            if self.link().status() == LinkStatus::Dead {
                std::future::pending::<()>().await;
            }
            heard
        })
    }

    fn subscribe(
        &self,
        subscription: Subscription,
        handler: Arc<dyn Handler>,
    ) -> BoxFuture<'_, Result<Consumer, SubscribeError>> {
        let tasks = TaskTracker::new();
        let consumer = self.broker.consume(subscription, self.party, handler, &tasks);
        tasks.close();
        let consumer = Consumer::new(consumer.stop, consumer.expire, tasks);
        Box::pin(std::future::ready(Ok(consumer)))
    }

    fn count_consumers<'a>(&'a self, subscription: &'a str) -> BoxFuture<'a, Option<usize>> {
        Box::pin(async move {
            let connection = self.wait_connected().await.ok()?;
            self.link().hop(connection).await.ok()?;
            let count = self.broker.count_consumers(subscription);
            self.link().hop(connection).await.ok()?;
            count
        })
    }

    fn health(&self) -> Health {
        if self.link().is_connected() {
            Health::Up
        } else {
            Health::Down { reason: "the connection is lost".to_owned() }
        }
    }

    fn close(&self, _grace: Duration) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// Has a request say by the wall clock when it was sent. That clock stands still while tokio's goes
/// on, so a second copy would be sent in the future.
fn correct_clock(envelope: &mut Envelope) {
    if let (Kind::Request, Some(left)) = (Kind::of(envelope), envelope.expires_after) {
        let deadline = unix_now() + left;
        envelope.headers.set(header::DEADLINE_MS, deadline.as_millis().to_string());
    }
}
