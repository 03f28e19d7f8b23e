//! Which messages come to which queue.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use toolbus_wire::Topic;

use super::probe::{sorted, texts};
use super::stage::{Stage, at_once, in_order, message, numbers};
use crate::{Delivery, Disposition, PublishError, Subscription, TopicPattern};

/// Long enough for a consumer that has answered to come to rest.
const IDLE_INTERVAL: Duration = Duration::from_millis(10);

/// Subscriptions of different names each get a copy, since each belongs to another service.
pub(super) async fn different_names_each_get_a_copy(stage: Stage) {
    let (one, other, publisher) = (stage.bus().await, stage.bus().await, stage.bus().await);
    let (first, second) = (stage.acks(), stage.acks());
    let _first = stage.subscribe(&one, stage.durable("a", "news", in_order(8)), &first).await;
    let _second = stage.subscribe(&other, stage.durable("b", "news", in_order(8)), &second).await;

    stage.publish_texts(&publisher, &stage.topic("news"), numbers(20)).await;

    for probe in [first, second] {
        assert_eq!(texts(&probe.received(20).await), numbers(20));
    }
}

/// It makes no difference that both subscriptions live in one process and have the same pattern.
pub(super) async fn two_names_of_one_process_each_get_a_copy(stage: Stage) {
    let bus = stage.bus().await;
    let (first, second) = (stage.acks(), stage.acks());
    let _first = stage.subscribe(&bus, stage.durable("a", "news.*", in_order(8)), &first).await;
    let _second = stage.subscribe(&bus, stage.private("b", "news.*", in_order(8)), &second).await;

    stage.publish_texts(&bus, &stage.topic("news.today"), numbers(20)).await;

    for probe in [first, second] {
        assert_eq!(texts(&probe.received(20).await), numbers(20));
    }
}

/// Subscriptions of one name compete: the work is shared, and nothing is done twice.
pub(super) async fn one_name_shares_the_work(stage: Stage) {
    let (one, other, publisher) = (stage.bus().await, stage.bus().await, stage.bus().await);
    let topic = stage.topic("work");
    let (first, second) = (stage.holds(), stage.holds());
    let _first = stage.subscribe(&one, stage.durable("w", "work", at_once(1)), &first).await;
    let _second = stage.subscribe(&other, stage.durable("w", "work", at_once(1)), &second).await;

    // Each may hold one, so of two messages that nobody answers each must get one: while they are
    // busy with getting ready, and when both have been idle for a while.
    let (pairs, rest) = (numbers(40), numbers(100).split_off(40));
    for (round, pair) in (1..).zip(pairs.chunks(2)) {
        join_all(pair.iter().map(|text| stage.publish(&publisher, &topic, message(text)))).await;
        for probe in [&first, &second] {
            probe.received(round).await;
        }

        for probe in [&first, &second] {
            probe.open_for_one();
            probe.answered(round).await;
        }

        if round % 2 == 0 {
            // sleeps: the pace of the rounds: some come after a pause.
            tokio::time::sleep(IDLE_INTERVAL).await;
        }
    }

    first.open();
    second.open();
    stage.publish_texts(&publisher, &topic, rest).await;
    let all = || [first.texts(), second.texts()].concat();
    stage.until("all work to be taken", || async { all().len() >= 100 }).await;
    stage.quiet().await;
    assert_eq!(sorted(all()), sorted(numbers(100)));
}

/// Each pattern with the topics of [`TOPICS`] that it takes and no others. `{}` is a first segment
/// that no other case uses.
const PATTERNS: &[(&str, &[&str])] = &[
    ("{}", &["{}"]),
    ("{}.a", &["{}.a"]),
    ("{}.*", &["{}.a", "{}.b", "{}.ab", "{}.a*"]),
    ("{}.*.*", &["{}.a.b", "{}.a.c", "{}..b"]),
    ("{}.a.#", &["{}.a", "{}.a.b", "{}.a.b.c", "{}.a.c", "{}.a.b.c.c"]),
    ("{}.a.*.c", &["{}.a.b.c"]),
    ("{}.a.#.c", &["{}.a.c", "{}.a.b.c", "{}.a.b.c.c"]),
    ("{}.#.c", &["{}.a.c", "{}.a.b.c", "{}.a.b.c.c"]),
    ("{}.#.b", &["{}.b", "{}.a.b", "{}..b"]),
    (
        "{}.#",
        &[
            "{}",
            "{}.a",
            "{}.b",
            "{}.ab",
            "{}.a*",
            "{}.a.b",
            "{}.a.c",
            "{}..b",
            "{}.a.b.c",
            "{}.a.b.c.c",
        ],
    ),
    (
        "{}.#.*",
        &["{}.a", "{}.b", "{}.ab", "{}.a*", "{}.a.b", "{}.a.c", "{}..b", "{}.a.b.c", "{}.a.b.c.c"],
    ),
    // Only a whole segment is a wildcard.
    ("{}.a*", &["{}.a*"]),
    ("*.{}.a", &["z.{}.a"]),
    ("#.{}.a", &["{}.a", "z.{}.a", "y.z.{}.a"]),
];

const TOPICS: &[&str] = &[
    "{}",
    "{}.a",
    "{}.b",
    "{}.ab",
    "{}.a*",
    "{}.a.b",
    "{}.a.c",
    "{}..b",
    "{}.a.b.c",
    "{}.a.b.c.c",
    "z.{}.a",
    "y.z.{}.a",
    "{}-other",
];

/// `*` stands for exactly one segment and `#` for any number of them, none included.
pub(super) async fn patterns_match_by_segment(stage: Stage) {
    let bus = stage.bus().await;
    let topic = |text: &str| Topic::parse(text.replace("{}", stage.id())).expect("it is short");
    let mut probes = Vec::new();

    for (number, (pattern, _)) in PATTERNS.iter().enumerate() {
        let probe = stage.acks();
        let pattern = TopicPattern::from(topic(pattern));
        let name = stage.name(&number.to_string());
        let subscription = Subscription::private(name, pattern, in_order(8));
        let consumer = stage.subscribe(&bus, subscription, &probe).await;
        probes.push((probe, consumer));
    }

    for text in TOPICS {
        let published = bus.publish(&topic(text), message(text)).await;
        let taken = PATTERNS.iter().any(|(_, topics)| topics.contains(text));
        let expected = if taken { Ok(()) } else { Err(PublishError::Unroutable(topic(text))) };
        assert_eq!(published, expected, "publishing to {text}");
    }

    // Queues keep their order, so when this one is there, everything before it is there too.
    for (_, topics) in PATTERNS {
        stage.publish(&bus, &topic(topics[0]), message("end")).await;
    }

    for ((probe, _consumer), (pattern, topics)) in probes.iter().zip(PATTERNS) {
        probe
            .until(&format!("{pattern} should see the end"), |state| {
                state.seen.iter().any(|seen| seen.text() == "end")
            })
            .await;
        let mut seen = probe.look(|state| state.seen.clone());
        seen.truncate(seen.iter().position(|seen| seen.text() == "end").unwrap_or(seen.len()));
        let expected: Vec<_> =
            TOPICS.iter().copied().filter(|text| topics.contains(text)).collect();
        assert_eq!(texts(&seen), expected, "what {pattern} takes");

        for seen in seen {
            assert_eq!(
                seen.delivery.topic,
                topic(&seen.text()),
                "the topic that {pattern} is told"
            );
        }
    }
}

/// Several patterns of one name are bindings of one queue: it takes a message that falls under both
/// once, and either consumer may get what the other asked for.
pub(super) async fn several_bindings_of_a_queue_take_a_message_once(stage: Stage) {
    let (one, other) = (stage.bus().await, stage.bus().await);
    let probe = stage.acks();
    let _first = stage.subscribe(&one, stage.durable("q", "a.*", at_once(4)), &probe).await;
    let _second = stage.subscribe(&other, stage.durable("q", "*.z", at_once(4)), &probe).await;

    stage.publish_texts(&one, &stage.topic("a.b"), ["first binding"]).await;
    stage.publish_texts(&one, &stage.topic("y.z"), ["second binding"]).await;
    stage.publish_texts(&one, &stage.topic("a.z"), ["both"]).await;

    probe.received(3).await;
    stage.quiet().await;
    assert_eq!(sorted(probe.texts()), ["both", "first binding", "second binding"]);
}

/// What is published right after `subscribe` returned is not missed, and what nobody listens to any
/// more is unroutable right after `stop` returned. A requester rests on the first: its reply may
/// come within a millisecond.
pub(super) async fn a_subscription_is_bound_when_subscribe_returns(stage: Stage) {
    let (bus, publisher) = (stage.bus().await, stage.bus().await);
    let topic = stage.topic("reply");
    let unroutable = Err(PublishError::Unroutable(topic.clone()));

    for round in numbers(20) {
        let probe = stage.acks();
        let subscription = stage.private(&round, "reply", in_order(8));
        let consumer = stage.subscribe(&bus, subscription, &probe).await;
        stage.publish_texts(&publisher, &topic, [&round]).await;
        assert_eq!(texts(&probe.received(1).await), [round]);
        stage.within("stopping", consumer.stop(stage.patience())).await;
        let published = publisher.publish(&topic, message("nobody is there")).await;
        assert_eq!(published, unroutable);
    }
}

/// Who begins to listen to a topic that is in use hears it from then on, whatever a publisher may
/// remember of where its messages went before; and who stops is not missed.
pub(super) async fn a_new_subscription_hears_a_topic_that_is_in_use(stage: Stage) {
    let (bus, publisher) = (stage.bus().await, stage.bus().await);
    let topic = stage.topic("news");
    let always = stage.acks();
    let _always = stage.subscribe(&bus, stage.durable("a", "news", in_order(8)), &always).await;

    for round in numbers(20) {
        stage.publish_texts(&publisher, &topic, ["before"]).await;
        let probe = stage.acks();
        let subscription = stage.private(&round, "*", in_order(8));
        let consumer = stage.subscribe(&bus, subscription, &probe).await;
        stage.publish_texts(&publisher, &topic, [&round]).await;
        assert_eq!(texts(&probe.received(1).await), [round]);
        stage.within("stopping", consumer.stop(stage.patience())).await;
        stage.publish_texts(&publisher, &topic, ["after"]).await;
    }

    always.received(60).await;
}

/// A reply topic is chosen by a stranger, and whatever it is made of, the reply arrives there.
pub(super) async fn any_text_can_be_a_reply_topic(stage: Stage) {
    let (asking, answering) = (stage.bus().await, stage.bus().await);
    let longest = 255 - stage.topic("00.").as_str().len();
    let strange = [
        "with space",
        "tab\tline\nnul\0",
        "réponse.☃.返信",
        "a\"b'c\\d/e?f=g&h",
        "..",
        ".leading",
        "trailing.",
        "{}%s$(x)`y`;--",
        "*",
        "#",
        "a.*.#.b",
        &"x".repeat(longest),
    ];

    // The worker publishes its answer before it acks, as workers do.
    let requests = stage.topic("ask");
    let worker = {
        let (bus, unanswered) = (answering.clone(), stage.topic("nobody"));
        Arc::new(move |delivery: Delivery| {
            let bus = Arc::clone(&bus);
            let topic = delivery.envelope.reply_to.clone().unwrap_or_else(|| unanswered.clone());
            async move {
                let reply = message(topic.as_str());
                match bus.publish(&topic, reply).await {
                    Ok(()) => Disposition::Ack,
                    Err(error) => Disposition::DeadLetter { reason: error.to_string().into() },
                }
            }
        })
    };

    let _worker =
        stage.subscribe(&answering, stage.durable("worker", "ask", at_once(4)), &worker).await;

    let mut replies = HashMap::new();
    for (number, text) in strange.into_iter().enumerate() {
        let topic = stage.topic(&format!("{number:02}.{text}"));
        let subscription = Subscription::private(
            stage.name(&format!("replies-{number}")),
            TopicPattern::from(topic.clone()),
            in_order(8),
        );
        let probe = stage.acks();
        let consumer = stage.subscribe(&asking, subscription, &probe).await;
        replies.insert(topic, (probe, consumer));
    }

    join_all(
        replies.keys().map(|topic| {
            stage.publish(&asking, &requests, message("?").with_reply_to(topic.clone()))
        }),
    )
    .await;

    for (topic, (probe, _consumer)) in &replies {
        let seen = probe.received(1).await;
        assert_eq!(texts(&seen), [topic.as_str()]);
        assert_eq!(&seen[0].delivery.topic, topic);
    }
}
