//! How long a queue lives, and for whom.

use std::sync::Arc;
use std::time::Duration;

use super::probe::texts;
use super::stage::{Stage, at_once, in_order, message, numbers};
use crate::{Bus, PublishError, SubscribeError, Subscription};

/// How long a stop has to begin.
const STOP_BEGIN_GRACE: Duration = Duration::from_millis(200);

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

/// Whoever publishes can find out whether anybody takes what it publishes.
pub(super) async fn the_consumers_of_a_durable_queue_are_counted(stage: Stage) {
    let (bus, other) = (stage.bus().await, stage.bus().await);
    assert_eq!(bus.count_consumers(&stage.name("q")).await, None, "there is no such queue");

    let probe = stage.acks();
    let subscription = stage.durable("q", "work", at_once(1));
    let first = stage.subscribe(&bus, subscription.clone(), &probe).await;
    stage.consumers(&bus, "q", 1).await;
    let second = stage.subscribe(&other, subscription, &probe).await;
    stage.consumers(&bus, "q", 2).await;

    stage.within("the kill", first.kill()).await;
    stage.consumers(&other, "q", 1).await;
    stage.within("the stop", second.stop(stage.patience())).await;
    stage.consumers(&other, "q", 0).await;
    stage.publish_texts(&bus, &stage.topic("work"), ["kept"]).await;
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
/// a name by mistake, each would miss what the other got. The second is told and leaves no trace,
/// and the first goes on.
pub(super) async fn a_private_queue_belongs_to_one_consumer(stage: Stage) {
    let (one, other) = (stage.bus().await, stage.bus().await);
    let owner = stage.acks();
    let _owner = stage.subscribe(&one, stage.private("q", "reply", in_order(8)), &owner).await;

    assert_refused(&stage, &other, stage.private("q", "else", in_order(8))).await;
    assert_refused(&stage, &one, stage.private("q", "else", in_order(8))).await;
    assert_refused(&stage, &other, stage.durable("q", "else", in_order(8))).await;

    let elsewhere = stage.topic("else");
    let published = one.publish(&elsewhere, message("nobody is there")).await;
    assert_eq!(published, Err(PublishError::Unroutable(elsewhere)));
    stage.publish_texts(&one, &stage.topic("reply"), numbers(20)).await;
    assert_eq!(texts(&owner.received(20).await), numbers(20));
}

/// A durable queue cannot be had as a private one, which would take it away in the end.
pub(super) async fn a_durable_queue_is_never_private(stage: Stage) {
    let (one, other) = (stage.bus().await, stage.bus().await);
    stage.make_queue(&one, "q", "work").await;
    stage.publish_texts(&one, &stage.topic("work"), numbers(3)).await;

    assert_refused(&stage, &other, stage.private("q", "work", in_order(8))).await;

    stage.ready("q", 3).await;
}

async fn assert_refused(stage: &Stage, bus: &Arc<dyn Bus>, subscription: Subscription) {
    let probe = stage.acks();
    let subscribing = bus.subscribe(subscription.clone(), probe.clone());
    match stage.within("the error", subscribing).await {
        Err(SubscribeError::Refused { name, .. }) => assert_eq!(name, subscription.name),
        outcome => panic!("{subscription:?} should be refused, not {outcome:?}"),
    }
    assert!(probe.texts().is_empty(), "a refused subscription got a message");
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

/// Of several consumers of such a queue, one alone is handed messages. When its process dies, the
/// next one has what it had left, and what comes after.
pub(super) async fn one_consumer_of_a_single_active_queue_has_every_message(stage: Stage) {
    let (doomed, kill) = stage.doomed().await;
    let bus = stage.bus().await;
    let topic = stage.topic("work");
    let subscription = stage.single_active("q", "work", at_once(4));

    let (first, second) = (stage.holds(), stage.acks());
    let active = stage.subscribe(&doomed, subscription.clone(), &first).await;
    let standby = stage.subscribe(&bus, subscription, &second).await;
    stage.publish_texts(&bus, &topic, numbers(20)).await;
    first.received(4).await;
    assert!(second.texts().is_empty(), "the other one was handed messages");

    kill.await;
    stage.within("the end of the lost consumer", active.wait_stopped()).await;
    let mut seen = texts(&second.received(20).await);
    seen.sort_unstable();
    let mut all = numbers(20);
    all.sort_unstable();
    assert_eq!(seen, all, "each message once");
    stage.within("the stop", standby.stop(stage.patience())).await;
}

/// The next consumer is active as soon as the one that is takes no more.
pub(super) async fn a_single_active_queue_is_handed_on_by_a_stop(stage: Stage) {
    let (one, other) = (stage.bus().await, stage.bus().await);
    let topic = stage.topic("work");
    let subscription = stage.single_active("q", "work", at_once(1));

    let (first, second) = (stage.holds(), stage.acks());
    let active = stage.subscribe(&one, subscription.clone(), &first).await;
    let standby = stage.subscribe(&other, subscription, &second).await;
    stage.publish_texts(&one, &topic, ["held"]).await;
    first.received(1).await;

    let stopping = active.stop(stage.patience());
    let handed_on = async {
        // sleeps: the stop has started by then. If a message waits in a classic queue of RabbitMQ
        // 3.10 when its active consumer is cancelled, the next message kills the queue (issue 5460
        // of rabbitmq-server).
        tokio::time::sleep(STOP_BEGIN_GRACE).await;
        stage.publish_texts(&one, &topic, numbers(3)).await;
        let seen = texts(&second.received(3).await);
        first.open();
        seen
    };
    let ((), seen) = tokio::join!(stage.within("the stop", stopping), handed_on);
    assert_eq!(seen, numbers(3));
    stage.within("the stop", standby.stop(stage.patience())).await;
}
