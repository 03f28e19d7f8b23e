//! What is declared at the broker: exactly what the C# code declares, so that either may come
//! first.

use std::time::Duration;

use lapin::ExchangeKind;
use lapin::options::ExchangeDeclareOptions;
use lapin::types::FieldTable;
use serde_json::{Map, Value, json};
use toolbus_bus::{Bus as _, Health, SubscribeError};
use toolbus_rabbitmq::{QueueProfile, RabbitBus};
use toolbus_testkit::rabbit::{Binding, Queue, Vhost};
use toolbus_wire::queue as wire_queue;

use crate::support::{
    Plain, Recorder, at_once, config, connect, durable, in_order, message, private, single_active,
    subscribe, topic, vhost,
};

async fn queue(vhost: &Vhost, name: &str) -> Queue {
    vhost.queue(name).await.unwrap().unwrap_or_else(|| panic!("there is no queue {name}"))
}

fn object(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

async fn bindings(vhost: &Vhost) -> Vec<Binding> {
    let mut bindings = vhost.bindings().await.unwrap();
    bindings.sort_by(|one, other| one.source.cmp(&other.source));
    bindings
}

fn binding(source: &str, destination: &str, key: &str) -> Binding {
    Binding { source: source.into(), destination: destination.into(), routing_key: key.into() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_durable_subscription_declares_what_the_csharp_code_declares() {
    let vhost = vhost!();
    let bus = connect(&vhost.amqp_url()).await;
    let handler = Recorder::acking();
    let _consumer = subscribe(&bus, durable("agent.in", "agent.*", at_once(4)), &handler).await;

    let main = queue(&vhost, "rockbot.agent.in").await;
    assert!(main.durable && !main.exclusive && !main.auto_delete, "{main:?}");
    let arguments =
        json!({"x-dead-letter-exchange": "rockbot.dlx", "x-dead-letter-routing-key": "agent.*"});
    assert_eq!(main.arguments, object(arguments));
    let dead_letters = queue(&vhost, "rockbot.agent.in.dlq").await;
    assert!(dead_letters.durable && !dead_letters.exclusive && !dead_letters.auto_delete);
    assert!(dead_letters.arguments.is_empty(), "{dead_letters:?}");
    assert_eq!(
        bindings(&vhost).await,
        [
            binding("rockbot", "rockbot.agent.in", "agent.*"),
            binding("rockbot.dlx", "rockbot.agent.in.dlq", "agent.*"),
        ]
    );
    assert_eq!(vhost.queues().await.unwrap().len(), 2);

    // To declare an exchange again with the same type and durability is no error, with others it
    // is.
    let plain = Plain::connect(&vhost.amqp_url()).await;
    for exchange in ["rockbot", "rockbot.dlx"] {
        let durable = ExchangeDeclareOptions { durable: true, ..Default::default() };
        plain
            .channel
            .exchange_declare(exchange.into(), ExchangeKind::Topic, durable, FieldTable::default())
            .await
            .unwrap();
    }

    bus.close(Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_newer_profile_bounds_dead_letters() {
    let vhost = vhost!();
    let mut config = config(&vhost.amqp_url());
    config.queue_profile = QueueProfile::UpstreamN;
    let bus = RabbitBus::connect(config).await.unwrap();
    let _consumer =
        subscribe(&bus, durable("n", "n.topic", in_order(4)), &Recorder::acking()).await;

    let arguments = json!({
        "x-message-ttl": 259_200_000, "x-max-length": 10_000,
        "x-max-length-bytes": 268_435_456, "x-overflow": "drop-head",
    });

    assert_eq!(queue(&vhost, "rockbot.n.dlq").await.arguments, object(arguments));
    let main =
        json!({"x-dead-letter-exchange": "rockbot.dlx", "x-dead-letter-routing-key": "n.topic"});
    assert_eq!(queue(&vhost, "rockbot.n").await.arguments, object(main));
    bus.close(Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_single_active_subscription_has_bounds_and_an_end() {
    let vhost = vhost!();
    let bus = connect(&vhost.amqp_url()).await;
    let name = "mcp.server.RockBot.files";
    let handler = Recorder::acking();
    let _consumer = subscribe(&bus, single_active(name, name, at_once(4)), &handler).await;

    let arguments = json!({
        "x-max-length": 10_000, "x-max-length-bytes": 64 << 20, "x-overflow": "reject-publish",
        "x-expires": 600_000, "x-single-active-consumer": true,
    });

    assert_eq!(queue(&vhost, &wire_queue::queue(name)).await.arguments, object(arguments));
    assert_eq!(vhost.queues().await.unwrap().len(), 1, "it has no dead letters");
    bus.close(Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_private_subscription_has_a_bounded_queue_that_ends_with_it() {
    let vhost = vhost!();
    let bus = connect(&vhost.amqp_url()).await;
    let consumer = subscribe(&bus, private("replies", "reply.me"), &Recorder::acking()).await;

    let own = queue(&vhost, "rockbot.replies").await;
    assert!(!own.durable && own.exclusive && own.auto_delete, "{own:?}");
    let arguments = json!({
        "x-max-length": 10_000, "x-max-length-bytes": 64 << 20, "x-overflow": "reject-publish",
    });

    assert_eq!(own.arguments, object(arguments));
    assert_eq!(bindings(&vhost).await, [binding("rockbot", "rockbot.replies", "reply.me")]);

    consumer.stop(Duration::ZERO).await;
    assert!(vhost.queues().await.unwrap().is_empty());
    bus.close(Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_there_with_other_arguments_is_used_as_it_is() {
    let vhost = vhost!();
    let plain = Plain::connect(&vhost.amqp_url()).await;

    for exchange in ["rockbot", "rockbot.dlx"] {
        let (transient, none) = (ExchangeDeclareOptions::default(), FieldTable::default());
        let declared = plain
            .channel
            .exchange_declare(exchange.into(), ExchangeKind::Topic, transient, none)
            .await;
        declared.unwrap();
    }

    let main = json!({"x-max-length": 7});
    let dead_letters = json!({"x-message-ttl": 1_000_000});

    for (name, arguments) in [("rockbot.old", &main), ("rockbot.old.dlq", &dead_letters)] {
        let description = json!({"durable": true, "arguments": arguments});
        vhost.declare_queue(name, description).await.unwrap();
    }

    let bus = connect(&vhost.amqp_url()).await;
    let handler = Recorder::answering(|delivery| match &delivery.envelope.body[..] {
        b"good" => toolbus_bus::Disposition::Ack,
        _ => toolbus_bus::Disposition::DeadLetter { reason: "bad".into() },
    });

    let _consumer = subscribe(&bus, durable("old", "old.topic", at_once(2)), &handler).await;

    for text in ["good", "bad"] {
        bus.publish(&topic("old.topic"), message(text)).await.unwrap();
    }

    handler.received(2).await;
    toolbus_testkit::eventually(crate::support::PATIENCE, async || {
        let letters = vhost.peek("rockbot.old.dlq", 2).await.unwrap();
        if letters.len() == 1 { Ok(()) } else { Err(letters) }
    })
    .await;
    assert_eq!(queue(&vhost, "rockbot.old").await.arguments, object(main));
    assert_eq!(queue(&vhost, "rockbot.old.dlq").await.arguments, object(dead_letters));
    assert_eq!(bus.health(), Health::Up);
    bus.close(Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_is_no_queue_of_ours_is_refused() {
    let vhost = vhost!();
    let bus = connect(&vhost.amqp_url()).await;
    let handler = Recorder::acking();
    let long = "x".repeat(300);
    let refused = bus.subscribe(durable(&long, "t", at_once(1)), handler.clone()).await;
    assert!(matches!(refused, Err(SubscribeError::Refused { .. })), "{refused:?}");

    // A private queue is never one that others share.
    vhost.declare_queue("rockbot.shared", json!({"durable": true})).await.unwrap();
    let refused = bus.subscribe(private("shared", "t"), handler).await;
    assert!(matches!(refused, Err(SubscribeError::Refused { .. })), "{refused:?}");
    assert_eq!(bus.health(), Health::Up, "a refused subscription is nobody's trouble");
    bus.close(Duration::ZERO).await;
}
