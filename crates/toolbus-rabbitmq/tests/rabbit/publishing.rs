//! What a publish tells its caller, when not everything goes well.

use std::time::Duration;

use futures_util::future::join_all;
use lapin::options::ExchangeDeleteOptions;
use serde_json::json;
use toolbus_bus::{Bus as _, Health, PublishError};
use toolbus_testkit::eventually;

use crate::support::{
    PATIENCE, Plain, Recorder, at_once, connect, connections, durable, message, node, private,
    subscribe, topic, vhost,
};

/// The AMQP library hands a returned message to whichever confirm it settles next: with as many
/// messages that nobody takes as messages that somebody does, about ten of these are another's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_load_nobody_is_told_what_became_of_another_message() {
    let vhost = vhost!();
    let bus = connect(&vhost.amqp_url()).await;
    let handler = Recorder::acking();
    let _consumer = subscribe(&bus, durable("here", "here", at_once(64)), &handler).await;
    let (here, nowhere) = (topic("here"), topic("nowhere"));

    for round in 0..10_u64 {
        let publishes = (0..1_000_u64).map(|number| {
            // Half of them, without a pattern.
            let is_lost = (number + round * 1_000).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 63 == 0;
            let (bus, topic) = (&bus, if is_lost { &nowhere } else { &here });
            async move { (is_lost, bus.publish(topic, message(&number.to_string())).await) }
        });

        for (is_lost, published) in join_all(publishes).await {
            let expected =
                if is_lost { Err(PublishError::Unroutable(nowhere.clone())) } else { Ok(()) };
            assert_eq!(published, expected);
        }
    }

    bus.close(Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn headers_that_fit_into_no_frame_are_refused_and_disturb_nobody() {
    let vhost = vhost!();
    let bus = connect(&vhost.amqp_url()).await;
    let handler = Recorder::acking();
    let _consumer = subscribe(&bus, durable("q", "t", at_once(8)), &handler).await;
    let connections = connections(&vhost).await;

    let large = message("large").with_header("large", "x".repeat(40_000));
    let refused = bus.publish(&topic("t"), large).await;
    assert!(matches!(refused, Err(PublishError::Refused(_))), "{refused:?}");
    let mut long = message("long");
    long.message_type = "x".repeat(256);
    let refused = bus.publish(&topic("t"), long).await;
    assert!(matches!(refused, Err(PublishError::Refused(_))), "{refused:?}");

    let fitting = message("fitting").with_header("large", "x".repeat(30_000));
    bus.publish(&topic("t"), fitting).await.unwrap();
    assert_eq!(
        handler.received(1).await[0].envelope.headers.get("large").map(str::len),
        Some(30_000)
    );
    assert_eq!(vhost.connections().await.unwrap(), connections, "the connection was lost");
    bus.close(Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_queue_refuses() {
    let vhost = vhost!();
    let bus = connect(&vhost.amqp_url()).await;
    // A handler that never ends keeps everything behind its message in the queue.
    let stuck = std::sync::Arc::new(|_| std::future::pending());
    let consumer = subscribe(&bus, private("full", "full"), &stuck).await;

    let body = bytes::Bytes::from(vec![0; 8 << 20]);
    let mut taken = 0;
    let refused = loop {
        let mut large = message("");
        large.body = body.clone();
        match bus.publish(&topic("full"), large).await {
            Ok(()) => taken += 1,
            Err(error) => break error,
        }
        assert!(taken < 40, "a private queue has no bound");
    };

    assert!(matches!(refused, PublishError::Refused(_)), "{refused:?}");
    assert!(taken >= 8, "only {taken} bodies of 8 MiB fit");
    assert_eq!(bus.health(), Health::Up);
    consumer.kill().await;
    bus.close(Duration::ZERO).await;
}

/// What was sent before the close is waited for.
/// After a refusal another channel takes over, and the one that refused is closed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn channels_that_refuse_are_not_kept() {
    let node = node!();
    let vhost = node.vhost().await.unwrap();
    let bus = connect(&vhost.amqp_url()).await;
    let full = json!({"x-max-length": 0, "x-overflow": "reject-publish"});
    vhost.declare_queue("full", json!({"durable": true, "arguments": full})).await.unwrap();
    vhost.bind("rockbot", "full", "full").await.unwrap();

    // One channel after the other, however many messages are refused.
    let last = eventually(PATIENCE, async || {
        let published = bus.publish(&topic("full"), message("no room")).await;
        assert!(matches!(published, Err(PublishError::Refused(_))), "{published:?}");
        let numbers = node.ctl(&["-q", "list_channels", "number"]).await.unwrap();
        let last = numbers.lines().filter_map(|line| line.trim().parse::<u16>().ok()).max();
        last.filter(|last| *last > 1).ok_or(numbers)
    })
    .await;
    assert!(last < 10, "channel {last}");

    vhost.delete_queue("full").await.unwrap();
    eventually(PATIENCE, async || {
        let numbers = node.ctl(&["-q", "list_channels", "number"]).await.unwrap();
        let count = numbers.lines().filter(|line| line.trim().parse::<u16>().is_ok()).count();
        if count == 1 { Ok(()) } else { Err(numbers) }
    })
    .await;
    bus.close(Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_close_waits_for_confirms() {
    let vhost = vhost!();
    let bus = connect(&vhost.amqp_url()).await;
    let _consumer = subscribe(&bus, durable("q", "t", at_once(8)), &Recorder::acking()).await;
    let topic = topic("t");
    let texts: Vec<_> = (0..500).map(|number| number.to_string()).collect();
    let publishes = join_all(texts.iter().map(|text| bus.publish(&topic, message(text))));
    let (published, ()) = tokio::join!(publishes, bus.close(PATIENCE));

    // Some come too late to be sent. Of what was sent, nothing is unknown.
    let is_definite = |published: &_| matches!(published, Ok(()) | Err(PublishError::Closed));
    assert!(published.iter().all(is_definite), "{published:?}");
    assert!(published.iter().any(Result::is_ok), "nothing was sent before the close");
    assert_eq!(bus.publish(&topic, message("late")).await, Err(PublishError::Closed));
}

/// The broker closes the channel for publishing; the next publish has a new one, and the exchange
/// is there again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_publish_outlives_its_channel() {
    let vhost = vhost!();
    let bus = connect(&vhost.amqp_url()).await;
    let plain = Plain::connect(&vhost.amqp_url()).await;

    for round in 0..3 {
        let options = ExchangeDeleteOptions::default();
        plain.channel.exchange_delete("rockbot".into(), options).await.unwrap();
        let refused = bus.publish(&topic("t"), message("lost")).await;

        match refused {
            Err(PublishError::Refused(reason)) => {
                assert!(reason.contains("NOT_FOUND"), "round {round}: {reason}");
            }
            other => panic!("round {round}: {other:?}"),
        }

        let unroutable = bus.publish(&topic("t"), message("nobody")).await;
        assert_eq!(unroutable, Err(PublishError::Unroutable(topic("t"))), "round {round}");
    }

    assert_eq!(bus.health(), Health::Up);
    bus.close(Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn publishing_goes_on_while_the_broker_closes_connections() {
    let vhost = vhost!();
    let bus = connect(&vhost.amqp_url()).await;
    let handler = Recorder::acking();
    let _consumer = subscribe(&bus, durable("q", "t", at_once(8)), &handler).await;
    let closing = async {
        for _ in 0..3 {
            eventually(PATIENCE, async || match vhost.close_connections().await.unwrap() {
                0 => Err("not connected"),
                _ => Ok(()),
            })
            .await;
        }
    };

    let publishing = async {
        let mut confirmed = Vec::new();
        for number in 0..600 {
            let text = number.to_string();
            match bus.publish(&topic("t"), message(&text)).await {
                Ok(()) => confirmed.push(text),
                Err(PublishError::Unconfirmed) => {}
                Err(error) => panic!("message {text}: {error}"),
            }
            // sleeps: the pace, so that connections are closed in between.
            tokio::time::sleep(Duration::from_millis(5)).await;
        }

        confirmed
    };

    let ((), confirmed) = tokio::join!(closing, publishing);

    eventually(PATIENCE, async || {
        let seen: std::collections::HashSet<_> = handler.texts().into_iter().collect();
        match confirmed.iter().find(|text| !seen.contains(*text)) {
            Some(lost) => Err(format!("message {lost} was confirmed and has not come")),
            None => Ok(()),
        }
    })
    .await;
    bus.close(Duration::ZERO).await;
}
