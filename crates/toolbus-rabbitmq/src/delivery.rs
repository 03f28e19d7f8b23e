//! One message from its delivery to its end: handed to the handler, then acked, or made a dead
//! letter, as the handler says.
//!
//! Whatever moves a message elsewhere is confirmed before the message is acked here, so at every
//! moment the broker has it at least once.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt as _;
use lapin::options::{BasicAckOptions, BasicNackOptions};
use lapin::{BasicProperties, Channel};
use tokio_util::sync::CancellationToken;
use toolbus_bus::metrics::DeadLetterReason;
use toolbus_bus::port::{
    BODY_BYTES_MAX, DeadLetterBody, Delivery, Disposition, Handler, Lifetime, Subscription,
    dispatch,
};
use toolbus_wire::{Topic, header, queue};

use crate::frame::{self, envelope_of, long_string, short_string};
use crate::frame_filter::OVERSIZED;
use crate::prefetch::AtWork;
use crate::shared::{Message, SendError, Shared};

/// The topic that a dead letter was published to. Its routing key is the pattern that took it, for
/// that is what dead-letter queues are bound to.
const DEAD_LETTER_TOPIC: &str = "rb-dead-letter-topic";
/// Where a quorum queue says how often it has handed a message out before.
const DELIVERY_COUNT: &str = "x-delivery-count";
/// Longest reason on a dead letter, in bytes.
const REASON_BYTES_MAX: usize = 1_024;

/// The channel of one subscription, which messages come from and are answered on.
pub(crate) struct SubscriptionChannel {
    shared: Arc<Shared>,
    subscription: Subscription,
    queue: String,
    channel: Channel,
    at_work: AtWork,
}

impl SubscriptionChannel {
    pub(crate) fn new(shared: Arc<Shared>, subscription: Subscription, channel: Channel) -> Self {
        let queue = queue::queue(&subscription.name);
        Self { shared, subscription, queue, channel, at_work: AtWork::default() }
    }

    pub(crate) fn channel(&self) -> &Channel {
        &self.channel
    }

    /// How many of its messages are at work.
    pub(crate) fn at_work(&self) -> &AtWork {
        &self.at_work
    }

    /// The message is done with. Not waited for: an ack that gets lost with its connection costs a
    /// redelivery, as one that waits would.
    fn ack(&self, tag: u64) {
        let _ = self.channel.basic_ack(tag, BasicAckOptions::default()).now_or_never();
    }

    pub(crate) fn requeue(&self, tag: u64) {
        let requeue = BasicNackOptions { multiple: false, requeue: true };
        let _ = self.channel.basic_nack(tag, requeue).now_or_never();
    }

    /// Lets the broker make a dead letter of it, without a word on why.
    fn reject(&self, tag: u64) {
        let reject = BasicNackOptions { multiple: false, requeue: false };
        let _ = self.channel.basic_nack(tag, reject).now_or_never();
    }
}

/// A message that was delivered and is not answered yet.
pub(crate) struct IncomingMessage {
    source: Arc<SubscriptionChannel>,
    tag: u64,
    properties: BasicProperties,
    body: DeadLetterBody,
    /// What its handler is given, or why it cannot be given to any.
    delivery: Result<Delivery, &'static str>,
}

impl IncomingMessage {
    pub(crate) fn new(
        source: Arc<SubscriptionChannel>,
        received: lapin::message::Delivery,
    ) -> Self {
        let lapin::message::Delivery {
            delivery_tag: tag,
            routing_key,
            redelivered,
            properties,
            data,
            ..
        } = received;

        let body = Bytes::from(data);
        let encoding = properties.content_encoding().as_ref();
        let is_oversized = encoding.is_some_and(|text| text.as_str() == OVERSIZED);
        let bytes = body.len();
        let envelope = envelope_of(&properties, body.clone());
        let body = DeadLetterBody::new(body);
        let topic = Topic::parse(routing_key.as_str());
        let delivery = match topic {
            _ if bytes > BODY_BYTES_MAX => Err("the body is over the limit"),
            _ if is_oversized => Err("properties and headers are over the limit"),
            Err(_) => Err("it was published to no topic"),
            Ok(topic) => {
                let earlier_deliveries = earlier_deliveries(&properties);
                let dead_letter_body = body.clone();
                Ok(Delivery { topic, envelope, redelivered, earlier_deliveries, dead_letter_body })
            }
        };

        Self { source, tag, properties, body, delivery }
    }

    /// Hands the message to its handler and does as the handler says. When `expire` is cancelled
    /// first, the message goes back to its queue.
    pub(crate) async fn run(self, handler: &dyn Handler, expire: &CancellationToken) {
        if !self.source.channel.status().connected() {
            // The broker has it back already and gives it to the next consumer.
            return;
        }

        let source = Arc::clone(&self.source);
        let tag = self.tag;

        // The handler is dropped when its consumer's grace is over: that is what the port promises.
        // A message that was being moved is not acked then, so at worst it is there twice.
        tokio::select! {
            biased;
            () = expire.cancelled() => source.requeue(tag),
            () = self.handle(handler) => {}
        }
    }

    async fn handle(self, handler: &dyn Handler) {
        let Self { source, tag, properties, body, delivery } = self;
        let delivery = match delivery {
            Ok(delivery) => delivery,
            Err(reason) => {
                tracing::warn!(queue = source.queue, reason, "moved a message to the dead letters");
                let of = Topic::parse(&source.subscription.name)
                    .map_or("other", |topic| topic.template());
                source.shared.traffic.dead_letter(of, DeadLetterReason::Unreadable);
                return source.reject(tag);
            }
        };

        let topic = delivery.topic.clone();
        let disposition = dispatch(handler, delivery, &source.shared.traffic).await;

        match disposition {
            Disposition::Ack => source.ack(tag),
            Disposition::DeadLetter { reason } => {
                // Only a handler that is wrong about its own message has let it go.
                let Some(body) = body.take() else { return source.reject(tag) };
                let held = UnackedDelivery { source: &source, tag, properties, body, topic };
                held.dead_letter(&reason).await;
            }
        }
    }
}

/// A message that its handler did not ack.
struct UnackedDelivery<'a> {
    source: &'a SubscriptionChannel,
    tag: u64,
    properties: BasicProperties,
    body: Bytes,
    topic: Topic,
}

impl UnackedDelivery<'_> {
    /// Keeps the message where people can look at it, and says why.
    async fn dead_letter(self, why: &str) {
        let source = self.source;
        let name = &source.subscription.name;
        let topic = &self.topic;
        tracing::warn!(subscription = name, %topic, reason = why, "moved a message to the dead letters");

        if source.subscription.lifetime != Lifetime::Durable {
            // It has no dead-letter queue: what came to one process alone is of use to no other.
            return source.ack(self.tag);
        }

        let properties = frame::with_headers(&self.properties, |headers| {
            headers.insert(header::DEAD_LETTER_REASON.into(), long_string(truncate_reason(why)));
            headers.insert(DEAD_LETTER_TOPIC.into(), long_string(topic.as_str()));
        });

        let exchange = source.shared.topology.dead_letter_exchange();
        let pattern = source.subscription.pattern.as_str();

        match self.publish(exchange, pattern, properties).await {
            Ok(()) => source.ack(self.tag),
            Err(error) => {
                let text = "could not publish a dead letter, which loses its reason";
                tracing::warn!(subscription = name, %error, "{text}");
                source.reject(self.tag);
            }
        }
    }

    async fn publish(
        &self,
        exchange: &str,
        key: &str,
        properties: BasicProperties,
    ) -> Result<(), SendError> {
        let message = Message {
            exchange: short_string(exchange),
            routing_key: short_string(key),
            properties,
            body: self.body.clone(),
        };
        self.source.shared.send(message).await
    }
}

/// How often a quorum queue has handed the message out before.
fn earlier_deliveries(properties: &BasicProperties) -> u32 {
    let headers = properties.headers().as_ref();
    let count = headers.and_then(|table| table.inner().get(DELIVERY_COUNT));
    count.and_then(frame::whole_number).map_or(0, |count| u32::try_from(count).unwrap_or(u32::MAX))
}

/// The beginning of a text that may be of any length.
fn truncate_reason(text: &str) -> &str {
    &text[..text.floor_char_boundary(REASON_BYTES_MAX)]
}
