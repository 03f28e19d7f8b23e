use std::time::Duration;

use tokio::sync::watch;

use super::queue::{BYTES_MAX, MESSAGES_MAX};
use super::*;
use crate::testing::{Inbox, at_once, topic, until};
use crate::{Delivery, Disposition, TopicPattern};

fn message(bytes: usize) -> Envelope {
    Envelope::new("Test", "", vec![0; bytes].into())
}

fn subscription(name: &str) -> Subscription {
    Subscription::durable(name, TopicPattern::from(topic("t")), at_once(16))
}

async fn consume(bus: &MemoryBus, name: &str, handler: impl Handler) -> Consumer {
    bus.subscribe(subscription(name), Arc::new(handler)).await.unwrap()
}

/// A queue without a consumer.
async fn abandoned(bus: &MemoryBus, name: &str) {
    consume(bus, name, |_: Delivery| std::future::ready(Disposition::Ack)).await.kill().await;
}

async fn fill(bus: &MemoryBus, bytes: usize) -> usize {
    let mut taken = 0;
    while bus.publish(&topic("t"), message(bytes)).await.is_ok() {
        taken += 1;
    }
    taken
}

#[tokio::test(start_paused = true)]
async fn a_queue_is_bounded_in_messages_and_in_bytes() {
    let bus = MemoryBus::new();
    abandoned(&bus, "q").await;
    assert_eq!(fill(&bus, 1).await, MESSAGES_MAX);
    let error = bus.publish(&topic("t"), message(1)).await.unwrap_err();
    assert_eq!(error, PublishError::Refused("the queue q is full".to_owned()));

    let bus = MemoryBus::new();
    abandoned(&bus, "q").await;
    assert_eq!(fill(&bus, BODY_BYTES_MAX).await, BYTES_MAX / BODY_BYTES_MAX);
}

/// However a message ends, its room is given back, and no more than that.
#[tokio::test(start_paused = true)]
async fn a_queue_has_room_again_when_its_messages_have_ended() {
    let bus = MemoryBus::new();
    abandoned(&bus, "q").await;
    let holding = consume(&bus, "q", |_: Delivery| std::future::pending()).await;

    for number in 0..600 {
        let expires_after = (number % 3 == 0).then_some(Duration::from_millis(50));
        bus.publish(&topic("t"), Envelope { expires_after, ..message(7) }).await.unwrap();
    }

    tokio::time::sleep(Duration::from_millis(100)).await;
    holding.kill().await;
    let seen = watch::Sender::new(0);
    let count = seen.clone();
    let ending = consume(&bus, "q", move |_: Delivery| {
        let mut number = 0;
        count.send_modify(|seen| {
            *seen += 1;
            number = *seen;
        });

        std::future::ready(match number % 4 {
            0 => Disposition::Ack,
            1 | 2 => Disposition::DeadLetter { reason: "no".into() },
            _ => panic!("on purpose"),
        })
    })
    .await;
    until("every message has ended", || bus.ready_count("q") == 0).await;
    ending.stop(Duration::from_secs(1)).await;
    assert!(*seen.borrow() >= 400);
    assert!(!bus.dead_letters("q").is_empty());
    assert_eq!(fill(&bus, 1).await, MESSAGES_MAX);
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_does_not_keep_a_message_from_the_others() {
    let bus = MemoryBus::new();
    abandoned(&bus, "full").await;
    fill(&bus, 1).await;
    for name in ["before", "after"] {
        abandoned(&bus, name).await;
    }
    let refused = bus.publish(&topic("t"), message(1)).await;
    assert!(matches!(refused, Err(PublishError::Refused(_))), "{refused:?}");
    assert_eq!((bus.ready_count("before"), bus.ready_count("after")), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn dead_letters_are_bounded_in_number_and_in_bytes() {
    let bus = MemoryBus::new();
    let reject = |_: Delivery| std::future::ready(Disposition::DeadLetter { reason: "no".into() });
    let _rejecting = consume(&bus, "q", reject).await;

    for _ in 0..DEAD_LETTERS_MAX + 10 {
        bus.publish(&topic("t"), message(1)).await.unwrap();
    }

    let queue = bus.broker.queue("q").unwrap();
    until("all are rejected", || queue.ready_count() == 0).await;
    assert_eq!(bus.dead_letters("q").len(), DEAD_LETTERS_MAX);

    for _ in 0..10 {
        bus.publish(&topic("t"), message(10 << 20)).await.unwrap();
        until("it is rejected", || queue.ready_count() == 0).await;
        tokio::task::yield_now().await;
    }

    let kept: usize = bus.dead_letters("q").iter().map(|letter| letter.envelope.body.len()).sum();
    assert_eq!(kept, 60 << 20);
    assert_eq!(bus.broker.dead_letters.lock().bytes, kept);
}

#[tokio::test(start_paused = true)]
async fn any_expiry_is_taken() {
    let bus = MemoryBus::new();
    let inbox = Inbox::open(&bus, "t").await;
    for expires_after in [Duration::MAX, Duration::from_secs(1)] {
        bus.publish(&topic("t"), message(1).with_expiry(expires_after)).await.unwrap();
    }
    inbox.received(2).await;
}

#[tokio::test(start_paused = true)]
async fn routes_are_found_anew_when_subscriptions_come_and_go() {
    let bus = MemoryBus::new();
    let first = Inbox::open(&bus, "t.*").await;

    for number in 0..2 * ROUTES_MAX {
        bus.publish(&topic(&format!("t.{number}")), message(0)).await.unwrap();
        if number % 1_000 == 0 {
            first.received(number + 1).await;
        }
    }

    assert!(bus.broker.routes.read().by_topic.len() <= ROUTES_MAX);
    first.received(2 * ROUTES_MAX).await;
    let second = Inbox::open(&bus, "#").await;
    bus.publish(&topic("t.0"), message(0)).await.unwrap();
    second.received(1).await;
    first.close().await;
    second.close().await;
    let unheard = bus.publish(&topic("t.0"), message(0)).await;
    assert_eq!(unheard, Err(PublishError::Unroutable(topic("t.0"))));
    assert!(bus.broker.routes.read().queues.is_empty());
}
