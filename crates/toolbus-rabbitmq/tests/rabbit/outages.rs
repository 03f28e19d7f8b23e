//! Everything that can be taken away from a bus while it works. It comes back by itself each time,
//! and no message that was confirmed is lost.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use toolbus_bus::{Bus as _, Delivery, Disposition, Health, PublishError};
use toolbus_rabbitmq::RabbitBus;
use toolbus_testkit::eventually;

use crate::support::{
    PATIENCE, Recorder, at_once, config, connect, connections, durable, in_order, is_up, message,
    node, private, subscribe, topic, vhost,
};
use crate::traffic::Traffic;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_power_cut_loses_no_confirmed_message() {
    let mut node = node!();
    let vhost = node.vhost().await.unwrap();
    let url = vhost.amqp_url();
    let (worker, caller) = (connect(&url).await, connect(&url).await);
    let handler = Recorder::acking();
    let _work = subscribe(&worker, durable("work", "work", at_once(8)), &handler).await;
    let replies = Recorder::acking();
    let _replies = subscribe(&caller, private("replies", "reply"), &replies).await;

    let traffic = Traffic::start(&caller, "work", &handler);
    traffic.confirmed_beyond(200).await;
    node.crash().await.unwrap();
    eventually(PATIENCE, async || match (worker.health(), caller.health()) {
        (Health::Down { .. }, Health::Down { .. }) => Ok(()),
        other => Err(other),
    })
    .await;
    node.start_again().await.unwrap();
    is_up(&worker).await;
    is_up(&caller).await;
    let before = traffic.confirmed();
    traffic.confirmed_beyond(before + 200).await;
    assert!(traffic.failures() > 0, "the outage was not noticed");
    traffic.stop_and_compare().await;

    // The private queue went with its connection and is back under its name.
    worker.publish(&topic("reply"), message("there")).await.unwrap();
    assert_eq!(replies.received(1).await.len(), 1);

    for bus in [worker, caller] {
        bus.close(Duration::from_secs(1)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_blocked_broker_is_told_and_waited_for() {
    let node = node!();
    let vhost = node.vhost().await.unwrap();
    let mut config = config(&vhost.amqp_url());
    config.broker_timeout = Duration::from_millis(500);
    config.confirm_within = Duration::from_secs(2);
    let bus = RabbitBus::connect(config).await.unwrap();
    let handler = Recorder::acking();
    let _consumer = subscribe(&bus, durable("q", "t", at_once(1)), &handler).await;
    bus.publish(&topic("t"), message("before")).await.unwrap();

    node.block_publishers().await.unwrap();
    // The broker says so when somebody publishes; that message may have no answer.
    let begin = Instant::now();
    let published = bus.publish(&topic("t"), message("first")).await;
    let is_bounded =
        matches!(published, Ok(()) | Err(PublishError::Unconfirmed | PublishError::Unavailable(_)));
    assert!(is_bounded, "{published:?}");
    eventually(PATIENCE, async || match bus.health() {
        Health::Blocked { reason } => Ok(reason),
        other => Err(other),
    })
    .await;
    let published = bus.publish(&topic("t"), message("second")).await;
    assert!(matches!(published, Err(PublishError::Unavailable(_))), "{published:?}");
    assert!(begin.elapsed() < PATIENCE, "publishing took {:?}", begin.elapsed());

    node.unblock_publishers().await.unwrap();
    is_up(&bus).await;
    bus.publish(&topic("t"), message("after")).await.unwrap();
    eventually(PATIENCE, async || {
        let texts = handler.texts();
        let all = ["before", "after"].iter().all(|text| texts.iter().any(|seen| seen == text));
        if all { Ok(()) } else { Err(texts) }
    })
    .await;
    assert!(!handler.texts().contains(&"second".to_owned()), "it was said not to be sent");

    // To close does not wait for a broker that takes nothing.
    node.block_publishers().await.unwrap();
    let _ = bus.publish(&topic("t"), message("last")).await;
    let begin = Instant::now();
    bus.close(Duration::from_millis(500)).await;
    assert!(begin.elapsed() < PATIENCE, "closing took {:?}", begin.elapsed());
}

/// A broker that hangs keeps its sockets open; only its silence tells. Meanwhile it still has the
/// queue that belongs to the old connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_hangs_counts_as_lost() {
    let mut node = node!();
    let vhost = node.vhost().await.unwrap();
    let mut config = config(&vhost.amqp_url());
    config.heartbeat = Duration::from_secs(1);
    config.connect_within = Duration::from_secs(1);
    config.broker_timeout = Duration::from_secs(1);
    config.confirm_within = Duration::from_secs(1);
    let bus = RabbitBus::connect(config).await.unwrap();
    let handler = Recorder::acking();
    let _private = subscribe(&bus, private("replies", "reply"), &handler).await;
    let _durable = subscribe(&bus, durable("q", "t", in_order(8)), &handler).await;

    node.pause().unwrap();
    let published = bus.publish(&topic("t"), message("into the void")).await;
    assert!(
        matches!(published, Err(PublishError::Unconfirmed | PublishError::Unavailable(_))),
        "{published:?}"
    );
    eventually(PATIENCE, async || match bus.health() {
        Health::Down { .. } => Ok(()),
        other => Err(other),
    })
    .await;
    node.resume().unwrap();
    is_up(&bus).await;

    for to in ["reply", "t"] {
        eventually(PATIENCE, async || bus.publish(&topic(to), message(to)).await).await;
    }

    eventually(PATIENCE, async || {
        let texts = handler.texts();
        let all = ["reply", "t"].iter().all(|text| texts.iter().any(|seen| seen == text));
        if all { Ok(()) } else { Err(texts) }
    })
    .await;
    bus.close(Duration::from_secs(1)).await;
}

/// The broker closes the channel of a consumer that takes too long to ack. What it held comes again
/// on the next channel; the old handler's answer has nowhere to go.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_channel_that_the_broker_closes_is_made_anew() {
    let node = node!();
    let vhost = node.vhost().await.unwrap();

    for (name, milliseconds) in [("consumer_timeout", 1_000), ("channel_tick_interval", 500)] {
        let setting = format!("application:set_env(rabbit, {name}, {milliseconds}).");
        node.ctl(&["eval", &setting]).await.unwrap();
    }

    let bus = connect(&vhost.amqp_url()).await;
    let connections = connections(&vhost).await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let release = CancellationToken::new();
    let slow = {
        let (seen, released) = (Arc::clone(&seen), release.clone());
        Arc::new(move |delivery: Delivery| {
            seen.lock().push(delivery.redelivered);
            let released = released.clone();
            async move {
                if !delivery.redelivered {
                    released.cancelled().await;
                }
                Disposition::Ack
            }
        })
    };

    let _slow = subscribe(&bus, durable("slow", "slow", at_once(2)), &slow).await;
    let other = Recorder::acking();
    let _other = subscribe(&bus, durable("other", "other", at_once(1)), &other).await;

    bus.publish(&topic("slow"), message("slow")).await.unwrap();
    eventually(PATIENCE, async || {
        let seen = seen.lock().clone();
        if seen == [false, true] { Ok(()) } else { Err(seen) }
    })
    .await;
    is_up(&bus).await;
    release.cancel();
    bus.publish(&topic("other"), message("on")).await.unwrap();
    other.received(1).await;
    assert_eq!(vhost.connections().await.unwrap(), connections, "the connection was no trouble");
    bus.close(Duration::from_secs(1)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_the_broker_closes_are_made_anew() {
    let vhost = vhost!();
    let bus = connect(&vhost.amqp_url()).await;
    let (shared, own) = (Recorder::acking(), Recorder::acking());
    let _durable = subscribe(&bus, durable("q", "t", at_once(4)), &shared).await;
    let _private = subscribe(&bus, private("p", "p"), &own).await;

    for round in 1..=3 {
        eventually(PATIENCE, async || match vhost.close_connections().await.unwrap() {
            0 => Err("not connected"),
            _ => Ok(()),
        })
        .await;
        for to in ["t", "p"] {
            // Until the bus has noticed, the message may go down with the connection; and until the
            // private queue is back, nobody listens there.
            eventually(PATIENCE, async || bus.publish(&topic(to), message("on")).await).await;
        }

        shared.received(round).await;
        own.received(round).await;
        is_up(&bus).await;
    }

    bus.close(Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_is_deleted_is_declared_again() {
    let vhost = vhost!();
    let bus = connect(&vhost.amqp_url()).await;
    let handler = Recorder::acking();
    let _one = subscribe(&bus, durable("q", "t", at_once(4)), &handler).await;
    let _other = subscribe(&bus, durable("r", "t", in_order(4)), &handler).await;
    let connections = connections(&vhost).await;

    for (round, queue) in ["rockbot.q", "rockbot.r", "rockbot.q"].into_iter().enumerate() {
        vhost.delete_queue(queue).await.unwrap();
        eventually(PATIENCE, async || {
            let queues = vhost.queues().await.unwrap();
            let consumed = |name| queues.iter().any(|q| q.name == name && q.consumers == 1);
            if consumed("rockbot.q") && consumed("rockbot.r") { Ok(()) } else { Err(queues) }
        })
        .await;
        is_up(&bus).await;
        bus.publish(&topic("t"), message("on")).await.unwrap();
        handler.received(2 * (round + 1)).await;
    }

    assert_eq!(vhost.connections().await.unwrap(), connections, "the connection was no trouble");
    bus.close(Duration::ZERO).await;
}
