//! The conformance suite of the bus, on a real RabbitMQ: each test has a virtual host of its own.

#![allow(clippy::unwrap_used)] // Helpers of tests may panic as tests may.

use std::borrow::Cow;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use lapin::options::QueueDeclareOptions;
use lapin::types::FieldTable;
use lapin::{Connection, ConnectionProperties};
use serde_json::Value;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use toolbus_bus::Bus;
use toolbus_bus::conformance::{DeadLetter, Doomed, Fixture};
use toolbus_rabbitmq::{Config, RabbitBus};
use toolbus_testkit::rabbit::{self, Message, Vhost};
use toolbus_wire::frame::{Frame, HeaderValue, Properties};
use toolbus_wire::{Envelope, Topic, queue};

struct Rabbit {
    vhost: Vhost,
}

impl Rabbit {
    async fn start() -> Self {
        let vhost = rabbit::vhost().await;
        Self { vhost: vhost.expect("this suite needs RabbitMQ, which dev/setup installs") }
    }
}

impl Fixture for Rabbit {
    fn bus(&self) -> BoxFuture<'_, Arc<dyn Bus>> {
        connect(self.vhost.amqp_url()).boxed()
    }

    fn doomed(&self) -> BoxFuture<'_, Doomed> {
        async {
            let proxy = Proxy::start(&self.vhost.amqp_url()).await;
            let bus = connect(proxy.url.clone()).await;
            Doomed::new(bus, async move { drop(proxy) })
        }
        .boxed()
    }

    fn ready_count<'a>(&'a self, subscription: &'a str) -> BoxFuture<'a, usize> {
        async {
            let url = self.vhost.amqp_url();
            let connection =
                Connection::connect(&url, ConnectionProperties::default()).await.unwrap();
            let channel = connection.create_channel().await.unwrap();
            let name = queue::queue(subscription);
            let passive = QueueDeclareOptions::default().passive();
            let queue =
                channel.queue_declare(name.as_str().into(), passive, FieldTable::default()).await;
            connection.close(200, "looked".into()).await.unwrap();

            queue.map_or(0, |queue| usize::try_from(queue.message_count()).unwrap())
        }
        .boxed()
    }

    fn dead_letters<'a>(&'a self, subscription: &'a str) -> BoxFuture<'a, Vec<DeadLetter>> {
        async {
            let name = queue::dead_letter_queue(subscription);
            let letters = self.vhost.peek(&name, 100).await.unwrap();
            letters.into_iter().filter_map(dead_letter).collect()
        }
        .boxed()
    }
}

toolbus_bus::conformance_tests!(Rabbit::start().await);

async fn connect(url: String) -> Arc<dyn Bus> {
    RabbitBus::connect(Config::new(&url).unwrap()).await.unwrap()
}

/// A dead letter of ours. Those that the broker made, because a message expired, have no reason.
fn dead_letter(message: Message) -> Option<DeadLetter> {
    let header = |name: &str| message.properties["headers"][name].as_str().map(str::to_owned);
    let reason = header("rb-dead-letter-reason")?;
    let topic = Topic::parse(header("rb-dead-letter-topic")?).unwrap();
    Some(DeadLetter { topic, reason, envelope: envelope(message) })
}

fn envelope(message: Message) -> Envelope {
    let properties = &message.properties;
    let text = |name: &str| properties.get(name)?.as_str().map(Cow::Borrowed);
    let headers = properties.get("headers").and_then(Value::as_object).into_iter().flatten();
    let headers = headers.filter_map(|(name, value)| {
        let value = value.as_str()?.as_bytes();
        Some((Cow::Borrowed(name.as_str()), HeaderValue::LongString(Cow::Borrowed(value))))
    });

    Envelope::from_frame(Frame {
        properties: Properties {
            content_type: text("content_type"),
            delivery_mode: None,
            correlation_id: text("correlation_id"),
            reply_to: text("reply_to"),
            expiration: text("expiration"),
            message_id: text("message_id"),
            timestamp: properties.get("timestamp").and_then(Value::as_u64),
            message_type: text("type"),
        },
        headers: headers.collect(),
        body: message.body.clone().into(),
    })
}

/// What stands between a bus and its broker, so that the connection can end without a word.
struct Proxy {
    url: String,
    /// Dropped, it ends every connection through it, and takes no new ones.
    _tasks: JoinSet<()>,
}

impl Proxy {
    async fn start(url: &str) -> Self {
        let (scheme_and_user, host_and_path) = url.rsplit_once('@').unwrap();
        let (host, path) = host_and_path.split_once('/').unwrap();
        let (listener, host) = (TcpListener::bind("127.0.0.1:0").await.unwrap(), host.to_owned());
        let url = format!("{scheme_and_user}@{}/{path}", listener.local_addr().unwrap());
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (mut client, _) = listener.accept().await.unwrap();
                let mut broker = TcpStream::connect(&host).await.unwrap();
                connections.spawn(async move {
                    let _ = copy_bidirectional(&mut client, &mut broker).await;
                });
            }
        });

        Self { url, _tasks: tasks }
    }
}
