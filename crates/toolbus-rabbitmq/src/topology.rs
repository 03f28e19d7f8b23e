//! What is declared at the broker: exchanges, the queues of subscriptions, and their bindings.
//!
//! Names, arguments and the order of declaration are those of the C# code, so that either may come
//! first. What exists with other arguments is used as it is: the broker answers a declaration that
//! differs with 406 and closes the channel, so a new one is opened and the name is only checked.

use std::collections::HashSet;

use lapin::options::{
    BasicQosOptions, ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions,
};
use lapin::protocol::AMQPSoftError;
use lapin::types::FieldTable;
use lapin::{Channel, ExchangeKind};
use parking_lot::Mutex;
use toolbus_bus::port::{Lifetime, Subscription};
use toolbus_wire::queue;

use crate::config::{Config, NAME_BYTES_MAX, QueueProfile};
use crate::error::{is_soft, reason};
use crate::frame::{long_string, short_string};
use crate::link::Link;

/// Most messages in a queue that bears our own name.
const OWN_QUEUE_MESSAGES_MAX: i64 = 10_000;
/// Most bytes of bodies in such a queue.
const OWN_QUEUE_BYTES_MAX: i64 = 64 << 20;

/// Bounds of a dead-letter queue in the profile of newer C# code: three days, 256 MiB.
const DEAD_LETTER_TTL_MS: i64 = 259_200_000;
const DEAD_LETTER_MESSAGES_MAX: i64 = 10_000;
const DEAD_LETTER_BYTES_MAX: i64 = 268_435_456;

/// How long a queue of a single active consumer lasts that nobody consumes: ten minutes.
const SINGLE_ACTIVE_EXPIRES_MS: i64 = 600_000;

/// What a fleet declares, and which of it turned out to be there with other arguments.
pub(crate) struct Topology {
    exchange: String,
    dead_letter_exchange: String,
    durable: bool,
    profile: QueueProfile,
    /// Names that were found to differ, so that each is said once and not at every reconnect.
    differing: Mutex<HashSet<String>>,
}

impl Topology {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            exchange: config.exchange.clone(),
            dead_letter_exchange: config.dead_letter_exchange.clone(),
            durable: config.durable,
            profile: config.queue_profile,
            differing: Mutex::default(),
        }
    }

    pub(crate) fn exchange(&self) -> &str {
        &self.exchange
    }

    pub(crate) fn dead_letter_exchange(&self) -> &str {
        &self.dead_letter_exchange
    }

    /// Opens a channel and declares both exchanges, as the C# code does on every channel.
    pub(crate) async fn open_channel(&self, link: &Link) -> lapin::Result<Channel> {
        let mut declaring = Declarer::begin(self, link, None).await?;
        declaring.declare_exchanges().await?;
        Ok(declaring.channel)
    }

    /// Opens a channel, on which consumers are handed `prefetch` messages at once, and declares
    /// what a subscription needs. A private queue is not bound yet: a second consumer must be
    /// refused before its pattern becomes a binding of the first one's.
    pub(crate) async fn subscribe(
        &self,
        link: &Link,
        subscription: &Subscription,
        prefetch: u16,
    ) -> lapin::Result<Channel> {
        let mut declaring = Declarer::begin(self, link, Some(prefetch)).await?;
        declaring.declare_exchanges().await?;
        match subscription.lifetime {
            Lifetime::Durable => declaring.declare_durable(subscription).await?,
            Lifetime::SingleActive => declaring.declare_single_active(subscription).await?,
            Lifetime::Private => declaring.declare_private(subscription).await?,
        }
        Ok(declaring.channel)
    }

    /// Binds the queue of a subscription that has its consumer.
    pub(crate) async fn bind(
        &self,
        channel: &Channel,
        subscription: &Subscription,
    ) -> lapin::Result<()> {
        let name = queue::queue(&subscription.name);
        bind_queue(channel, &name, &self.exchange, subscription.pattern.as_str()).await
    }

    /// Says that something is there with other arguments, the first time.
    fn warn_of_difference(&self, name: &str, error: &lapin::Error) {
        if self.differing.lock().insert(name.to_owned()) {
            tracing::warn!(
                name,
                reason = reason(error),
                "queue or exchange exists with other arguments; using it as it is"
            );
        }
    }
}

/// Whether the names that are made of a subscription's name fit into AMQP.
pub(crate) fn fits_queue_name(subscription: &str) -> bool {
    queue::dead_letter_queue(subscription).len() <= NAME_BYTES_MAX
}

/// How many consumers the queue of a subscription has; `None` where there is no such queue.
pub(crate) async fn count_consumers(link: &Link, subscription: &str) -> Option<usize> {
    // A channel of its own: the broker closes it where there is no such queue.
    let channel = link.connection.create_channel().await.ok()?;
    let passive = QueueDeclareOptions { passive: true, ..Default::default() };
    let name = short_string(&queue::queue(subscription));
    let found = channel.queue_declare(name, passive, FieldTable::default()).await.ok()?;
    let count = usize::try_from(found.consumer_count()).ok();
    let _ = channel.close(200, "done".into()).await;
    count
}

/// Bounds of a queue that bears our own name.
fn own_bounds() -> FieldTable {
    let mut arguments = FieldTable::default();
    arguments.insert("x-max-length".into(), OWN_QUEUE_MESSAGES_MAX.into());
    arguments.insert("x-max-length-bytes".into(), OWN_QUEUE_BYTES_MAX.into());
    // The publisher gets an error, instead of an older message being lost.
    arguments.insert("x-overflow".into(), long_string("reject-publish"));
    arguments
}

/// Declares one thing after the other, on a new channel after each 406.
struct Declarer<'a> {
    topology: &'a Topology,
    link: &'a Link,
    prefetch: Option<u16>,
    channel: Channel,
}

impl<'a> Declarer<'a> {
    async fn begin(
        topology: &'a Topology,
        link: &'a Link,
        prefetch: Option<u16>,
    ) -> lapin::Result<Self> {
        let channel = create_channel(link, prefetch).await?;
        Ok(Self { topology, link, prefetch, channel })
    }

    async fn declare_exchanges(&mut self) -> lapin::Result<()> {
        let topology = self.topology;
        self.ensure_exchange(&topology.exchange).await?;
        self.ensure_exchange(&topology.dead_letter_exchange).await
    }

    async fn declare_durable(&mut self, subscription: &Subscription) -> lapin::Result<()> {
        let topology = self.topology;
        let pattern = subscription.pattern.as_str();
        let options = QueueDeclareOptions { durable: topology.durable, ..Default::default() };

        let dead_letters = queue::dead_letter_queue(&subscription.name);
        let arguments = dead_letter_arguments(topology.profile);
        self.ensure_queue(&dead_letters, options, arguments).await?;
        self.bind(&dead_letters, &topology.dead_letter_exchange, pattern).await?;

        let main = queue::queue(&subscription.name);
        let mut arguments = FieldTable::default();
        let exchange = long_string(&topology.dead_letter_exchange);
        arguments.insert("x-dead-letter-exchange".into(), exchange);
        arguments.insert("x-dead-letter-routing-key".into(), long_string(pattern));
        self.ensure_queue(&main, options, arguments).await?;

        self.bind(&main, &topology.exchange, pattern).await
    }

    /// The C# code has no such queue, so that it needs no policy of the broker to have an end.
    async fn declare_single_active(&mut self, subscription: &Subscription) -> lapin::Result<()> {
        let topology = self.topology;
        let name = queue::queue(&subscription.name);
        let options = QueueDeclareOptions { durable: topology.durable, ..Default::default() };

        let mut arguments = own_bounds();
        arguments.insert("x-expires".into(), SINGLE_ACTIVE_EXPIRES_MS.into());
        arguments.insert("x-single-active-consumer".into(), true.into());
        self.ensure_queue(&name, options, arguments).await?;

        self.bind(&name, &topology.exchange, subscription.pattern.as_str()).await
    }

    /// A queue of a private subscription is never one that is there with other arguments.
    async fn declare_private(&mut self, subscription: &Subscription) -> lapin::Result<()> {
        let name = queue::queue(&subscription.name);
        let options = QueueDeclareOptions::exclusive().auto_delete();
        self.channel.queue_declare(short_string(&name), options, own_bounds()).await.map(drop)
    }

    async fn ensure_exchange(&mut self, name: &str) -> lapin::Result<()> {
        let options =
            ExchangeDeclareOptions { durable: self.topology.durable, ..Default::default() };
        let declared = self.declare_exchange(name, options).await;
        if !self.reopen_if_declared_otherwise(name, &declared).await? {
            return declared;
        }
        let passive = ExchangeDeclareOptions { passive: true, ..options };
        self.declare_exchange(name, passive).await
    }

    async fn declare_exchange(
        &self,
        name: &str,
        options: ExchangeDeclareOptions,
    ) -> lapin::Result<()> {
        let none = FieldTable::default();
        self.channel.exchange_declare(short_string(name), ExchangeKind::Topic, options, none).await
    }

    async fn ensure_queue(
        &mut self,
        name: &str,
        options: QueueDeclareOptions,
        arguments: FieldTable,
    ) -> lapin::Result<()> {
        let declared =
            self.channel.queue_declare(short_string(name), options, arguments).await.map(drop);
        if !self.reopen_if_declared_otherwise(name, &declared).await? {
            return declared;
        }
        let passive = QueueDeclareOptions { passive: true, ..options };
        self.channel
            .queue_declare(short_string(name), passive, FieldTable::default())
            .await
            .map(drop)
    }

    /// Whether the broker answered 406. Then it has closed the channel, and another is open.
    async fn reopen_if_declared_otherwise(
        &mut self,
        name: &str,
        declared: &lapin::Result<()>,
    ) -> lapin::Result<bool> {
        match declared {
            Err(error) if is_soft(error, &AMQPSoftError::PRECONDITIONFAILED) => {
                self.topology.warn_of_difference(name, error);
                self.channel = create_channel(self.link, self.prefetch).await?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    async fn bind(&self, queue: &str, exchange: &str, key: &str) -> lapin::Result<()> {
        bind_queue(&self.channel, queue, exchange, key).await
    }
}

async fn bind_queue(
    channel: &Channel,
    queue: &str,
    exchange: &str,
    key: &str,
) -> lapin::Result<()> {
    let options = QueueBindOptions::default();
    let none = FieldTable::default();
    channel
        .queue_bind(short_string(queue), short_string(exchange), short_string(key), options, none)
        .await
}

async fn create_channel(link: &Link, prefetch: Option<u16>) -> lapin::Result<Channel> {
    let channel = link.connection.create_channel().await?;
    if let Some(prefetch) = prefetch {
        channel.basic_qos(prefetch, BasicQosOptions::default()).await?;
    }
    Ok(channel)
}

fn dead_letter_arguments(profile: QueueProfile) -> FieldTable {
    let mut arguments = FieldTable::default();
    if profile == QueueProfile::UpstreamN {
        arguments.insert("x-message-ttl".into(), DEAD_LETTER_TTL_MS.into());
        arguments.insert("x-max-length".into(), DEAD_LETTER_MESSAGES_MAX.into());
        arguments.insert("x-max-length-bytes".into(), DEAD_LETTER_BYTES_MAX.into());
        arguments.insert("x-overflow".into(), long_string("drop-head"));
    }
    arguments
}
