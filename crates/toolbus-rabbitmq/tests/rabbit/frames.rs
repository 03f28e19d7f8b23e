//! The recorded frames of the C# system, through a real broker: read as they were recorded, and
//! written so that no property or header differs.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::StreamExt as _;
use lapin::BasicProperties;
use lapin::options::{
    BasicConsumeOptions, BasicPublishOptions, QueueBindOptions, QueueDeclareOptions,
};
use lapin::types::{AMQPValue, FieldTable, LongInt, ShortString};
use toolbus_bus::Bus as _;
use toolbus_wire::Envelope;
use toolbus_wire::fixtures::{self, RecordedFrame};
use toolbus_wire::frame::HeaderValue;

use crate::support::{Plain, Recorder, connect, durable, in_order, subscribe, topic, vhost};

/// Every recorded message that went over the exchange of the topics.
fn recorded() -> Vec<RecordedFrame> {
    let frames = fixtures::flows().into_iter().flat_map(|flow| flow.frames);
    let frames: Vec<_> = frames.filter(|frame| frame.exchange == "rockbot").collect();
    assert!(frames.len() > 50, "only {} frames", frames.len());
    frames
}

/// The message in the terms of a plain client.
fn plain(recorded: &RecordedFrame) -> BasicProperties {
    let short = |text: &Option<std::borrow::Cow<'_, str>>| -> ShortString {
        text.as_deref().expect("every recorded frame has all properties").into()
    };

    let frame = &recorded.frame;
    let mut headers = FieldTable::default();

    for (name, value) in &frame.headers {
        let value = match value {
            HeaderValue::LongString(text) => AMQPValue::LongString(text.to_vec().into()),
            // What it was does not matter: nobody reads it.
            HeaderValue::Other => AMQPValue::LongInt(LongInt::MAX),
        };
        headers.insert(name.as_ref().into(), value);
    }

    BasicProperties::default()
        .with_content_type(short(&frame.properties.content_type))
        .with_delivery_mode(frame.properties.delivery_mode.unwrap())
        .with_correlation_id(short(&frame.properties.correlation_id))
        .with_reply_to(short(&frame.properties.reply_to))
        .with_message_id(short(&frame.properties.message_id))
        .with_timestamp(frame.properties.timestamp.unwrap())
        .with_type(short(&frame.properties.message_type))
        .with_headers(headers)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recorded_frames_are_read_as_they_were_recorded() {
    let vhost = vhost!();
    let bus = connect(&vhost.amqp_url()).await;
    let handler = Recorder::acking();
    let _consumer = subscribe(&bus, durable("all", "#", in_order(64)), &handler).await;
    let client = Plain::connect(&vhost.amqp_url()).await;

    let recorded = recorded();
    for frame in &recorded {
        let (exchange, key) = ("rockbot".into(), frame.routing_key.as_str().into());
        let (options, body) = (BasicPublishOptions::default(), &frame.frame.body);
        client.channel.basic_publish(exchange, key, options, body, plain(frame)).await.unwrap();
    }

    let seen = handler.received(recorded.len()).await;
    for (recorded, seen) in recorded.into_iter().zip(seen) {
        assert_eq!(seen.topic.as_str(), recorded.routing_key);
        let mut envelope = seen.envelope;
        let mut expected = Envelope::from_frame(recorded.frame);

        // The broker hands headers out in the order of their names.
        for envelope in [&mut envelope, &mut expected] {
            let sorted: BTreeMap<_, _> = envelope.headers.iter().collect();
            let sorted = sorted.into_iter().fold(Default::default(), |headers, (name, value)| {
                toolbus_wire::header::Headers::with(headers, name.to_owned(), value)
            });
            envelope.headers = sorted;
        }

        assert_eq!(envelope, expected);
        assert!(!seen.redelivered);
    }

    bus.close(Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_published_is_what_was_recorded() {
    let vhost = vhost!();
    let bus = connect(&vhost.amqp_url()).await;
    let client = Plain::connect(&vhost.amqp_url()).await;
    let queue: ShortString = "everything".into();
    let (options, none) = (QueueDeclareOptions::exclusive(), FieldTable::default());
    client.channel.queue_declare(queue.clone(), options, none.clone()).await.unwrap();
    let options = QueueBindOptions::default();
    client
        .channel
        .queue_bind(queue.clone(), "rockbot".into(), "#".into(), options, none.clone())
        .await
        .unwrap();
    let options = BasicConsumeOptions { no_ack: true, ..Default::default() };
    let mut seen = client.channel.basic_consume(queue, "".into(), options, none).await.unwrap();

    for recorded in recorded() {
        let envelope = Envelope::from_frame(recorded.frame.clone());
        bus.publish(&topic(&recorded.routing_key), envelope).await.unwrap();
        let seen = seen.next().await.unwrap().unwrap();

        let expected = plain(&recorded);
        assert_eq!(seen.routing_key.as_str(), recorded.routing_key);
        assert_eq!(seen.data, recorded.frame.body);
        // A header that is no long string is left out, since C# would not read it.
        let mut headers = expected.headers().clone().unwrap().inner().clone();
        headers.retain(|_, value| matches!(value, AMQPValue::LongString(_)));
        assert_eq!(seen.properties, expected.with_headers(headers.into()));
    }

    bus.close(Duration::ZERO).await;
}
