//! What becomes of a message, as its handler says.

use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::content::assert_same;
use super::probe::{sorted, texts};
use super::stage::{Stage, at_once, in_order, message, numbers};
use crate::{Delivery, Disposition, Handler};

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
