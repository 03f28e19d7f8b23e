//! A broker of several nodes, and quorum queues.

use std::collections::BTreeSet;
use std::time::Duration;

use toolbus_bus::{Bus as _, Disposition, Health};
use toolbus_testkit::eventually;
use toolbus_testkit::rabbit::{Cluster, Vhost};

use crate::support::{
    PATIENCE, Recorder, at_once, cluster, connect, connections, dead_letters, durable, is_up,
    message, node, private, single_active, subscribe, topic,
};
use crate::traffic::Traffic;

/// Messages that wait while a node goes.
const BACKLOG: usize = 200;

/// Publishes to a queue that has no consumer now.
async fn fill(urls: &str) {
    let bus = connect(urls).await;
    let consumer =
        subscribe(&bus, durable("backlog", "backlog", at_once(1)), &Recorder::acking()).await;
    consumer.stop(Duration::from_secs(1)).await;

    for number in 0..BACKLOG {
        bus.publish(&topic("backlog"), message(&number.to_string())).await.unwrap();
    }
    bus.close(Duration::from_secs(1)).await;
}

/// Takes what waits, and compares: all of it is there, and nothing was delivered before.
async fn compare_backlog(urls: &str) {
    let bus = connect(urls).await;
    let handler = Recorder::acking();
    let _consumer = subscribe(&bus, durable("backlog", "backlog", at_once(8)), &handler).await;

    let seen = handler.received(BACKLOG).await;
    let texts: BTreeSet<_> = handler.texts().into_iter().collect();
    assert_eq!((seen.len(), texts.len()), (BACKLOG, BACKLOG));
    let redelivered = seen.iter().filter(|delivery| delivery.redelivered).count();
    assert_eq!(redelivered, 0, "of {BACKLOG} that were never delivered");
    bus.close(Duration::from_secs(1)).await;
}

async fn home_of(vhost: &Vhost, cluster: &Cluster, queue: &str) -> usize {
    let queue = vhost.queue(queue).await.unwrap().unwrap();
    cluster.position(&queue.node).unwrap()
}

/// The durable queues are quorum queues, the private ones cannot be, and all else is as before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_vhost_may_make_quorum_queues() {
    let node = node!();
    let vhost = node.quorum_vhost().await.unwrap();
    let bus = connect(&vhost.amqp_url()).await;
    let own = "mcp.server.RockBot.files";

    let handler = Recorder::answering(|delivery| match delivery.envelope.body.as_ref() {
        b"no use" => Disposition::DeadLetter { reason: "no use".into() },
        _ => Disposition::Ack,
    });
    // Twice: the queue is there the second time, with the argument that the broker added.
    for _ in 0..2 {
        let work = subscribe(&bus, durable("work", "work", at_once(4)), &handler).await;
        let bounded = subscribe(&bus, single_active(own, own, at_once(4)), &handler).await;
        for consumer in [work, bounded] {
            consumer.stop(Duration::from_secs(1)).await;
        }
    }
    let _work = subscribe(&bus, durable("work", "work", at_once(4)), &handler).await;
    let _bounded = subscribe(&bus, single_active(own, own, at_once(4)), &handler).await;
    let _private = subscribe(&bus, private("replies", "reply"), &handler).await;

    for queue in vhost.queues().await.unwrap() {
        let expected = if queue.name == "rockbot.replies" { "classic" } else { "quorum" };
        assert_eq!(queue.kind, expected, "{queue:?}");
    }

    for to in ["work", own, "reply"] {
        bus.publish(&topic(to), message(to)).await.unwrap();
    }
    bus.publish(&topic("work"), message("no use")).await.unwrap();
    assert_eq!(handler.received(4).await.len(), 4);
    dead_letters(&vhost, "rockbot.work.dlq", 1).await;
    bus.close(Duration::from_secs(1)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waits_in_a_quorum_queue_is_not_redelivered_after_a_crash() {
    let mut node = node!();
    let vhost = node.quorum_vhost().await.unwrap();
    fill(&vhost.amqp_url()).await;

    node.crash().await.unwrap();
    node.start_again().await.unwrap();

    compare_backlog(&vhost.amqp_url()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bus_outlives_its_node() {
    let mut cluster = cluster!();
    let vhost = cluster.vhost().await.unwrap();
    let urls = vhost.amqp_url();
    fill(&urls).await;
    let bus = connect(&urls).await;
    let (work, replies) = (Recorder::acking(), Recorder::acking());
    let _work = subscribe(&bus, durable("work", "work", at_once(8)), &work).await;
    let _replies = subscribe(&bus, private("replies", "reply"), &replies).await;

    let traffic = Traffic::start(&bus, "work", &work);
    traffic.confirmed_beyond(100).await;
    let crashed = connected_node(&vhost, &cluster).await;
    cluster.node(crashed).crash().await.unwrap();
    let now = another_node(&vhost, &cluster, crashed).await;
    is_up(&bus).await;
    let before = traffic.confirmed();
    traffic.confirmed_beyond(before + 100).await;
    assert!(traffic.failures() > 0, "the crash was not noticed");
    cluster.node(crashed).start_again().await.unwrap();
    cluster.wait_until_whole().await.unwrap();

    // Cut off, a node closes its connections and takes no more.
    cluster.cut_off(now).await.unwrap();
    another_node(&vhost, &cluster, now).await;
    is_up(&bus).await;
    let before = traffic.confirmed();
    traffic.confirmed_beyond(before + 100).await;
    cluster.heal(now).await.unwrap();
    cluster.wait_until_whole().await.unwrap();
    traffic.stop_and_compare().await;

    eventually(PATIENCE, async || bus.publish(&topic("reply"), message("there")).await).await;
    replies.received(1).await;
    bus.close(Duration::from_secs(1)).await;

    // The node that led the queue when the messages came.
    let home = home_of(&vhost, &cluster, "rockbot.backlog").await;
    cluster.node(home).crash().await.unwrap();
    compare_backlog(&urls).await;
}

async fn connected_node(vhost: &Vhost, cluster: &Cluster) -> usize {
    connections(vhost).await;
    let nodes = vhost.connected_nodes().await.unwrap();
    cluster.position(&nodes[0]).unwrap()
}

/// The node that the only connection leads to, once that is another one.
async fn another_node(vhost: &Vhost, cluster: &Cluster, old: usize) -> usize {
    eventually(PATIENCE, async || {
        let nodes = vhost.connected_nodes().await.map_err(|error| format!("{error:?}"))?;
        let places: Vec<_> = nodes.iter().filter_map(|name| cluster.position(name)).collect();
        match places.iter().find(|place| **place != old) {
            Some(place) => Ok(*place),
            None => Err(format!("{nodes:?}")),
        }
    })
    .await
}

/// A classic queue lives on one node. Without it, the rest of the bus goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_durable_queue_whose_node_is_down_is_waited_for() {
    let mut cluster = cluster!();
    let vhost = cluster.classic_vhost().await.unwrap();
    let subscription = durable("work", "work", at_once(4));
    let first = connect(&cluster.nodes()[0].broker().amqp_url(vhost.name())).await;
    let consumer = subscribe(&first, subscription.clone(), &Recorder::acking()).await;
    consumer.stop(Duration::from_secs(1)).await;
    first.publish(&topic("work"), message("waits")).await.unwrap();
    first.close(Duration::from_secs(1)).await;
    assert_eq!(home_of(&vhost, &cluster, "rockbot.work").await, 0);
    cluster.node(0).crash().await.unwrap();

    let bus = connect(&vhost.amqp_url()).await;
    let (work, other) = (Recorder::acking(), Recorder::acking());
    let _work = subscribe(&bus, subscription, &work).await;
    let Health::Down { reason } = bus.health() else { panic!("{:?}", bus.health()) };
    assert!(reason.contains("work") && reason.contains("is down or inaccessible"), "{reason}");
    let _other = subscribe(&bus, durable("other", "other", at_once(4)), &other).await;
    bus.publish(&topic("other"), message("on")).await.unwrap();
    other.received(1).await;

    cluster.node(0).start_again().await.unwrap();
    is_up(&bus).await;
    bus.publish(&topic("work"), message("comes")).await.unwrap();
    work.received(2).await;
    bus.close(Duration::from_secs(1)).await;
}
