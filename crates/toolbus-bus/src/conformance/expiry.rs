//! A message whose sender has stopped waiting is not delivered.

use std::time::Duration;

use super::probe::texts;
use super::stage::{Stage, at_once, in_order, message};

/// Short enough to wait for, long enough to be told from nothing.
const SHORT_TTL: Duration = Duration::from_millis(150);
const LONG_TTL: Duration = Duration::from_secs(3_600);

/// A request that waited in the queue past its time would be work for nobody. One whose time is not
/// over, and one that has none, are delivered.
pub(super) async fn a_message_that_waited_too_long_is_not_delivered(stage: Stage) {
    let bus = stage.bus().await;
    let topic = stage.topic("work");
    stage.make_queue(&bus, "q", "work").await;
    stage.publish(&bus, &topic, message("stale").with_expiry(SHORT_TTL)).await;
    stage.publish(&bus, &topic, message("fresh").with_expiry(LONG_TTL)).await;
    stage.publish(&bus, &topic, message("timeless")).await;
    // sleeps: the broker's own clock is to pass the time of the stale one.
    tokio::time::sleep(SHORT_TTL * 2).await;

    let probe = stage.acks();
    let _consumer = stage.subscribe(&bus, stage.durable("q", "work", in_order(8)), &probe).await;
    // The stale one stood first.
    assert_eq!(texts(&probe.received(2).await), ["fresh", "timeless"]);
    stage.ready("q", 0).await;
}

/// It makes no difference whether nobody was there or whoever was there had no hand free.
pub(super) async fn a_message_expires_behind_a_slow_handler(stage: Stage) {
    let bus = stage.bus().await;
    let topic = stage.topic("work");
    let probe = stage.holds();
    let _consumer = stage.subscribe(&bus, stage.durable("q", "work", at_once(1)), &probe).await;
    stage.publish(&bus, &topic, message("slow").with_expiry(LONG_TTL)).await;
    probe.received(1).await;
    stage.publish(&bus, &topic, message("stale").with_expiry(SHORT_TTL)).await;
    stage.publish(&bus, &topic, message("fresh").with_expiry(LONG_TTL)).await;
    // sleeps: the broker's own clock is to pass the time of the stale one.
    tokio::time::sleep(SHORT_TTL * 2).await;

    probe.open();
    assert_eq!(texts(&probe.received(2).await), ["slow", "fresh"]);
}
