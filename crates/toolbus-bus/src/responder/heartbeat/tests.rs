use super::*;
use crate::testing::{Faulty, Inbox, instance, topic, until, within};

/// Callers come and go for as long as the process lives.
#[tokio::test(start_paused = true)]
async fn a_caller_without_calls_is_forgotten() {
    let bus = Faulty::new();
    let stop = CancellationToken::new();
    let outbox = Outbox::start(bus.clone(), "worker", stop.clone());
    let cancels = Arc::new(Cancels::default());
    let heartbeats =
        Heartbeats::start(outbox.clone(), &instance("one"), Arc::clone(&cancels), stop);
    let news = Inbox::open(&*bus, "news").await;
    let calls = ["c", "d"].map(|call| cancels.register("RockBot", call));
    let held = heartbeats.hold(&topic("news"), calls[0].name(), &Slot::none());
    let never_signed = heartbeats.hold(&topic("elsewhere"), calls[1].name(), &Slot::none());
    drop(never_signed);
    news.received(1).await;
    drop(held);
    until("both callers are forgotten", || heartbeats.inner.callers.lock().is_empty()).await;
    within("their end", async { tokio::join!(heartbeats.stop(), outbox.stop()) }).await;
}
