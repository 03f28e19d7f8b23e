//! Stops while the broker takes no messages: they keep to their grace.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio_util::task::TaskTracker;
use toolbus_bus::requester::Error;
use toolbus_bus::{Bus, Health};
use toolbus_testkit::eventually;

use crate::held::{Held, request, start_requester};
use crate::support::{PATIENCE, connect, node, topic};

const SECOND: Duration = Duration::from_secs(1);

async fn is_blocked(bus: &dyn Bus) {
    eventually(PATIENCE, async || match bus.health() {
        Health::Blocked { .. } => Ok(()),
        other => Err(other),
    })
    .await;
}

async fn ends_within(what: &str, limit: Duration, end: impl Future<Output = ()>) {
    let begin = Instant::now();
    end.await;
    let took = begin.elapsed();
    assert!(took < limit, "{what} took {took:?}, over {limit:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_under_an_alarm_keeps_to_its_grace() {
    let node = node!();
    let vhost = node.vhost().await.unwrap();
    let url = vhost.amqp_url();
    let (workers, callers) = (connect(&url).await, connect(&url).await);
    let service = Held::new();
    let responder = service.start(workers.clone(), 64).await;
    let requester = start_requester(callers.clone()).await;

    let names: Vec<_> = ["released", "held"]
        .iter()
        .flat_map(|kind| (0..20).map(move |number| format!("{kind} {number}")))
        .collect();
    let asking = {
        let requester = requester.clone();
        TaskTracker::new().spawn(async move {
            let work = topic("work");
            let calls = names.iter().map(|name| requester.request(request(&work, name, 0)));
            join_all(calls).await
        })
    };
    service.wait_started(40).await;

    // Both ends publish while a call runs, and hear so of the alarm.
    node.block_publishers().await.unwrap();
    is_blocked(&*workers).await;
    is_blocked(&*callers).await;
    service.release.cancel();

    let grace = 3 * SECOND;
    ends_within("the responder", grace + 2 * SECOND, responder.stop(grace)).await;
    ends_within("the requester", 2 * SECOND, requester.close()).await;
    let ends = asking.await.unwrap();
    assert!(ends.iter().all(|end| *end == Err(Error::Closed)), "{ends:?}");

    ends_within("the workers' bus", 2 * SECOND, workers.close(SECOND)).await;
    ends_within("the callers' bus", 2 * SECOND, callers.close(SECOND)).await;
}
