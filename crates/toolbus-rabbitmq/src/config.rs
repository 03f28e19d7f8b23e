//! How to reach the broker and what to call things there.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use lapin::uri::AMQPUri;
use toolbus_config::{BROKER_NODES_MAX, split_bus_urls};
use toolbus_wire::queue;

use crate::ConnectError;

/// Most bytes of a frame, where the URL says nothing else. It bounds the properties and headers of
/// a message, which travel in one frame; a body takes as many as it needs. The AMQP library keeps
/// room for 64 frames on each connection: of the 128 KiB that RabbitMQ offers, that would be 8 MiB.
const FRAME_BYTES_MAX: u32 = 32 << 10;
/// What the library's frames take, each way.
pub(crate) const FRAMES_BYTES_MAX: usize = 2 * 64 * FRAME_BYTES_MAX as usize;

/// Longest name of an exchange or a queue, in bytes: AMQP's short string.
pub(crate) const NAME_BYTES_MAX: usize = 255;

/// How to reach the broker, what to call things there, and how long to wait for it.
///
/// Its `Debug` form names the user and never the password.
#[derive(Debug, Clone)]
pub struct Config {
    /// The broker's nodes, at least one.
    pub(crate) nodes: Vec<Address>,
    /// The file that the password is in, instead of the one in each URL; read for each connection.
    pub password_file: Option<PathBuf>,
    /// The topic exchange of all messages.
    pub exchange: String,
    /// The topic exchange of the dead letters.
    pub dead_letter_exchange: String,
    /// Whether exchanges and the queues of durable subscriptions outlive the broker's restart.
    pub durable: bool,
    /// Which arguments dead-letter queues are declared with.
    pub queue_profile: QueueProfile,
    /// What the broker's management calls this connection.
    pub connection_name: String,
    /// How often either side must be heard from; after twice as long the connection counts as lost.
    /// Whole seconds, at least one.
    pub heartbeat: Duration,
    /// What [`RabbitBus::connect`](crate::RabbitBus::connect) does while the broker is away.
    pub start: Start,
    /// How long one attempt to connect may take, the handshake included.
    pub connect_within: Duration,
    /// How long a publish or a new subscription waits for a broker that is away or blocked.
    pub broker_timeout: Duration,
    /// How long a publish waits for the broker's confirm before it counts as unconfirmed.
    pub confirm_within: Duration,
}

/// What to do while the broker is away at the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// Try for this long, then give up. For commands that somebody waits for.
    Within(Duration),
    /// Begin at once with a bus that is down, and connect in the background for as long as it
    /// takes. For services, which say in their health what they wait for.
    Whenever,
}

/// Which arguments dead-letter queues are declared with. A queue that exists with others is used as
/// it is, so this matters only for who comes first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum QueueProfile {
    /// None, as the C# code of February 2026 does.
    #[default]
    UpstreamM,
    /// Bounded in age, count and bytes, as newer C# code does.
    UpstreamN,
}

impl Config {
    /// The broker at `urls` (`amqp://user:password@host:port/vhost` or `amqps://…`, with commas
    /// between those of several nodes), and everything else as the C# code has it.
    ///
    /// # Errors
    /// When one of them is not such a URL, or there are too many. The error does not repeat them,
    /// for they may hold passwords.
    pub fn new(urls: &str) -> Result<Self, ConnectError> {
        let nodes =
            split_bus_urls(urls).into_iter().map(Address::parse).collect::<Result<Vec<_>, _>>()?;
        if nodes.len() > BROKER_NODES_MAX {
            return Err(ConnectError::InvalidConfig("the broker has more than 16 nodes"));
        }

        Ok(Self {
            nodes,
            password_file: None,
            exchange: queue::EXCHANGE.to_owned(),
            dead_letter_exchange: queue::DEAD_LETTER_EXCHANGE.to_owned(),
            durable: true,
            queue_profile: QueueProfile::default(),
            connection_name: "toolbus".to_owned(),
            heartbeat: Duration::from_secs(8),
            start: Start::Within(Duration::from_secs(10)),
            connect_within: Duration::from_secs(10),
            broker_timeout: Duration::from_secs(5),
            confirm_within: Duration::from_secs(30),
        })
    }

    pub(crate) fn check(&self) -> Result<(), ConnectError> {
        let names = [&self.exchange, &self.dead_letter_exchange];
        if names.iter().any(|name| name.is_empty() || name.len() > NAME_BYTES_MAX) {
            return Err(ConnectError::InvalidConfig("an exchange's name has 1 to 255 bytes"));
        }
        if self.exchange == self.dead_letter_exchange {
            return Err(ConnectError::InvalidConfig("dead letters need an exchange of their own"));
        }
        Ok(())
    }
}

/// Where the broker is and who we are there.
#[derive(Clone)]
pub(crate) struct Address(AMQPUri);

impl Address {
    fn parse(url: &str) -> Result<Self, ConnectError> {
        // The parser's own message may quote the URL, and with it the password.
        let mut uri: AMQPUri = url.parse().map_err(|_| ConnectError::InvalidUrl)?;
        // The parser takes an IPv6 address for no host at all, and then for localhost.
        if let Some(host) = ipv6_host(url) {
            host.clone_into(&mut uri.authority.host);
        }
        Ok(Self(uri))
    }

    /// What the AMQP library connects to.
    pub(crate) fn uri(&self, heartbeat: Duration) -> AMQPUri {
        let mut uri = self.0.clone();
        let seconds = u16::try_from(heartbeat.as_secs()).unwrap_or(u16::MAX).max(1);
        uri.query.heartbeat.get_or_insert(seconds);
        uri.query.frame_max.get_or_insert(FRAME_BYTES_MAX);
        uri
    }

    pub(crate) fn user(&self) -> &str {
        &self.0.authority.userinfo.username
    }

    pub(crate) fn virtual_host(&self) -> &str {
        &self.0.vhost
    }
}

impl fmt::Display for Address {
    /// Host and port, as errors name the broker.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let authority = &self.0.authority;
        if authority.host.contains(':') {
            write!(f, "[{}]:{}", authority.host, authority.port)
        } else {
            write!(f, "{}:{}", authority.host, authority.port)
        }
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}@{self}/{}", self.0.scheme, self.user(), self.virtual_host())
    }
}

/// What stands between brackets where a URL has its host.
fn ipv6_host(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let host = authority.rsplit('@').next()?;
    host.strip_prefix('[')?.split_once(']').map(|(address, _)| address)
}

#[cfg(test)]
mod tests;
