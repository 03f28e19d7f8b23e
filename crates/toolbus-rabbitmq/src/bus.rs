//! The bus on RabbitMQ: the port's four methods, and what starts and ends them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;
use toolbus_bus::port::{
    BODY_BYTES_MAX, Bus, Consumer, Handler, Health, PublishError, SubscribeError, Subscription,
    publish_recorded,
};
use toolbus_bus::trace;
use toolbus_wire::{Envelope, Topic};

use crate::config::FRAMES_BYTES_MAX;
use crate::consumer::RunningSubscription;
use crate::frame::{properties_of, short_string};
use crate::shared::{IN_FLIGHT_BYTES_MAX, Message, SendError, Shared};
use crate::{Config, ConnectError, Start, metrics, supervisor, topology};

/// How many bytes a bus holds at most for its connection: bodies that are being published, and the
/// AMQP library's frames. What is fetched ahead is counted with each subscription
/// ([`Flow::bytes_max`](toolbus_bus::port::Flow::bytes_max)).
#[must_use]
pub const fn connection_bytes_max() -> usize {
    IN_FLIGHT_BYTES_MAX + FRAMES_BYTES_MAX
}

/// A message bus on one connection to a RabbitMQ broker.
///
/// It belongs to the tokio runtime that it was connected on: its tasks and all handlers run there.
pub struct RabbitBus {
    shared: Arc<Shared>,
}

impl RabbitBus {
    /// Connects to the broker and from then on keeps the connection, whatever happens to it.
    ///
    /// With [`Start::Whenever`] it returns at once, and [`RabbitBus::connected`] waits.
    ///
    /// # Errors
    /// When a setting cannot be used; and with [`Start::Within`], when user, password or virtual
    /// host are refused, or the broker was not there in time.
    pub async fn connect(config: Config) -> Result<Arc<Self>, ConnectError> {
        config.check()?;
        let start = config.start;
        let shared = Arc::new(Shared::new(config));
        metrics::observe(&shared);
        let first = match start {
            Start::Within(limit) => Some(supervisor::connect_first(&shared, limit).await?),
            Start::Whenever => None,
        };

        shared.tasks.spawn(supervisor::supervise(Arc::clone(&shared), first));
        let bus = Arc::new(Self { shared });

        if start != Start::Whenever {
            bus.connected().await;
        }

        Ok(bus)
    }

    /// Waits until messages flow, or the bus is closed.
    pub async fn connected(&self) {
        let shared = &self.shared;
        let mut state = shared.state.subscribe();
        // Either arm only waits.
        tokio::select! {
            _ = state.wait_for(crate::shared::ConnectionState::is_up) => {}
            () = shared.closing.cancelled() => {}
        }
    }

    /// The node that it is connected to, as an address without the password, and what that says of
    /// itself. `None` while it is not connected.
    pub(crate) fn describe_broker(&self) -> Option<String> {
        let session = self.shared.state.borrow().session()?;
        let broker = session.link.broker();
        Some(broker.unwrap_or_else(|| "a broker that does not say which".to_owned()))
    }

    /// Waits until the bus is closed.
    pub(crate) async fn closed(&self) {
        self.shared.closing.cancelled().await;
    }

    async fn publish_now(&self, topic: &Topic, mut envelope: Envelope) -> Result<(), PublishError> {
        if self.shared.closing.is_cancelled() {
            return Err(PublishError::Closed);
        }

        let bytes = envelope.body.len();
        if bytes > BODY_BYTES_MAX {
            return Err(PublishError::TooLarge { bytes });
        }

        trace::inject(&tracing::Span::current(), &mut envelope);
        let properties =
            properties_of(&envelope).map_err(|error| PublishError::Refused(error.to_string()))?;
        let message = Message {
            exchange: short_string(self.shared.topology.exchange()),
            routing_key: short_string(topic.as_str()),
            properties,
            body: envelope.body,
        };

        self.shared.send(message).await.map_err(|error| error.about(topic))
    }

    async fn subscribe_now(
        &self,
        subscription: Subscription,
        handler: Arc<dyn Handler>,
    ) -> Result<Consumer, SubscribeError> {
        let shared = &self.shared;
        if shared.closing.is_cancelled() {
            return Err(SubscribeError::Closed);
        }

        let name = subscription.name.clone();
        if !topology::fits_queue_name(&name) {
            let reason = "the name is too long for a queue".to_owned();
            return Err(SubscribeError::Refused { name, reason });
        }

        let stop = shared.stop_consumers.child_token();
        let expire = shared.expire_consumers.child_token();
        let wanted = subscription.clone();
        let (running, established) = RunningSubscription::new(
            Arc::clone(shared),
            subscription,
            handler,
            stop.clone(),
            expire.clone(),
        );
        let tasks = TaskTracker::new();
        shared.consumers.spawn(tasks.track_future(running.run()));
        tasks.close();
        let consumer = Consumer::new(stop, expire, tasks);
        let by = Instant::now() + shared.config.broker_timeout;
        let established = async { established.wait().await.ok_or(SendError::Closed) };

        match shared.unless_closing(by, established).await {
            Ok(Ok(())) => Ok(consumer),
            Ok(Err(reason)) => Err(SubscribeError::Refused { name, reason }),
            Err(SendError::Closed) => Err(SubscribeError::Closed),
            Err(_) => {
                let trouble = shared.interruption_of(&wanted);
                consumer.kill().await;
                match trouble.filter(|_| shared.state.borrow().is_up()) {
                    Some(reason) => Err(SubscribeError::Refused { name, reason }),
                    None => Err(SubscribeError::Unavailable(shared.describe_outage())),
                }
            }
        }
    }
}

impl Bus for RabbitBus {
    fn publish<'a>(
        &'a self,
        topic: &'a Topic,
        envelope: Envelope,
    ) -> BoxFuture<'a, Result<(), PublishError>> {
        let traffic = &self.shared.traffic;
        Box::pin(publish_recorded(traffic, topic, envelope, |envelope| {
            self.publish_now(topic, envelope)
        }))
    }

    fn subscribe(
        &self,
        subscription: Subscription,
        handler: Arc<dyn Handler>,
    ) -> BoxFuture<'_, Result<Consumer, SubscribeError>> {
        Box::pin(self.subscribe_now(subscription, handler))
    }

    fn count_consumers<'a>(&'a self, subscription: &'a str) -> BoxFuture<'a, Option<usize>> {
        Box::pin(async move {
            let session = self.shared.state.borrow().session()?;
            topology::count_consumers(&session.link, subscription).await
        })
    }

    fn health(&self) -> Health {
        self.shared.health()
    }

    fn close(&self, grace: Duration) -> BoxFuture<'_, ()> {
        Box::pin(self.shared.close(grace))
    }
}

impl fmt::Debug for RabbitBus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RabbitBus")
            .field("nodes", &self.shared.config.nodes)
            .field("health", &self.health())
            .finish()
    }
}

impl Drop for RabbitBus {
    /// Ends a bus that was not closed, without waiting for the end.
    fn drop(&mut self) {
        self.shared.cancel_all();
    }
}
