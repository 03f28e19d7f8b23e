//! How many messages at a time, and in what order.

use super::probe::{sorted, texts};
use super::stage::{Stage, at_once, in_order, numbers};
use crate::Flow;

/// As many handlers run as there are permits, and never one more; what waits, waits in the broker
/// and not in the process.
pub(super) async fn no_more_handlers_run_than_permits(stage: Stage) {
    let bus = stage.bus().await;
    let probe = stage.holds();
    let _consumer = stage.subscribe(&bus, stage.durable("q", "work", at_once(4)), &probe).await;

    stage.publish_texts(&bus, &stage.topic("work"), numbers(10)).await;

    probe.until("four should run", |state| state.running == 4).await;
    stage.ready("q", 6).await;
    stage.quiet().await;
    stage.ready("q", 6).await;
    probe.open();
    probe.answered(10).await;
    probe.look(|state| {
        assert_eq!(state.most_running, 4);
        assert_eq!(sorted(texts(&state.seen)), sorted(numbers(10)));
    });

    stage.ready("q", 0).await;
}

/// A broker may hand out few messages at once. When those take long, more are handed out.
pub(super) async fn as_many_handlers_run_as_there_are_permits(stage: Stage) {
    let bus = stage.bus().await;
    let probe = stage.holds();
    let _consumer = stage.subscribe(&bus, stage.durable("q", "work", at_once(41)), &probe).await;

    stage.publish_texts(&bus, &stage.topic("work"), numbers(70)).await;

    probe.until("41 should run", |state| state.running == 41).await;
    stage.ready("q", 29).await;
    stage.quiet().await;
    stage.ready("q", 29).await;
    probe.open();
    probe.answered(70).await;
    probe.look(|state| {
        assert_eq!(state.most_running, 41);
        assert_eq!(sorted(texts(&state.seen)), sorted(numbers(70)));
        assert!(state.seen.iter().all(|seen| !seen.delivery.redelivered), "one came again");
    });
}

/// A consumer that is busy holds what it works on, unacked, and no more than that: the rest is
/// there for another of the same name. What the busy one held comes back when it dies.
pub(super) async fn what_is_over_the_permits_is_left_for_others(stage: Stage) {
    let (one, other) = (stage.bus().await, stage.bus().await);
    let busy = stage.holds();
    let consumer = stage.subscribe(&one, stage.durable("q", "work", at_once(4)), &busy).await;
    stage.publish_texts(&one, &stage.topic("work"), numbers(10)).await;
    let held = texts(&busy.received(4).await);

    let free = stage.acks();
    let _other = stage.subscribe(&other, stage.durable("q", "work", at_once(4)), &free).await;
    free.received(6).await;
    stage.quiet().await;
    assert_eq!(busy.texts(), held);
    assert_eq!(sorted([held.clone(), free.texts()].concat()), sorted(numbers(10)));

    stage.within("the kill", consumer.kill()).await;
    let mut seen = free.received(10).await.split_off(6);
    assert!(
        seen.iter().all(|seen| seen.delivery.redelivered),
        "all of them were handed out before"
    );
    seen.truncate(4);
    assert_eq!(sorted(texts(&seen)), sorted(held));
}

/// An ordered consumer fetches ahead, but only so far.
pub(super) async fn what_is_over_the_prefetch_is_left_for_others(stage: Stage) {
    let (one, other) = (stage.bus().await, stage.bus().await);
    let busy = stage.holds();
    let _busy = stage.subscribe(&one, stage.durable("q", "work", in_order(4)), &busy).await;
    stage.publish_texts(&one, &stage.topic("work"), numbers(10)).await;
    busy.received(1).await;

    let free = stage.acks();
    let _free = stage.subscribe(&other, stage.durable("q", "work", at_once(1)), &free).await;
    free.received(6).await;
    stage.quiet().await;
    assert_eq!(busy.texts().len(), 1, "an ordered consumer handles one message at a time");
}

/// With `Flow::Ordered` messages are handled in the order of the queue and one at a time, though
/// many are fetched ahead.
pub(super) async fn an_ordered_consumer_keeps_the_order(stage: Stage) {
    keeps_the_order(stage, in_order(64)).await;
}

/// With one permit there is nothing that could overtake.
pub(super) async fn one_permit_keeps_the_order(stage: Stage) {
    keeps_the_order(stage, at_once(1)).await;
}

async fn keeps_the_order(stage: Stage, flow: Flow) {
    let (publisher, bus) = (stage.bus().await, stage.bus().await);
    let topic = stage.topic("work");
    // Half of the messages wait for the consumer, and half come while it works.
    stage.make_queue(&bus, "q", "work").await;
    let all = numbers(500);
    let (waiting, coming) = all.split_at(250);
    stage.publish_texts(&publisher, &topic, waiting).await;
    let probe = stage.acks();
    let _consumer = stage.subscribe(&bus, stage.durable("q", "work", flow), &probe).await;
    stage.publish_texts(&publisher, &topic, coming).await;

    assert_eq!(texts(&probe.received(500).await), all);
    assert_eq!(probe.look(|state| state.most_running), 1);
}

/// A subscription whose handlers are all stuck holds up neither the other subscriptions of its
/// process nor the publishing.
pub(super) async fn a_stuck_subscription_holds_up_no_other(stage: Stage) {
    let bus = stage.bus().await;
    let stuck = stage.holds();
    let _stuck = stage.subscribe(&bus, stage.durable("s", "slow", at_once(2)), &stuck).await;
    let ordered = stage.holds();
    let _ordered = stage.subscribe(&bus, stage.durable("o", "slow", in_order(8)), &ordered).await;
    stage.publish_texts(&bus, &stage.topic("slow"), numbers(100)).await;
    stuck.received(2).await;
    ordered.received(1).await;

    let free = stage.acks();
    let _free = stage.subscribe(&bus, stage.durable("f", "fast", in_order(8)), &free).await;
    stage.publish_texts(&bus, &stage.topic("fast"), numbers(100)).await;
    assert_eq!(texts(&free.received(100).await), numbers(100));
    assert_eq!(stuck.texts().len(), 2);
}
