//! New envelopes, replies, and which trace parents are any.

use super::*;
use crate::header;
use crate::message::tool::{ToolInvokeRequest, ToolInvokeResponse};

const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

fn is_guid(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

#[test]
fn a_new_envelope_has_an_id_and_a_time_of_its_own() {
    let before = now();
    let one = Envelope::of(&ToolInvokeRequest::default(), "RockBot");
    let other = Envelope::of(&ToolInvokeRequest::default(), "RockBot");
    assert!(is_guid(&one.message_id), "{}", one.message_id);
    assert_ne!(one.message_id, other.message_id);
    assert!((before..=now()).contains(&one.timestamp));
    assert_eq!(one.message_type, "RockBot.Tools.ToolInvokeRequest");
    assert_eq!(one.source, "RockBot");
}

#[test]
fn a_reply_carries_correlation_and_trace_and_nothing_else_of_the_request() {
    let mut request = Envelope::of(&ToolInvokeRequest::default(), "RockBot")
        .with_correlation_id("c1")
        .with_reply_to(Topic::parse("tool.result.RockBot").unwrap())
        .with_header(header::TIMEOUT_MS, "60000")
        .with_trace(TraceContext::parse(TRACE, Some("a=b")))
        .with_expiry(Duration::from_secs(60));
    request.destination = Some("worker".to_owned());
    let reply = request.reply(&ToolInvokeResponse::default(), "worker");
    assert_eq!(
        reply,
        Envelope {
            message_id: reply.message_id.clone(),
            timestamp: reply.timestamp,
            message_type: "RockBot.Tools.ToolInvokeResponse".to_owned(),
            correlation_id: Some("c1".to_owned()),
            reply_to: None,
            source: "worker".to_owned(),
            destination: None,
            headers: Headers::new(),
            trace: TraceContext::parse(TRACE, Some("a=b")),
            expires_after: None,
            body: json::write(&ToolInvokeResponse::default()),
        }
    );
    assert_ne!(reply.message_id, request.message_id);
}

#[test]
fn the_debug_form_shows_no_secret() {
    let envelope = Envelope::new("T", "s", Bytes::from_static(b"hunter2"))
        .with_header(header::CONTENT_TRUST, "hunter2");
    let shown = format!("{envelope:?}");
    assert!(!shown.contains("hunter2"), "{shown}");
    assert!(shown.contains("rb-content-trust") && shown.contains("body_bytes: 7"), "{shown}");
}

#[test]
fn only_a_well_formed_trace_parent_of_version_00_is_one() {
    assert_eq!(TraceContext::parse(TRACE, None).unwrap().traceparent(), TRACE);
    assert_eq!(TraceContext::parse(TRACE, Some("")).unwrap().tracestate(), None);

    for bad in [
        "",
        "garbage",
        "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b716920333-01",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-1",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x",
        "00-0af7651916cd43dd8448eb211c80319g-b7ad6b7169203331-01",
        "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0A",
        "00-00000000000000000000000000000000-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0é",
    ] {
        assert_eq!(TraceContext::parse(bad, None), None, "{bad:?}");
    }
}
