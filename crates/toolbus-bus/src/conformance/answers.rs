//! What becomes of a message, as its handler says.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;

use super::content::assert_same;
use super::probe::{sorted, texts};
use super::stage::{Stage, at_once, in_order, message, numbers};
use crate::port::ATTEMPTS_MAX;
use crate::{Delivery, Disposition, Handler};

/// How much later than asked a retry may come: brokers may round a delay up to one of a few.
const RETRY_SLACK: Duration = Duration::from_secs(5);

/// An acked message never comes again, whoever consumes next.
pub(super) async fn an_acked_message_is_gone(stage: Stage) {
    let (one, other) = (stage.bus().await, stage.bus().await);
    let topic = stage.topic("work");
    let first = stage.acks();
    let consumer = stage.subscribe(&one, stage.durable("q", "work", at_once(4)), &first).await;
    stage.publish_texts(&one, &topic, numbers(10)).await;
    first.answered(10).await;
    stage.within("stopping", consumer.stop(stage.patience())).await;

    stage.ready("q", 0).await;
    let second = stage.acks();
    let _consumer = stage.subscribe(&other, stage.durable("q", "work", in_order(8)), &second).await;
    stage.publish_texts(&one, &topic, ["later"]).await;
    // What came back would stand before what came later.
    assert_eq!(texts(&second.received(1).await), ["later"]);
}

/// A retry comes again once its delay is over and not before; the message is the same, and only
/// the number of the attempt is another. It does not count as redelivered: that word is kept for
/// work whose outcome nobody knows.
pub(super) async fn a_retry_comes_again_after_its_delay(stage: Stage) {
    let bus = stage.bus().await;
    let after = Duration::from_millis(700);
    let probe = stage.answers(move |delivery| match delivery.attempt {
        1 => Disposition::Retry { after },
        _ => Disposition::Ack,
    });
    let _consumer = stage.subscribe(&bus, stage.durable("q", "work.*", at_once(2)), &probe).await;

    let topic = stage.topic("work.now");
    let envelope = message("again")
        .with_correlation_id("c")
        .with_reply_to(stage.topic("reply"))
        .with_header("name", "value");
    stage.publish(&bus, &topic, envelope.clone()).await;

    let seen = probe.received(2).await;
    for (attempt, seen) in (1..).zip(&seen) {
        assert_eq!(seen.delivery.attempt, attempt);
        assert_eq!(seen.delivery.topic, topic);
        assert!(!seen.delivery.redelivered, "attempt {attempt}");
        assert_same(&seen.delivery.envelope, &envelope);
    }
    let waited = seen[1].at - seen[0].at;
    assert!(waited >= after, "it came again after {waited:?}, not after {after:?}");
    assert!(waited < after + RETRY_SLACK, "it came again only after {waited:?}");
    stage.quiet().await;
    assert_eq!(probe.texts().len(), 2, "it was acked and came once more");
}

/// While a message waits for its retry, the others go on: those behind it, and those that wait for
/// a shorter time.
pub(super) async fn a_retry_holds_nobody_up(stage: Stage) {
    let bus = stage.bus().await;
    let long = stage.patience() * 3;
    let probe =
        stage.answers(move |delivery| match (&delivery.envelope.body[..], delivery.attempt) {
            (b"long", 1) => Disposition::Retry { after: long },
            (b"short", 1) => Disposition::Retry { after: Duration::from_millis(300) },
            _ => Disposition::Ack,
        });
    let _consumer = stage.subscribe(&bus, stage.durable("q", "work", in_order(1)), &probe).await;

    stage.publish_texts(&bus, &stage.topic("work"), ["long", "short", "plain"]).await;

    assert_eq!(texts(&probe.received(4).await), ["long", "short", "plain", "short"]);
}

/// A message that waits for its retry is the broker's. Whoever consumes by then gets it.
pub(super) async fn a_retry_outlives_the_consumer_that_asked_for_it(stage: Stage) {
    let (one, other) = (stage.bus().await, stage.bus().await);
    let first = stage.answers(|_| Disposition::Retry { after: Duration::from_millis(500) });
    let consumer = stage.subscribe(&one, stage.durable("q", "work", at_once(1)), &first).await;
    stage.publish_texts(&one, &stage.topic("work"), ["again"]).await;
    first.answered(1).await;
    stage.within("stopping", consumer.stop(stage.patience())).await;
    stage.within("closing", one.close(stage.patience())).await;

    let second = stage.acks();
    let _consumer = stage.subscribe(&other, stage.durable("q", "work", at_once(1)), &second).await;
    let seen = second.received(1).await;
    assert_eq!(texts(&seen), ["again"]);
    assert_eq!(seen[0].delivery.attempt, 2);
}

/// The retry of one subscription is no business of another that had a copy of the message.
pub(super) async fn a_retry_goes_only_to_the_queue_that_asked_for_it(stage: Stage) {
    let bus = stage.bus().await;
    let first = stage.answers(|delivery| match delivery.attempt {
        1 => Disposition::Retry { after: Duration::from_millis(20) },
        _ => Disposition::Ack,
    });
    let second = stage.acks();
    let _first = stage.subscribe(&bus, stage.durable("a", "news", at_once(1)), &first).await;
    let _second = stage.subscribe(&bus, stage.durable("b", "news", at_once(1)), &second).await;

    stage.publish_texts(&bus, &stage.topic("news"), ["extra"]).await;

    assert_eq!(texts(&first.received(2).await), ["extra", "extra"]);
    stage.quiet().await;
    assert_eq!(texts(&second.received(1).await), ["extra"]);
}

/// A private queue lives no longer than its consumer, but until then it retries like any other.
pub(super) async fn a_private_queue_retries_too(stage: Stage) {
    let bus = stage.bus().await;
    let probe = stage.answers(|delivery| match delivery.attempt {
        1 => Disposition::Retry { after: Duration::from_millis(20) },
        _ => Disposition::Ack,
    });
    let _consumer = stage.subscribe(&bus, stage.private("q", "work", in_order(8)), &probe).await;

    stage.publish_texts(&bus, &stage.topic("work"), ["again"]).await;

    let attempts: Vec<_> =
        probe.received(2).await.iter().map(|seen| seen.delivery.attempt).collect();
    assert_eq!(attempts, [1, 2]);
}

/// A message that nobody can ever handle does not go round for ever.
pub(super) async fn retries_end_in_a_dead_letter(stage: Stage) {
    let bus = stage.bus().await;
    let probe = stage.answers(|_| Disposition::Retry { after: Duration::from_millis(10) });
    let _consumer = stage.subscribe(&bus, stage.durable("q", "work", at_once(4)), &probe).await;

    let topic = stage.topic("work");
    stage.publish_texts(&bus, &topic, ["hopeless"]).await;

    let letters = stage.dead_letters("q", 1).await;
    stage.quiet().await;
    let attempts: Vec<_> =
        probe.look(|state| state.seen.iter().map(|seen| seen.delivery.attempt).collect());
    assert_eq!(attempts, (1..=ATTEMPTS_MAX).collect::<Vec<_>>());
    assert_eq!(letters.len(), 1);
    assert_eq!(letters[0].topic, topic);
    assert_eq!(&letters[0].envelope.body[..], b"hopeless");
    assert!(!letters[0].reason.is_empty(), "a dead letter says why it is one");
    stage.ready("q", 0).await;
}

/// A dead letter is kept once, whole and with the handler's own words, and the handler does not see
/// it again.
pub(super) async fn a_dead_letter_is_kept_once_with_its_reason(stage: Stage) {
    let bus = stage.bus().await;
    let reason = "no such order: 7 (☃)";
    let probe = stage.answers(move |delivery| match &delivery.envelope.body[..] {
        b"good" => Disposition::Ack,
        _ => Disposition::DeadLetter { reason: reason.into() },
    });
    let _consumer = stage.subscribe(&bus, stage.durable("q", "work.#", at_once(1)), &probe).await;

    let topic = stage.topic("work.a.b");
    let envelope = message("bad")
        .with_correlation_id("c")
        .with_reply_to(stage.topic("reply"))
        .with_header("name", "value");
    stage.publish(&bus, &topic, envelope.clone()).await;
    stage.publish_texts(&bus, &topic, ["good"]).await;

    stage.dead_letters("q", 1).await;
    probe.answered(2).await;
    stage.quiet().await;
    assert_eq!(probe.texts(), ["bad", "good"]);
    stage.ready("q", 0).await;
    let letters = stage.dead_letters("q", 1).await;
    assert_eq!(letters.len(), 1);
    let letter = &letters[0];
    assert_eq!(letter.reason, reason);
    assert_eq!(letter.topic, topic);
    assert_eq!(letter.envelope.headers.get("name"), Some("value"));
    // Of its headers there may be more, such as the reason itself.
    let mut kept = letter.envelope.clone();
    kept.headers = envelope.headers.clone();
    assert_same(&kept, &envelope);
}

/// A handler that panics, at once or later, costs its message and nothing else: it is not tried
/// again, the process lives, and the messages behind it are handled.
pub(super) async fn a_panic_makes_a_dead_letter(stage: Stage) {
    let bus = stage.bus().await;
    let probe = stage.acks();
    let handler = Arc::new(Panics { others: Arc::clone(&probe) });
    let _consumer = stage.subscribe(&bus, stage.durable("q", "work", in_order(8)), &handler).await;

    stage.publish_texts(&bus, &stage.topic("work"), ["early", "late", "plain"]).await;

    assert_eq!(texts(&probe.received(1).await), ["plain"]);
    stage.dead_letters("q", 2).await;
    stage.quiet().await;
    let letters = stage.dead_letters("q", 2).await;
    let bodies = letters
        .iter()
        .map(|letter| String::from_utf8_lossy(&letter.envelope.body).into_owned())
        .collect();
    assert_eq!(sorted(bodies), ["early", "late"]);
    for letter in letters {
        assert!(letter.reason.contains("panic"), "the reason says {:?}", letter.reason);
    }
}

/// Panics before there is a future, or in it, as the message says.
struct Panics<H> {
    others: Arc<H>,
}

impl<H: Handler> Handler for Panics<H> {
    fn handle(&self, delivery: Delivery) -> BoxFuture<'_, Disposition> {
        // Without the hook that would print each of them.
        let panic = || -> Disposition { std::panic::resume_unwind(Box::new("on purpose")) };
        match &delivery.envelope.body[..] {
            b"early" => {
                panic();
                unreachable!("it has panicked")
            }
            b"late" => Box::pin(async move {
                tokio::task::yield_now().await;
                panic()
            }),
            _ => self.others.handle(delivery),
        }
    }
}
