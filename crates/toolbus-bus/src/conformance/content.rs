//! What is in a message stays as it is.

use std::time::Duration;

use bytes::Bytes;
use toolbus_wire::{Envelope, TraceContext, header};

use super::probe::Seen;
use super::stage::{Stage, at_once, in_order, message};
use crate::Delivery;

/// Every member of the envelope arrives as it was sent, those that are not set included.
pub(super) async fn every_member_arrives_unchanged(stage: Stage) {
    let (publisher, bus) = (stage.bus().await, stage.bus().await);
    let probe = stage.acks();
    let _consumer = stage.subscribe(&bus, stage.durable("q", "a.#", in_order(8)), &probe).await;
    let topic = stage.topic("a.b.c");

    let bare = message("{}");
    let full = full_envelope(&stage);

    for envelope in [bare, full] {
        stage.publish(&publisher, &topic, envelope.clone()).await;
        let delivery = last(&probe.received(1).await);
        assert_same(&delivery.envelope, &envelope);
        assert_eq!(delivery.topic, topic);
        assert!(!delivery.redelivered, "it was handed out for the first time");
        probe.forget();
    }
}

/// The bus never looks into a body.
pub(super) async fn any_body_arrives_unchanged(stage: Stage) {
    let (publisher, bus) = (stage.bus().await, stage.bus().await);
    let probe = stage.acks();
    let _consumer = stage.subscribe(&bus, stage.durable("q", "body", at_once(1)), &probe).await;
    let topic = stage.topic("body");

    let mebibyte: Vec<u8> =
        (0..1_u32 << 20).map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
    let bodies: [Bytes; 6] = [
        Bytes::new(),
        Bytes::from_static(b"\0"),
        Bytes::from_static(b"\xff\xfe not UTF-8 \xc3\x28"),
        Bytes::from_static("{\"text\":\"☃\\u0022\"}".as_bytes()),
        Bytes::from_static(b"not JSON"),
        mebibyte.into(),
    ];

    for body in bodies {
        let mut envelope = message("");
        envelope.body = body.clone();
        stage.publish(&publisher, &topic, envelope).await;
        let got = last(&probe.received(1).await).envelope.body;
        assert!(got == body, "a body of {} bytes came as one of {}", body.len(), got.len());
        probe.forget();
    }
}

/// Where the publisher has no span of its own, the trace that the envelope names goes through.
pub(super) async fn a_trace_context_is_carried_unchanged(stage: Stage) {
    let (publisher, bus) = (stage.bus().await, stage.bus().await);
    let probe = stage.acks();
    let _consumer = stage.subscribe(&bus, stage.durable("q", "traced", at_once(1)), &probe).await;

    let sampled = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let dropped = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

    for (parent, state) in [(sampled, Some("congo=t61rcWkgMzE,rojo=00f067")), (dropped, None)] {
        let trace = TraceContext::parse(parent, state);
        assert!(trace.is_some(), "the suite's own example is well formed");
        let envelope = message("traced").with_trace(trace.clone());
        stage.publish(&publisher, &stage.topic("traced"), envelope).await;
        assert_eq!(last(&probe.received(1).await).envelope.trace, trace);
        probe.forget();
    }
}

fn full_envelope(stage: &Stage) -> Envelope {
    let trace = TraceContext::parse(
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        Some("vendor=value"),
    );
    let mut envelope = message("{\"toolCallId\":\"1\"}")
        .with_correlation_id("call ☃ \"1\"")
        .with_reply_to(stage.topic("reply.☃"))
        .with_trace(trace)
        // Long enough that it does not expire here.
        .with_expiry(Duration::from_secs(3_600))
        .with_header(header::CONTENT_TRUST, "tool-request")
        .with_header(header::TIMEOUT_MS, "60000")
        .with_header(header::MCP_SERVER, "a server's name, ☃")
        .with_header("Name-With-Case", "A")
        .with_header("name-with-case", "b")
        .with_header("name with space", " value with space ")
        .with_header("rb-begins-as-ours-do", "1")
        .with_header("rb-rb-doubled", "2")
        .with_header("line", "one\ntwo\r\n\tthree")
        .with_header("long", "x".repeat(8 << 10));
    envelope.destination = Some("Réceptionniste".to_owned());
    "id of another form".clone_into(&mut envelope.message_id);
    "Some.Other.Type, with a comma".clone_into(&mut envelope.message_type);
    "Quelle & Söhne".clone_into(&mut envelope.source);

    // A moment that is not now, so that a broker's own clock would show.
    envelope.timestamp = 1_234_567_890;
    envelope
}

fn last(seen: &[Seen]) -> Delivery {
    let last = seen.last().expect("the probe has received one");
    last.delivery.clone()
}

/// Compares every member; of the headers what is there, not their order, which AMQP does not keep.
pub(super) fn assert_same(got: &Envelope, sent: &Envelope) {
    // With all members named, the compiler asks for those that are yet to come.
    let Envelope {
        message_id,
        message_type,
        correlation_id,
        reply_to,
        source,
        destination,
        timestamp,
        headers,
        trace,
        expires_after,
        body,
    } = sent;

    assert_eq!(&got.message_id, message_id, "message id");
    assert_eq!(&got.message_type, message_type, "message type");
    assert_eq!(&got.correlation_id, correlation_id, "correlation id");
    assert_eq!(&got.reply_to, reply_to, "reply topic");
    assert_eq!(&got.source, source, "source");
    assert_eq!(&got.destination, destination, "destination");
    assert_eq!(&got.timestamp, timestamp, "timestamp");
    let sorted = |headers: &header::Headers| {
        let mut all: Vec<_> =
            headers.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        all.sort();
        all
    };

    assert_eq!(sorted(&got.headers), sorted(headers), "headers");
    assert_eq!(&got.trace, trace, "trace context");
    assert_eq!(&got.expires_after, expires_after, "expiry");
    assert!(got.body == *body, "the body of {} bytes came as {}", body.len(), got.body.len());
}
