//! Stops, ends and deaths: nothing is lost, and nothing is done twice without being told.

use std::time::{Duration, Instant};

use futures_util::future::join_all;

use super::probe::{sorted, texts};
use super::stage::{Stage, at_once, in_order, message, numbers};
use crate::{PublishError, SubscribeError};

/// When a process dies, the broker gives what it held to another, marked as redelivered, so that
/// the other knows that the work may have been done. What nobody had been given is not marked.
pub(super) async fn the_work_of_a_dead_process_goes_to_another(stage: Stage) {
    let (doomed, kill) = stage.doomed().await;
    let bus = stage.bus().await;
    let topic = stage.topic("work");
    let dies = stage.holds();
    let _dies = stage.subscribe(&doomed, stage.durable("q", "work", at_once(2)), &dies).await;
    stage.publish_texts(&bus, &topic, numbers(5)).await;
    let held = texts(&dies.received(2).await);

    kill.await;

    let lives = stage.acks();
    let _lives = stage.subscribe(&bus, stage.durable("q", "work", at_once(2)), &lives).await;
    let seen = lives.received(5).await;
    stage.quiet().await;
    assert_eq!(sorted(lives.texts()), sorted(numbers(5)));

    for seen in seen {
        let text = seen.text();
        assert_eq!(seen.delivery.redelivered, held.contains(&text), "message {text}");
        assert_eq!(seen.delivery.topic, topic);
    }
}

/// Messages that a dead consumer held or had fetched ahead stand again where they stood: before
/// those that came later, in their order.
pub(super) async fn order_survives_the_death_of_a_consumer(stage: Stage) {
    let (doomed, kill) = stage.doomed().await;
    let bus = stage.bus().await;
    let topic = stage.topic("work");
    let dies = stage.holds();
    let _dies = stage.subscribe(&doomed, stage.durable("q", "work", in_order(8)), &dies).await;
    let all = numbers(20);
    let (before, after) = all.split_at(15);
    stage.publish_texts(&bus, &topic, before).await;
    dies.received(1).await;

    kill.await;

    // The broker has noticed.
    stage.ready("q", 15).await;
    stage.publish_texts(&bus, &topic, after).await;
    let lives = stage.acks();
    let _lives = stage.subscribe(&bus, stage.durable("q", "work", in_order(8)), &lives).await;
    assert_eq!(texts(&lives.received(20).await), all);
}

/// A consumer that is stopped takes nothing new, and what it works on comes to its end and is
/// acked.
pub(super) async fn a_stop_lets_running_work_finish(stage: Stage) {
    let bus = stage.bus().await;
    let topic = stage.topic("work");
    let probe = stage.holds();
    let consumer = stage.subscribe(&bus, stage.durable("q", "work", at_once(4)), &probe).await;
    stage.publish_texts(&bus, &topic, ["running"]).await;
    probe.received(1).await;

    // What the broker has handed out by then is still worked on; from then on nothing new is taken.
    let meanwhile = async {
        stage.consumers(&bus, "q", 0).await;
        stage.publish_texts(&bus, &topic, ["later"]).await;
        stage.ready("q", 1).await;
        stage.quiet().await;
        assert_eq!(probe.texts(), ["running"], "a consumer that stops took a new message");
        probe.open();
    };

    let stop = stage.within("the stop", consumer.stop(stage.patience()));
    tokio::join!(biased; stop, meanwhile);
    probe.look(|state| assert_eq!((state.answered, state.dropped), (1, 0)));

    let next = stage.acks();
    let _next = stage.subscribe(&bus, stage.durable("q", "work", in_order(8)), &next).await;
    // What was not acked would stand before what came later.
    assert_eq!(texts(&next.received(1).await), ["later"]);
}

/// A consumer may leave messages to others for a while: what it works on goes on meanwhile, and
/// another of the same name, in the same process too, takes what comes.
pub(super) async fn a_consumer_that_takes_no_more_ends_what_it_has(stage: Stage) {
    let bus = stage.bus().await;
    let topic = stage.topic("work");
    let subscription = stage.durable("q", "work", at_once(2));
    let probe = stage.holds();
    let paused = stage.subscribe(&bus, subscription.clone(), &probe).await;
    stage.publish_texts(&bus, &topic, ["one", "two"]).await;
    probe.received(2).await;

    paused.stop_taking();
    stage.consumers(&bus, "q", 0).await;
    stage.publish_texts(&bus, &topic, ["three"]).await;
    stage.ready("q", 1).await;

    let next = stage.acks();
    let again = stage.subscribe(&bus, subscription, &next).await;
    assert_eq!(texts(&next.received(1).await), ["three"]);
    assert!(again.is_taking() && !paused.is_taking() && !paused.has_ended());
    probe.look(|state| assert_eq!((state.running, state.dropped), (2, 0)));

    probe.open();
    probe.answered(2).await;
    stage.until("the end of the paused one", || std::future::ready(paused.has_ended())).await;
    stage.within("the stop", paused.stop(stage.patience())).await;
    stage.within("the stop", again.stop(stage.patience())).await;
    stage.ready("q", 0).await;
    assert_eq!(next.texts(), ["three"], "what was acked came again");
}

/// What the broker has handed out when the stop comes is worked on, for it would look begun to the
/// next consumer. So nothing that the next one gets was begun.
pub(super) async fn a_stop_under_load_leaves_nothing_that_looks_begun(stage: Stage) {
    let (bus, publisher) = (stage.bus().await, stage.bus().await);
    let topic = stage.topic("work");
    stage.make_queue(&bus, "q", "work").await;
    let sent = numbers(600);
    stage.publish_texts(&publisher, &topic, sent.clone()).await;

    let probe = stage.acks();
    let consumer = stage.subscribe(&bus, stage.durable("q", "work", at_once(16)), &probe).await;
    probe.received(50).await;
    stage.within("the stop", consumer.stop(stage.patience())).await;
    let handled = probe.texts().len();

    let next = stage.acks();
    let _next = stage.subscribe(&bus, stage.durable("q", "work", in_order(64)), &next).await;
    let seen = next.received(sent.len() - handled).await;
    assert!(seen.iter().all(|seen| !seen.delivery.redelivered), "after {handled} were handled");
    let all: Vec<_> = probe.texts().into_iter().chain(texts(&seen)).collect();
    assert_eq!(sorted(all), sorted(sent));
}

/// Work that is not done when the grace is over is dropped, and its message goes to another: better
/// done again than lost.
pub(super) async fn a_stop_drops_what_outlasts_its_grace(stage: Stage) {
    let bus = stage.bus().await;
    let probe = stage.holds();
    let consumer = stage.subscribe(&bus, stage.durable("q", "work", at_once(4)), &probe).await;
    stage.publish_texts(&bus, &stage.topic("work"), numbers(2)).await;
    probe.received(2).await;

    let (begin, grace) = (Instant::now(), Duration::from_millis(300));
    stage.within("the stop", consumer.stop(grace)).await;
    assert!(begin.elapsed() >= grace, "the grace was cut to {:?}", begin.elapsed());
    probe.look(|state| assert_eq!((state.answered, state.dropped), (0, 2)));

    stage.ready("q", 2).await;
    let next = stage.acks();
    let _next = stage.subscribe(&bus, stage.durable("q", "work", in_order(8)), &next).await;
    let seen = next.received(2).await;
    assert_eq!(sorted(texts(&seen)), numbers(2));
    assert!(seen.iter().all(|seen| seen.delivery.redelivered), "the work had been begun");
}

/// A grace is a limit, not a time to wait: without work a consumer stops at once.
pub(super) async fn a_stop_without_work_is_prompt(stage: Stage) {
    let bus = stage.bus().await;
    let probe = stage.acks();
    let subscriptions = [
        stage.durable("a", "work", at_once(4)),
        stage.durable("b", "work", in_order(4)),
        stage.private("c", "work", in_order(4)),
    ];

    for subscription in subscriptions {
        let name = subscription.name.clone();
        let consumer = stage.subscribe(&bus, subscription, &probe).await;
        let stop = consumer.stop(stage.patience() * 3);
        stage.within(&format!("stopping the idle consumer {name}"), stop).await;
    }
}

/// A consumer that is dropped stops too, only nobody waits for it.
pub(super) async fn a_dropped_consumer_stops(stage: Stage) {
    let bus = stage.bus().await;
    let topic = stage.topic("work");
    let probe = stage.acks();
    let consumer = stage.subscribe(&bus, stage.durable("q", "work", in_order(4)), &probe).await;
    stage.publish_texts(&bus, &topic, ["before"]).await;
    probe.answered(1).await;

    drop(consumer);

    // Some of these may still be taken, and then one is not.
    let mut published = 0;
    let taken = loop {
        stage.publish_texts(&bus, &topic, ["after"]).await;
        published += 1;
        stage.quiet().await;
        let taken = probe.texts().len() - 1;

        if taken < published {
            break taken;
        }

        assert!(published < 20, "a dropped consumer still takes messages");
    };

    stage.ready("q", published - taken).await;
}

/// A bus that is closed with work in flight drops it, and its messages go to another process.
pub(super) async fn closing_gives_unfinished_work_back(stage: Stage) {
    let (one, other) = (stage.bus().await, stage.bus().await);
    let probe = stage.holds();
    let consumer = stage.subscribe(&one, stage.durable("q", "work", at_once(2)), &probe).await;
    stage.publish_texts(&other, &stage.topic("work"), numbers(3)).await;
    let held = texts(&probe.received(2).await);

    stage.within("closing", one.close(Duration::from_millis(100))).await;
    assert_eq!(probe.look(|state| state.dropped), 2, "after the close nothing runs on");
    stage.within("stopping after the close", consumer.stop(stage.patience() * 3)).await;

    let next = stage.acks();
    let _next = stage.subscribe(&other, stage.durable("q", "work", at_once(2)), &next).await;
    let seen = next.received(3).await;
    stage.quiet().await;
    assert_eq!(sorted(next.texts()), numbers(3));

    for seen in seen {
        assert_eq!(seen.delivery.redelivered, held.contains(&seen.text()), "{}", seen.text());
    }

    assert_eq!(probe.texts(), held, "a closed bus took a new message");
}

/// What `publish` has promised holds though the bus is closed at the same moment; what it has not
/// ends in an error, and soon.
pub(super) async fn closing_loses_no_confirmed_message(stage: Stage) {
    let (one, other) = (stage.bus().await, stage.bus().await);
    stage.make_queue(&other, "q", "work").await;
    let topic = stage.topic("work");

    let texts_sent = numbers(200);
    let publishes = join_all(texts_sent.iter().map(|text| one.publish(&topic, message(text))));
    let both = async { tokio::join!(publishes, one.close(stage.patience())) };
    let (published, ()) = stage.within("closing", both).await;

    let probe = stage.acks();
    let _consumer = stage.subscribe(&other, stage.durable("q", "work", in_order(64)), &probe).await;
    stage.publish_texts(&other, &topic, ["end"]).await;
    let end = |text: &String| text == "end";
    stage.until("the last message", || async { probe.texts().iter().any(end) }).await;
    let arrived = probe.texts();

    for (text, published) in texts_sent.iter().zip(published) {
        match published {
            Ok(()) => assert!(arrived.contains(text), "message {text} was confirmed and is lost"),
            Err(
                PublishError::Closed | PublishError::Unconfirmed | PublishError::Unavailable(_),
            ) => {}
            Err(error) => panic!("message {text} ended in {error}"),
        }
    }
}

/// After `close` every use of the bus is a typed error, at once; before it, a bus is up.
pub(super) async fn a_closed_bus_says_so(stage: Stage) {
    let (bus, other) = (stage.bus().await, stage.bus().await);
    let probe = stage.acks();
    let _other = stage.subscribe(&other, stage.durable("q", "work", at_once(1)), &probe).await;
    let topic = stage.topic("work");
    stage.publish_texts(&bus, &topic, ["before"]).await;
    assert!(bus.health().is_up(), "a bus that publishes is up, not {:?}", bus.health());

    stage.within("closing", bus.close(stage.patience())).await;

    let published = stage.within("the error", bus.publish(&topic, message("after"))).await;
    assert_eq!(published, Err(PublishError::Closed));
    let subscription = stage.durable("r", "work", at_once(1));
    let subscribed = stage.within("the error", bus.subscribe(subscription, probe.clone())).await;
    assert!(
        matches!(subscribed, Err(SubscribeError::Closed)),
        "subscribing on a closed bus gave {subscribed:?}"
    );
    assert!(!bus.health().is_up());
    stage.within("closing again", bus.close(stage.patience())).await;

    // The others notice nothing.
    stage.publish_texts(&other, &topic, ["on"]).await;
    assert_eq!(texts(&probe.received(2).await), ["before", "on"]);
    assert!(other.health().is_up());
}
