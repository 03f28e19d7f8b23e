//! What a responder holds of large requests.

use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use toolbus_bus::Bus as _;
use toolbus_bus::port::BODY_BYTES_MAX;
use toolbus_testkit::eventually;
use toolbus_wire::message::tool::ToolError;

use crate::held::{Held, request, start_requester};
use crate::support::{PATIENCE, connect, topic, vhost};

/// The broker counts messages only, and hands out all of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_requests_past_the_room_are_refused_before_they_begin() {
    const LARGEST: usize = 16;
    let vhost = vhost!();
    let url = vhost.amqp_url();
    let (workers, callers) = (connect(&url).await, connect(&url).await);
    let held = Held::new();
    let responder = held.start(workers.clone(), 64).await;
    let requester = start_requester(callers.clone()).await;

    let work = topic("work");
    // The last one is small, and needs no room.
    let mut sizes = vec![BODY_BYTES_MAX; LARGEST];
    sizes.push(0);
    let names: Vec<_> = (0..=LARGEST).map(|number| format!("call {number}")).collect();
    let mut asked = FuturesUnordered::new();
    for (name, bytes) in names.iter().zip(sizes) {
        asked.push(requester.request(request(&work, name, bytes)));
        tokio::select! {
            () = held.wait_started(1) => {}
            end = asked.next() => panic!("{end:?}"),
        }
    }

    let refused = request(&work, "refused", BODY_BYTES_MAX);
    let reply = tokio::select! {
        reply = requester.request(refused) => reply.unwrap(),
        end = asked.next() => panic!("{end:?}"),
    };
    let error: ToolError = serde_json::from_slice(&reply.body).unwrap();
    assert_eq!(error.message, "Busy");

    // There is room for a large one once the others are done.
    held.release.cancel();
    while let Some(end) = asked.next().await {
        end.unwrap();
    }
    eventually(PATIENCE, async || {
        let later = request(&work, "later", BODY_BYTES_MAX);
        let reply = requester.request(later).await.unwrap();
        let error: ToolError = serde_json::from_slice(&reply.body).unwrap();
        if error.message == "Crashed" { Ok(()) } else { Err(error) }
    })
    .await;

    responder.stop(PATIENCE).await;
    requester.close().await;
    for bus in [workers, callers] {
        bus.close(Duration::from_secs(1)).await;
    }
}
