//! How many messages a subscription is handed at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Semaphore;
use toolbus_bus::{Bus as _, Delivery, Disposition, Handler};
use toolbus_testkit::rabbit::Vhost;
use toolbus_testkit::{eventually, quiet_for};

use crate::support::{
    PATIENCE, at_once, connect, connections, durable, is_up, message, subscribe, topic, vhost,
};

/// Handlers that hold what they are given until they are let go, one at a time.
struct Holding {
    running: Arc<AtomicUsize>,
    ends: Arc<Semaphore>,
}

impl Holding {
    fn new() -> Self {
        Self { running: Arc::default(), ends: Arc::new(Semaphore::new(0)) }
    }

    fn handler(&self) -> Arc<impl Handler> {
        let (running, ends) = (Arc::clone(&self.running), Arc::clone(&self.ends));
        Arc::new(move |_: Delivery| {
            let (running, ends) = (Arc::clone(&running), Arc::clone(&ends));
            async move {
                running.fetch_add(1, Ordering::Relaxed);
                ends.acquire().await.unwrap().forget();
                running.fetch_sub(1, Ordering::Relaxed);
                Disposition::Ack
            }
        })
    }

    async fn run(&self, count: usize) {
        eventually(PATIENCE, async || match self.running.load(Ordering::Relaxed) {
            running if running == count => Ok(()),
            running => Err(format!("{running} run")),
        })
        .await;
    }
}

/// Waits until so many messages are in the queue, of which so many are handed out.
async fn queue_has(vhost: &Vhost, messages: u64, handed_out: u64) {
    eventually(PATIENCE, async || {
        let queue = vhost.queue("rockbot.q").await.unwrap().unwrap();
        let has = (queue.messages, queue.messages_unacknowledged);
        if has == (messages, handed_out) { Ok(()) } else { Err(has) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn as_many_are_handed_out_as_there_are_handlers() {
    let vhost = vhost!();
    let bus = connect(&vhost.amqp_url()).await;
    let holding = Holding::new();
    let consumer = subscribe(&bus, durable("q", "t", at_once(32)), &holding.handler()).await;

    for _ in 0..40 {
        bus.publish(&topic("t"), message("work")).await.unwrap();
    }
    holding.run(32).await;
    queue_has(&vhost, 40, 32).await;

    holding.ends.add_permits(3);
    queue_has(&vhost, 37, 32).await;
    holding.ends.add_permits(37);
    queue_has(&vhost, 0, 0).await;

    consumer.stop(PATIENCE).await;
    bus.close(Duration::ZERO).await;
}

/// Handlers of a channel that was lost still run, and what comes meanwhile finds no others. Their
/// queue has a consumer all the same, and what is handed out is handled.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handlers_of_a_lost_channel_count() {
    let vhost = vhost!();
    let bus = connect(&vhost.amqp_url()).await;
    let holding = Holding::new();
    let consumer = subscribe(&bus, durable("q", "t", at_once(4)), &holding.handler()).await;
    for _ in 0..6 {
        bus.publish(&topic("t"), message("work")).await.unwrap();
    }
    holding.run(4).await;
    queue_has(&vhost, 6, 4).await;

    connections(&vhost).await;
    vhost.close_connections().await.unwrap();
    // One is handed out to show that somebody is there. It waits for a handler.
    queue_has(&vhost, 6, 1).await;
    is_up(&bus).await;
    quiet_for(Duration::from_millis(500), async || match holding.running.load(Ordering::Relaxed) {
        4 => Ok(()),
        running => Err(running),
    })
    .await;
    queue_has(&vhost, 6, 1).await;

    // And again, while it waits.
    connections(&vhost).await;
    vhost.close_connections().await.unwrap();
    is_up(&bus).await;
    queue_has(&vhost, 6, 1).await;

    // Each that ends makes room for one of the new channel: of the two, one was handed out before.
    holding.ends.add_permits(2);
    queue_has(&vhost, 6, 2).await;
    holding.run(4).await;
    holding.ends.add_permits(2);
    eventually(PATIENCE, async || {
        let queue = vhost.queue("rockbot.q").await.unwrap().unwrap();
        let handed_out = queue.messages_unacknowledged;
        if handed_out == 4 { Ok(()) } else { Err(queue) }
    })
    .await;
    holding.run(4).await;

    holding.ends.add_permits(6);
    queue_has(&vhost, 0, 0).await;
    consumer.stop(PATIENCE).await;
    bus.close(Duration::ZERO).await;
}
