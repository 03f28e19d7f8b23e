//! What a subscription is handed at once, in messages and in bytes.

use std::num::NonZeroU16;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Semaphore;
use toolbus_bus::port::{BODY_BYTES_MAX, Flow, HELD_BYTES_MAX, WINDOW_MAX};
use toolbus_bus::{Bus as _, Delivery, Disposition, Envelope, Handler};
use toolbus_testkit::eventually;

use crate::support::{PATIENCE, at_once, connect, durable, message, subscribe, topic, vhost};

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
        Arc::new(move |delivery: Delivery| {
            let (running, ends) = (Arc::clone(&running), Arc::clone(&ends));
            async move {
                running.fetch_add(1, Ordering::Relaxed);
                ends.acquire().await.unwrap().forget();
                running.fetch_sub(1, Ordering::Relaxed);
                drop(delivery);
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

/// The broker counts messages only. What it hands out at once is few, and more of it comes only
/// while little is held.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_messages_are_bounded_in_bytes() {
    let vhost = vhost!();
    let bus = connect(&vhost.amqp_url()).await;
    let holding = Holding::new();
    let _consumer = subscribe(&bus, durable("q", "t", at_once(32)), &holding.handler()).await;
    let ready = async |count: u64| {
        eventually(PATIENCE, async || {
            let queue = vhost.queue("rockbot.q").await.unwrap().unwrap();
            let ready = queue.messages - queue.messages_unacknowledged;
            if ready == count { Ok(()) } else { Err(queue) }
        })
        .await;
    };

    let body = Bytes::from(vec![b'x'; HELD_BYTES_MAX / usize::from(WINDOW_MAX) + 1]);
    for _ in 0..20 {
        bus.publish(&topic("t"), Envelope::new("Toolbus.Test", "test", body.clone()))
            .await
            .unwrap();
    }
    holding.run(16).await;
    ready(4).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    holding.run(16).await;

    // What ends makes room for as many, and no more.
    holding.ends.add_permits(3);
    ready(1).await;
    holding.run(16).await;
    holding.ends.add_permits(17);
    eventually(PATIENCE, async || {
        match vhost.queue("rockbot.q").await.unwrap().unwrap().messages {
            0 => Ok(()),
            left => Err(left),
        }
    })
    .await;

    // Small ones run all at the same time.
    for _ in 0..40 {
        bus.publish(&topic("t"), message("small")).await.unwrap();
    }
    holding.run(32).await;
    ready(8).await;
    bus.close(Duration::ZERO).await;
}

#[test]
fn a_flow_says_how_many_bytes_it_may_hold() {
    let permits = |count| NonZeroU16::new(count).unwrap();
    let check = |flow: Flow, bytes| assert_eq!(flow.bytes_max(), bytes, "{flow:?}");
    check(Flow::Ordered { prefetch: permits(16) }, 16 * BODY_BYTES_MAX);
    check(Flow::Concurrent(permits(1)), BODY_BYTES_MAX);
    check(Flow::Concurrent(permits(16)), 16 * BODY_BYTES_MAX);
    check(Flow::Concurrent(permits(17)), 17 * BODY_BYTES_MAX);
    check(Flow::Concurrent(permits(256)), 16 * BODY_BYTES_MAX + HELD_BYTES_MAX);
}
