//! What a publish promises.

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::join_all;

use super::probe::{sorted, texts};
use super::stage::{Stage, at_once, in_order, message, numbers};
use crate::PublishError;
use crate::port::BODY_BYTES_MAX;

/// Once `publish` has returned, the message is the broker's: the end of the publisher takes nothing
/// away.
pub(super) async fn a_confirmed_message_is_in_the_queue(stage: Stage) {
    let (doomed, kill) = stage.doomed().await;
    let bus = stage.bus().await;
    stage.make_queue(&bus, "q", "work").await;

    stage.publish_texts(&doomed, &stage.topic("work"), numbers(10)).await;
    kill.await;

    stage.ready("q", 10).await;
    let probe = stage.acks();
    let _consumer = stage.subscribe(&bus, stage.durable("q", "work", in_order(8)), &probe).await;
    assert_eq!(texts(&probe.received(10).await), numbers(10));
}

/// A call that no queue takes is an error now, not a timeout a minute later; and the error says
/// which topic it was. Nothing else is disturbed by it.
pub(super) async fn nobody_listens_is_an_error_that_names_the_topic(stage: Stage) {
    let bus = stage.bus().await;
    let probe = stage.acks();
    let _consumer = stage.subscribe(&bus, stage.durable("q", "here", at_once(1)), &probe).await;
    for text in ["nowhere", "here.below", "☃"] {
        let topic = stage.topic(text);
        let published = stage.within("the error", bus.publish(&topic, message("lost"))).await;
        assert_eq!(published, Err(PublishError::Unroutable(topic)));
    }

    stage.publish_texts(&bus, &stage.topic("here"), ["found"]).await;
    assert_eq!(texts(&probe.received(1).await), ["found"]);
}

/// Publishes run at the same time, and what becomes of one is never told to another.
pub(super) async fn every_publish_gets_its_own_answer(stage: Stage) {
    let bus = stage.bus().await;
    let probe = stage.acks();
    let _consumer = stage.subscribe(&bus, stage.durable("q", "here", at_once(8)), &probe).await;
    let here = stage.topic("here");

    let publishes = (0..200).map(|number| {
        let topic = match number % 2 {
            0 => here.clone(),
            _ => stage.topic(&format!("nowhere.{number}")),
        };

        let bus = &bus;
        async move {
            let published = bus.publish(&topic, message(&number.to_string())).await;
            (number, topic, published)
        }
    });

    for (number, topic, published) in stage.within("publishing", join_all(publishes)).await {
        let expected = if number % 2 == 0 { Ok(()) } else { Err(PublishError::Unroutable(topic)) };
        assert_eq!(published, expected, "publish {number}");
    }

    let expected = (0..200).step_by(2).map(|number| number.to_string()).collect();
    assert_eq!(sorted(texts(&probe.received(100).await)), sorted(expected));
}

/// While nothing breaks, at-least-once delivery is exactly once, under load too.
pub(super) async fn two_thousand_publishes_at_once_arrive_once_each(stage: Stage) {
    let (publisher, bus) = (stage.bus().await, stage.bus().await);
    let probe = stage.acks();
    let _consumer = stage.subscribe(&bus, stage.durable("q", "load", at_once(64)), &probe).await;
    let topic = stage.topic("load");

    let publishes = numbers(2_000);
    let publishes = publishes.iter().map(|text| publisher.publish(&topic, message(text)));
    let published = stage.within("publishing", join_all(publishes)).await;
    assert!(published.iter().all(Result::is_ok), "a publish failed: {published:?}");

    probe.received(2_000).await;
    stage.quiet().await;
    assert_eq!(sorted(probe.texts()), sorted(numbers(2_000)));
    assert!(
        probe.look(|state| state.seen.iter().all(|seen| !seen.delivery.redelivered)),
        "nobody died, so nothing was delivered before"
    );
}

/// The future of a publish may be dropped, as every timeout does. The message then is published or
/// not, never twice, and the bus is as good as before: later answers are not taken for that one's.
pub(super) async fn a_dropped_publish_does_no_harm(stage: Stage) {
    let bus = stage.bus().await;
    let probe = stage.acks();
    let _consumer = stage.subscribe(&bus, stage.durable("q", "here", at_once(8)), &probe).await;
    let (here, nowhere) = (stage.topic("here"), stage.topic("nowhere"));

    for number in numbers(50) {
        // One look at the future, and away with it.
        let _ = bus.publish(&here, message(&number)).now_or_never();
        let _ = bus.publish(&nowhere, message(&number)).now_or_never();
    }

    let unroutable = stage.within("the error", bus.publish(&nowhere, message("lost"))).await;
    assert_eq!(unroutable, Err(PublishError::Unroutable(nowhere)));
    stage.publish_texts(&bus, &here, ["last"]).await;
    let last = |text: &String| text == "last";
    stage.until("the last message", || async { probe.texts().iter().any(last) }).await;
    stage.quiet().await;
    let mut once = sorted(probe.texts());
    once.dedup();
    assert_eq!(sorted(probe.texts()), once, "a dropped publish was published twice");
}

/// The limit for bodies is the same on every broker, it is checked before anything is sent, and a
/// body of just that size passes.
pub(super) async fn a_body_over_the_limit_is_refused(stage: Stage) {
    let bus = stage.bus().await;
    let probe = stage.acks();
    let _consumer = stage.subscribe(&bus, stage.durable("q", "big", at_once(1)), &probe).await;
    let topic = stage.topic("big");
    let zeros = Bytes::from(vec![b'0'; BODY_BYTES_MAX + 1]);

    let mut envelope = message("");
    envelope.body = zeros.clone();
    let published = stage.within("the error", bus.publish(&topic, envelope)).await;
    assert_eq!(published, Err(PublishError::TooLarge { bytes: BODY_BYTES_MAX + 1 }));

    let mut envelope = message("");
    envelope.body = zeros.slice(1..);
    stage.publish(&bus, &topic, envelope).await;
    let seen = probe.received(1).await;
    assert_eq!(seen.len(), 1, "the body over the limit came through");

    // Not by `assert_eq`, which would print both.
    assert!(seen[0].delivery.envelope.body == zeros.slice(1..), "the body has changed");
}

/// A bounded queue counts what is in it, not what has ever been: more than any queue holds passes
/// through it while somebody consumes.
pub(super) async fn what_is_answered_takes_no_room(stage: Stage) {
    let bus = stage.bus().await;
    let probe = stage.acks();
    let _consumer = stage.subscribe(&bus, stage.durable("q", "big", at_once(1)), &probe).await;
    let topic = stage.topic("big");
    let body = Bytes::from(vec![b'0'; BODY_BYTES_MAX / 2]);

    for number in 1..=12 {
        let mut envelope = message("");
        envelope.body = body.clone();
        stage.publish(&bus, &topic, envelope).await;
        probe.answered(number).await;
        // They would add up here too.
        probe.forget();
    }
}
