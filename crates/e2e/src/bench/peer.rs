//! The peer: the same ping-pong written with the AMQP library alone.
//!
//! The same topology and durability as ours: topic exchange; durable request queue with the same
//! arguments; exclusive reply queue with the same bounds; persistent messages; `mandatory` and
//! confirms on both sides; a request is acked once its reply is confirmed; the same prefetch; one
//! connection on each side, with one channel to publish and one to consume. Neither side looks into
//! a message: there is a correlation id, a reply topic and a body of the same length, and that is
//! all.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context as _, ensure};
use futures_util::StreamExt as _;
use lapin::message::Delivery;
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicPublishOptions, BasicQosOptions,
    ConfirmSelectOptions, ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions,
};
use lapin::types::{AMQPValue, FieldTable, ShortString};
use lapin::{
    BasicProperties, Channel, Confirmation, Connection, ConnectionProperties, Consumer,
    ExchangeKind, PublisherConfirm,
};
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::Lane;

const EXCHANGE: &str = "rockbot";
const DEAD_LETTER_EXCHANGE: &str = "rockbot.dlx";
const REQUESTS: &str = "bench.peer";
const REPLIES: &str = "bench.peer.replies";
/// As a requester of ours fetches ahead.
const REPLY_PREFETCH: u16 = 256;
const PERSISTENT: u8 = 2;

/// Settings that both sides of the peer share.
#[derive(Debug, Clone, Copy)]
pub struct PeerSettings {
    /// Whether published messages are confirmed.
    pub confirms: Confirms,
    /// Requests that the answering side takes at a time.
    pub in_flight: u16,
    /// Length of every body, in bytes.
    pub body_bytes: usize,
}

/// Whether published messages are confirmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Confirms {
    /// The broker confirms each.
    On,
    /// It does not.
    Off,
}

impl Confirms {
    /// With and without confirms there are two queues, and a worker for each.
    fn name(self, base: &str) -> ShortString {
        let suffix = if self == Self::On { "confirmed" } else { "unconfirmed" };
        format!("{base}.{suffix}").into()
    }
}

/// A queue to declare. Its name gets a suffix that says whether messages are confirmed.
struct QueueDeclaration {
    base_name: &'static str,
    options: QueueDeclareOptions,
    arguments: FieldTable,
}

/// One side's connection.
struct PeerConnection {
    // Dropped, it is closed.
    connection: Connection,
    publishing: Channel,
    consumer: Consumer,
}

impl PeerConnection {
    async fn connect(
        url: &str,
        confirms: Confirms,
        queue: QueueDeclaration,
        prefetch: u16,
    ) -> lapin::Result<Self> {
        let connection = Connection::connect(url, ConnectionProperties::default()).await?;
        let publishing = connection.create_channel().await?;
        if confirms == Confirms::On {
            publishing.confirm_select(ConfirmSelectOptions::default()).await?;
        }

        let consuming = connection.create_channel().await?;
        let durable = ExchangeDeclareOptions { durable: true, ..Default::default() };
        for exchange in [EXCHANGE, DEAD_LETTER_EXCHANGE] {
            let none = FieldTable::default();
            consuming.exchange_declare(exchange.into(), ExchangeKind::Topic, durable, none).await?;
        }

        let name = confirms.name(queue.base_name);
        consuming.queue_declare(name.clone(), queue.options, queue.arguments).await?;
        let bind = QueueBindOptions::default();
        let none = FieldTable::default();
        consuming.queue_bind(name.clone(), EXCHANGE.into(), name.clone(), bind, none).await?;
        consuming.basic_qos(prefetch, BasicQosOptions::default()).await?;
        let consume = BasicConsumeOptions::default();
        let none = FieldTable::default();
        let consumer = consuming.basic_consume(name, "".into(), consume, none).await?;

        Ok(Self { connection, publishing, consumer })
    }
}

/// Publishes one side's messages, all with the same body.
#[derive(Clone)]
struct PeerPublisher {
    channel: Channel,
    body: Arc<[u8]>,
}

impl PeerPublisher {
    fn new(channel: Channel, terms: PeerSettings) -> Self {
        Self { channel, body: vec![b'x'; terms.body_bytes].into() }
    }

    async fn publish(
        &self,
        key: ShortString,
        properties: BasicProperties,
    ) -> lapin::Result<PublisherConfirm> {
        let options = BasicPublishOptions { mandatory: true, immediate: false };
        let properties = properties.with_delivery_mode(PERSISTENT);
        self.channel.basic_publish(EXCHANGE.into(), key, options, &self.body, properties).await
    }
}

fn check_confirmation(confirmation: &Confirmation) -> anyhow::Result<()> {
    let is_taken = matches!(confirmation, Confirmation::Ack(None) | Confirmation::NotRequested);
    ensure!(is_taken, "a message was not taken: {confirmation:?}");
    Ok(())
}

/// The answering side.
pub struct Worker {
    side: PeerConnection,
    terms: PeerSettings,
}

impl Worker {
    /// Connects, and listens.
    ///
    /// # Errors
    /// When the broker refuses something.
    pub async fn start(url: &str, terms: PeerSettings) -> anyhow::Result<Self> {
        let confirms = terms.confirms;
        let mut arguments = FieldTable::default();
        let long = |text: &str| AMQPValue::LongString(text.into());
        let key = confirms.name(REQUESTS);
        arguments.insert("x-dead-letter-exchange".into(), long(DEAD_LETTER_EXCHANGE));
        arguments.insert("x-dead-letter-routing-key".into(), long(key.as_str()));
        let durable = QueueDeclareOptions { durable: true, ..Default::default() };
        let queue = QueueDeclaration { base_name: REQUESTS, options: durable, arguments };
        Ok(Self {
            side: PeerConnection::connect(url, confirms, queue, terms.in_flight).await?,
            terms,
        })
    }

    /// Answers requests until the connection ends.
    ///
    /// # Errors
    /// When an answer is not taken.
    pub async fn run(self) -> anyhow::Result<()> {
        let PeerConnection { publishing, mut consumer, .. } = self.side;
        let outlet = PeerPublisher::new(publishing, self.terms);
        let mut answering = JoinSet::new();
        while let Some(delivery) = consumer.next().await {
            answering.spawn(answer_request(outlet.clone(), delivery?));
            while let Some(answered) = answering.try_join_next() {
                answered??;
            }
        }
        Ok(())
    }
}

async fn answer_request(outlet: PeerPublisher, request: Delivery) -> anyhow::Result<()> {
    let asked = &request.properties;
    let reply_to = asked.reply_to().clone().context("no reply topic")?;
    let correlation_id = asked.correlation_id().clone().context("no correlation id")?;
    let properties = BasicProperties::default().with_correlation_id(correlation_id);
    check_confirmation(&outlet.publish(reply_to, properties).await?.await?)?;
    request.ack(BasicAckOptions::default()).await?;
    Ok(())
}

/// The asking side.
pub struct Peer {
    shared: Arc<PeerShared>,
    _reader: JoinSet<()>,
}

struct PeerShared {
    outlet: PeerPublisher,
    requests: ShortString,
    replies: ShortString,
    waiting: Mutex<HashMap<ShortString, oneshot::Sender<()>>>,
    calls: AtomicU64,
    // Dropped, it is closed.
    _connection: Connection,
}

impl Peer {
    /// Connects, and listens to replies.
    ///
    /// # Errors
    /// When the broker refuses something.
    pub async fn start(url: &str, terms: PeerSettings) -> anyhow::Result<Self> {
        let confirms = terms.confirms;
        let mut bounds = FieldTable::default();
        bounds.insert("x-max-length".into(), 10_000_i64.into());
        bounds.insert("x-max-length-bytes".into(), (64_i64 << 20).into());
        bounds.insert("x-overflow".into(), AMQPValue::LongString("reject-publish".into()));
        let options = QueueDeclareOptions::exclusive().auto_delete();
        let queue = QueueDeclaration { base_name: REPLIES, options, arguments: bounds };
        let PeerConnection { connection, publishing, consumer } =
            PeerConnection::connect(url, confirms, queue, REPLY_PREFETCH).await?;
        let shared = Arc::new(PeerShared {
            outlet: PeerPublisher::new(publishing, terms),
            requests: confirms.name(REQUESTS),
            replies: confirms.name(REPLIES),
            waiting: Mutex::default(),
            calls: AtomicU64::new(0),
            _connection: connection,
        });

        let mut reader = JoinSet::new();
        reader.spawn(dispatch_replies(Arc::clone(&shared), consumer));
        Ok(Self { shared, _reader: reader })
    }

    /// A lane of calls.
    #[must_use]
    pub fn lane(&self) -> PeerLane {
        PeerLane { shared: Arc::clone(&self.shared), confirm: None }
    }
}

/// Hands each reply to the call that waits for it, until the connection ends.
async fn dispatch_replies(shared: Arc<PeerShared>, mut replies: Consumer) {
    while let Some(Ok(reply)) = replies.next().await {
        let waiting = reply.properties.correlation_id().as_ref();
        let waiting = waiting.and_then(|id| shared.waiting.lock().remove(id));
        if let Some(waiting) = waiting {
            // The receiver is dropped when its call has failed.
            let _ = waiting.send(());
        }
        if reply.ack(BasicAckOptions::default()).await.is_err() {
            return;
        }
    }
}

/// Asks, and waits for the reply.
pub struct PeerLane {
    shared: Arc<PeerShared>,
    /// The confirm of the call before. The reply mostly overtakes it, so it is looked at one call
    /// later, when it is there.
    confirm: Option<PublisherConfirm>,
}

impl Lane for PeerLane {
    async fn call(&mut self) -> anyhow::Result<()> {
        let shared = &*self.shared;
        let id = shared.calls.fetch_add(1, Ordering::Relaxed);
        let id = ShortString::from(id.to_string());
        let (sender, reply) = oneshot::channel();
        shared.waiting.lock().insert(id.clone(), sender);
        let properties = BasicProperties::default()
            .with_correlation_id(id)
            .with_reply_to(shared.replies.clone());
        let confirm = shared.outlet.publish(shared.requests.clone(), properties).await?;
        reply.await.context("the connection has ended")?;

        if let Some(confirm) = self.confirm.replace(confirm) {
            check_confirmation(&confirm.await?)?;
        }
        Ok(())
    }
}
