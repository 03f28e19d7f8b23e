//! Dead letters, as they look at the broker.

use std::sync::Arc;
use std::time::Duration;

use lapin::BasicProperties;
use lapin::options::BasicPublishOptions;
use parking_lot::Mutex;
use toolbus_bus::{Bus as _, Delivery, Disposition, PublishError};
use toolbus_testkit::rabbit::Message;
use toolbus_testkit::{eventually, quiet_for};

use crate::support::{
    PATIENCE, Plain, Recorder, at_once, connect, dead_letters, durable, in_order, message, private,
    subscribe, topic, vhost,
};

fn header<'a>(message: &'a Message, name: &str) -> Option<&'a str> {
    message.properties["headers"][name].as_str()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_letter_is_whole_says_why_and_goes_no_further() {
    let vhost = vhost!();
    let bus = connect(&vhost.amqp_url()).await;
    let handler = Recorder::answering(|_| Disposition::DeadLetter { reason: "no use".into() });
    let _consumer = subscribe(&bus, durable("q", "t.*", at_once(1)), &handler).await;

    for text in ["first", "second"] {
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

    quiet_for(Duration::from_millis(300), async || match handler.count() {
        2 => Ok(()),
        count => Err(format!("a dead letter came again: {count}")),
    })
    .await;
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
    assert_eq!(handler.count(), 4);
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

/// A quorum queue counts how often it has handed a message out, and workers go by that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deliveries_from_a_quorum_queue_are_counted() {
    let vhost = vhost!();
    let bus = connect(&vhost.amqp_url()).await;
    for (kind, counts) in [("quorum", [0, 1, 2]), ("classic", [0, 0, 0])] {
        let arguments = serde_json::json!({"x-queue-type": kind});
        let queue = serde_json::json!({"durable": true, "arguments": arguments});
        vhost.declare_queue(&format!("rockbot.{kind}"), queue).await.unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let handler = {
            let seen = Arc::clone(&seen);
            Arc::new(move |delivery: Delivery| {
                seen.lock().push((delivery.redelivered, delivery.earlier_deliveries));
                std::future::pending::<Disposition>()
            })
        };

        for round in 0..counts.len() {
            let consumer = subscribe(&bus, durable(kind, kind, at_once(1)), &handler).await;
            if round == 0 {
                bus.publish(&topic(kind), message("deadly")).await.unwrap();
            }
            eventually(PATIENCE, async || match seen.lock().len() {
                count if count > round => Ok(()),
                count => Err(format!("{count} deliveries of the {kind} queue")),
            })
            .await;
            consumer.kill().await;
        }

        let expected: Vec<_> =
            counts.iter().enumerate().map(|(round, &count)| (round > 0, count)).collect();
        assert_eq!(*seen.lock(), expected, "{kind}");
    }
    bus.close(Duration::ZERO).await;
}
