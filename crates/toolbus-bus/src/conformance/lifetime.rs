//! How long a queue lives.

use super::probe::texts;
use super::stage::{Stage, at_once, in_order, message, numbers};
use crate::{PublishError, SubscribeError};

/// A durable queue takes messages while no consumer is there: to publish to it is not an error, and
/// the consumer finds them when it is back, in their order.
pub(super) async fn a_durable_queue_keeps_messages_for_its_consumer(stage: Stage) {
    let (publisher, bus) = (stage.bus().await, stage.bus().await);
    let topic = stage.topic("work");
    let first = stage.acks();
    let subscription = stage.durable("q", "work", in_order(8));
    let consumer = stage.subscribe(&bus, subscription.clone(), &first).await;
    stage.publish_texts(&publisher, &topic, ["before"]).await;
    first.answered(1).await;
    stage.within("stopping", consumer.stop(stage.patience())).await;

    stage.publish_texts(&publisher, &topic, numbers(20)).await;
    stage.ready("q", 20).await;

    let second = stage.acks();
    let _consumer = stage.subscribe(&bus, subscription, &second).await;
    let seen = second.received(20).await;
    assert_eq!(texts(&seen), numbers(20));
    assert!(
        seen.iter().all(|seen| !seen.delivery.redelivered),
        "what nobody was given was not delivered before"
    );
    assert_eq!(first.texts(), ["before"], "a stopped consumer gets nothing");
}

/// A private queue is gone, with what was in it, when its consumer has stopped, and its name is
/// free again.
pub(super) async fn a_private_queue_ends_with_its_consumer(stage: Stage) {
    let bus = stage.bus().await;
    let topic = stage.topic("reply");
    for round in numbers(10) {
        let probe = stage.holds();
        let subscription = stage.private("q", "reply", at_once(1));
        let consumer = stage.subscribe(&bus, subscription, &probe).await;
        stage.publish_texts(&bus, &topic, [&*round, "left behind"]).await;
        assert_eq!(
            texts(&probe.received(1).await),
            [&*round],
            "what a round left came to the next"
        );
        stage.within("the kill", consumer.kill()).await;

        let published = bus.publish(&topic, message("nobody is there")).await;
        assert_eq!(published, Err(PublishError::Unroutable(topic.clone())), "round {round}");
        stage.ready("q", 0).await;
    }
}

/// Nobody else can consume from a private queue, in the same process or another: of two that share
/// a name by mistake, each would miss what the other got. The second is told, the first goes on.
pub(super) async fn a_private_queue_belongs_to_one_consumer(stage: Stage) {
    let (one, other) = (stage.bus().await, stage.bus().await);
    let (owner, stranger) = (stage.acks(), stage.acks());
    let subscription = stage.private("q", "reply", in_order(8));
    let _owner = stage.subscribe(&one, subscription.clone(), &owner).await;

    for bus in [&other, &one] {
        let subscribing = bus.subscribe(subscription.clone(), stranger.clone());
        match stage.within("the error", subscribing).await {
            Err(SubscribeError::Refused { name, .. }) => assert_eq!(name, subscription.name),
            other => panic!("a second consumer of a private queue: {other:?}"),
        }
    }

    stage.publish_texts(&one, &stage.topic("reply"), numbers(20)).await;
    assert_eq!(texts(&owner.received(20).await), numbers(20));
    assert!(stranger.texts().is_empty(), "a refused subscription got a message");
}

/// The broker takes a private queue away when the process that had it dies.
pub(super) async fn a_private_queue_ends_with_its_process(stage: Stage) {
    let (doomed, kill) = stage.doomed().await;
    let bus = stage.bus().await;
    let topic = stage.topic("reply");
    let probe = stage.acks();
    let _consumer = stage.subscribe(&doomed, stage.private("q", "reply", at_once(1)), &probe).await;
    stage.publish_texts(&bus, &topic, ["alive"]).await;
    probe.received(1).await;

    kill.await;

    let (bus, topic) = (&bus, &topic);
    stage
        .until("the topic to be unroutable", || async move {
            match bus.publish(topic, message("anybody there?")).await {
                Ok(()) => false,
                Err(PublishError::Unroutable(_)) => true,
                Err(error) => panic!("publishing failed: {error}"),
            }
        })
        .await;
}
