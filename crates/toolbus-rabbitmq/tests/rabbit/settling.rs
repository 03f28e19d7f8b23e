//! Retries and dead letters, as they look at the broker.

use std::time::Duration;

use lapin::BasicProperties;
use lapin::options::BasicPublishOptions;
use lapin::types::{AMQPValue, FieldTable};
use serde_json::json;
use toolbus_bus::{Bus as _, Disposition, PublishError};
use toolbus_testkit::eventually;
use toolbus_testkit::rabbit::Message;

use crate::support::{
    PATIENCE, Plain, Recorder, at_once, connect, dead_letters, durable, in_order, message, private,
    subscribe, topic, vhost,
};

fn header<'a>(message: &'a Message, name: &str) -> Option<&'a str> {
    message.properties["headers"][name].as_str()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retry_waits_in_a_bounded_queue_of_its_own() {
    let vhost = vhost!();
    let bus = connect(&vhost.amqp_url()).await;
    let handler = Recorder::answering(|delivery| match delivery.attempt {
        1 => Disposition::Retry { after: Duration::from_millis(900) },
        _ => Disposition::Ack,
    });
    let _consumer = subscribe(&bus, durable("q", "t.#", at_once(2)), &handler).await;
    let sent = message("again").with_header("own", "value").with_expiry(Duration::from_secs(60));
    bus.publish(&topic("t.a"), sent.clone()).await.unwrap();

    let waiting = "rockbot.q.retry.1000";
    let queue = eventually(PATIENCE, async || {
        vhost.queue(waiting).await.unwrap().ok_or("there is no such queue")
    })
    .await;
    assert!(queue.durable && !queue.exclusive && !queue.auto_delete, "{queue:?}");
    let arguments = json!({
        "x-queue-type": "quorum",
        "x-dead-letter-strategy": "at-least-once",
        "x-overflow": "reject-publish",
        "x-message-ttl": 1_000,
        "x-expires": 1_201_000,
        "x-max-length": 10_000,
        "x-max-length-bytes": 64 << 20,
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": "rockbot.q",
    });
    assert_eq!(queue.arguments, arguments.as_object().unwrap().clone());

    let seen = handler.received(2).await;
    assert_eq!(seen[1].topic, topic("t.a"));
    assert_eq!((seen[1].attempt, seen[1].redelivered), (2, false));
    assert_eq!(seen[1].envelope, seen[0].envelope);
    assert_eq!(seen[1].envelope, sent);
    bus.close(Duration::ZERO).await;
}

/// Only the broker's own way back from a retry queue may say what attempt it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stranger_cannot_count_attempts() {
    let vhost = vhost!();
    let bus = connect(&vhost.amqp_url()).await;
    let handler = Recorder::acking();
    let _consumer = subscribe(&bus, durable("q", "t", at_once(1)), &handler).await;
    let plain = Plain::connect(&vhost.amqp_url()).await;

    let mut headers = FieldTable::default();
    for (name, value) in [("x-toolbus-attempt", "5"), ("x-toolbus-topic", "other")] {
        headers.insert(name.into(), AMQPValue::LongString(value.into()));
    }
    let properties = BasicProperties::default().with_headers(headers);
    let options = BasicPublishOptions::default();
    let (exchange, key) = ("rockbot".into(), "t".into());
    plain.channel.basic_publish(exchange, key, options, b"{}", properties).await.unwrap();

    let seen = handler.received(1).await;
    assert_eq!((seen[0].attempt, seen[0].topic.as_str()), (1, "t"));
    assert!(seen[0].envelope.headers.is_empty());
    bus.close(Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_letter_is_whole_says_why_and_goes_no_further() {
    let vhost = vhost!();
    let bus = connect(&vhost.amqp_url()).await;
    let handler =
        Recorder::answering(|delivery| match (&delivery.envelope.body[..], delivery.attempt) {
            (b"at once", _) | (_, 2) => Disposition::DeadLetter { reason: "no use".into() },
            _ => Disposition::Retry { after: Duration::ZERO },
        });
    let _consumer = subscribe(&bus, durable("q", "t.*", at_once(1)), &handler).await;

    for text in ["at once", "in the end"] {
        let sent = message(text)
            .with_correlation_id("c")
            .with_header("own", "value")
            .with_expiry(Duration::from_secs(2));
        bus.publish(&topic("t.a"), sent).await.unwrap();
    }

    for letter in dead_letters(&vhost, "rockbot.q.dlq", 2).await {
        assert_eq!(letter.exchange, "rockbot.dlx");
        assert_eq!(letter.routing_key, "t.*", "the pattern, which the queue is bound to");
        assert_eq!(header(&letter, "rb-dead-letter-reason"), Some("no use"));
        assert_eq!(header(&letter, "rb-dead-letter-topic"), Some("t.a"));
        assert_eq!(header(&letter, "rb-own"), Some("value"));
        assert_eq!(header(&letter, "rb-source"), Some("test"));
        assert_eq!(letter.properties["correlation_id"], "c");
        assert_eq!(letter.properties["type"], "Toolbus.Test");
        assert_eq!(letter.properties["delivery_mode"], 2);
        assert_eq!(letter.properties.get("expiration"), None, "a dead letter is kept");
        let headers = letter.properties["headers"].as_object().unwrap();
        assert!(!headers.keys().any(|name| name.starts_with("x-toolbus")), "{headers:?}");
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(handler.seen().len(), 3, "a dead letter came again");
    assert_eq!(vhost.peek("rockbot.q.dlq", 10).await.unwrap().len(), 2);
    bus.close(Duration::ZERO).await;
}

/// Where even the dead-letter queue is gone, the message is lost and nobody is held up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_letters_without_a_queue_hold_nobody_up() {
    let vhost = vhost!();
    let bus = connect(&vhost.amqp_url()).await;
    let handler = Recorder::answering(|delivery| match &delivery.envelope.body[..] {
        b"bad" => Disposition::DeadLetter { reason: "bad".into() },
        _ => Disposition::Ack,
    });
    let _durable = subscribe(&bus, durable("q", "t", at_once(1)), &handler).await;
    let _private = subscribe(&bus, private("p", "p"), &handler).await;
    vhost.delete_queue("rockbot.q.dlq").await.unwrap();

    for key in ["t", "p"] {
        for text in ["bad", "good"] {
            bus.publish(&topic(key), message(text)).await.unwrap();
        }
    }
    handler.received(4).await;
    eventually(PATIENCE, async || {
        let queues = vhost.queues().await.unwrap();
        if queues.iter().all(|queue| queue.messages == 0) { Ok(()) } else { Err(queues) }
    })
    .await;
    assert_eq!(handler.seen().len(), 4);
    bus.close(Duration::ZERO).await;
}

/// What no handler could be given: a body that is too large for us, and a message to no topic.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_handled_is_a_dead_letter() {
    let vhost = vhost!();
    let bus = connect(&vhost.amqp_url()).await;
    let handler = Recorder::acking();
    let _consumer = subscribe(&bus, durable("q", "#", in_order(8)), &handler).await;
    let plain = Plain::connect(&vhost.amqp_url()).await;

    let large = vec![b'x'; toolbus_bus::port::BODY_BYTES_MAX + 1];
    for (key, body) in [("t", large.as_slice()), ("", b"no topic"), ("t", b"good")] {
        let (options, properties) = (BasicPublishOptions::default(), BasicProperties::default());
        let published =
            plain.channel.basic_publish("rockbot".into(), key.into(), options, body, properties);
        published.await.unwrap();
    }

    handler.received(1).await;
    // Its size is told by the queue; the message itself need not come over the management's HTTP.
    eventually(PATIENCE, async || match vhost.queue("rockbot.q.dlq").await.unwrap() {
        Some(queue) if queue.messages == 2 => Ok(()),
        other => Err(other),
    })
    .await;
    assert_eq!(handler.texts(), ["good"]);
    let unroutable = bus.publish(&topic("u"), message("taken by #")).await;
    assert_ne!(unroutable, Err(PublishError::Unroutable(topic("u"))));
    bus.close(Duration::ZERO).await;
}
