//! The two ways between envelopes and frames, and what strangers may send.

use proptest::prelude::*;

use super::*;

const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

fn text_header<'a>(name: &'a str, value: &'a str) -> (Cow<'a, str>, HeaderValue<'a>) {
    long_text(name, value)
}

fn read(headers: Vec<(Cow<'_, str>, HeaderValue<'_>)>) -> Envelope {
    Envelope::from_frame(Frame { headers, ..Frame::default() })
}

#[test]
fn an_empty_frame_reads_as_the_defaults() {
    let before = envelope::now();
    let read = Envelope::from_frame(Frame::default());
    assert_eq!(read.message_id.len(), 32);
    assert!(read.timestamp >= before);
    assert_eq!(
        read,
        Envelope {
            message_id: read.message_id.clone(),
            message_type: "unknown".to_owned(),
            correlation_id: None,
            reply_to: None,
            source: "unknown".to_owned(),
            destination: None,
            timestamp: read.timestamp,
            headers: Headers::new(),
            trace: None,
            expires_after: None,
            body: Bytes::new(),
        }
    );
}

#[test]
fn empty_texts_and_a_time_of_zero_are_absent() {
    let empty = Some(Cow::Borrowed(""));
    let read = Envelope::from_frame(Frame {
        properties: Properties {
            content_type: empty.clone(),
            delivery_mode: None,
            correlation_id: empty.clone(),
            reply_to: empty.clone(),
            expiration: empty.clone(),
            message_id: empty.clone(),
            timestamp: Some(0),
            message_type: empty,
        },
        headers: vec![
            text_header("rb-source", ""),
            text_header("rb-destination", ""),
            text_header("rb-traceparent", ""),
        ],
        body: Bytes::new(),
    });

    assert_eq!(read.message_id.len(), 32);
    assert_ne!(read.timestamp, 0);
    assert_eq!((read.message_type.as_str(), read.source.as_str()), ("unknown", "unknown"));
    assert_eq!((read.correlation_id, read.reply_to, read.destination), (None, None, None));
    assert_eq!((read.trace, read.expires_after), (None, None));
}

#[test]
fn a_reply_topic_that_is_none_is_left_out() {
    let long = "x".repeat(256);
    let properties = Properties { reply_to: Some(Cow::Borrowed(&long)), ..Properties::default() };
    let read = Envelope::from_frame(Frame { properties, ..Frame::default() });
    assert_eq!(read.reply_to, None);
}

#[test]
fn both_spellings_are_read_and_the_doubled_one_wins() {
    let single = text_header("rb-mcp-server", "single");
    let doubled = text_header("rb-rb-mcp-server", "doubled");
    for (headers, expected) in [
        (vec![single.clone()], "single"),
        (vec![doubled.clone()], "doubled"),
        (vec![single.clone(), doubled.clone()], "doubled"),
        (vec![doubled, single], "doubled"),
    ] {
        let read = read(headers);
        assert_eq!(read.headers, Headers::new().with(header::MCP_SERVER, expected));
    }
}

#[test]
fn headers_that_are_no_long_string_of_utf_8_are_dropped() {
    let not_utf_8 = || HeaderValue::LongString(Cow::Borrowed(&[0xff, 0xfe]));
    let read = read(vec![
        ("rb-rb-timeout-ms".into(), HeaderValue::Other),
        text_header("rb-timeout-ms", "5"),
        ("rb-rb-mcp-server".into(), not_utf_8()),
        ("rb-source".into(), not_utf_8()),
        ("rb-destination".into(), HeaderValue::Other),
        ("rb-traceparent".into(), HeaderValue::Other),
        ("x-death".into(), HeaderValue::Other),
        text_header("x-first-death-queue", "q"),
        text_header("RB-timeout-ms", "6"),
        text_header("rb-", "7"),
    ]);
    assert_eq!(read.headers, Headers::new().with(header::TIMEOUT_MS, "5"));
    assert_eq!((read.source.as_str(), read.destination, read.trace), ("unknown", None, None));
}

#[test]
fn a_key_of_somebody_else_loses_one_prefix_and_gets_it_back() {
    let read = read(vec![text_header("rb-my-key", "a"), text_header("rb-rb-theirs", "b")]);
    assert_eq!(read.headers, Headers::new().with("my-key", "a").with("rb-theirs", "b"));
    let names: Vec<_> =
        read.to_frame().unwrap().headers.into_iter().map(|(name, _)| name.into_owned()).collect();
    assert_eq!(names, ["rb-source", "rb-my-key", "rb-rb-theirs"]);
}

#[test]
fn a_flood_of_headers_is_cut_and_the_known_ones_survive() {
    let names: Vec<_> = (0..1000).map(|n| format!("rb-k{n}")).collect();
    let mut headers: Vec<_> = names.iter().map(|name| text_header(name, "v")).collect();
    headers.push(text_header("rb-rb-timeout-ms", "5"));
    let read = read(headers);
    assert_eq!(read.headers.len(), FOREIGN_HEADERS_MAX + 1);
    assert_eq!(read.headers.get(header::TIMEOUT_MS), Some("5"));
}

#[test]
fn a_bad_trace_parent_is_no_parent() {
    for bad in ["garbage", "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"] {
        assert_eq!(read(vec![text_header("rb-traceparent", bad)]).trace, None, "{bad}");
    }
    let read =
        read(vec![text_header("rb-traceparent", TRACE), text_header("rb-tracestate", "a=b")]);
    assert_eq!(read.trace, TraceContext::parse(TRACE, Some("a=b")));
}

#[test]
fn an_envelope_is_written_as_the_contract_says() {
    let envelope = Envelope {
        message_id: "m1".to_owned(),
        timestamp: 1_772_054_103,
        destination: Some("Other".to_owned()),
        ..Envelope::new("T", "RockBot", Bytes::from_static(b"{}"))
    }
    .with_header(header::TIMEOUT_MS, "60000")
    .with_header(header::DEAD_LETTER_REASON, "broken")
    .with_header("traceparent", "a logical header is never the trace")
    .with_header("source", "nor the source")
    .with_trace(TraceContext::parse(TRACE, Some("a=b")))
    .with_expiry(Duration::from_micros(1500));
    let frame = envelope.to_frame().unwrap();
    assert_eq!(
        frame,
        Frame {
            properties: Properties {
                content_type: Some("application/json".into()),
                delivery_mode: Some(2),
                correlation_id: Some("".into()),
                reply_to: Some("".into()),
                expiration: Some("2".into()),
                message_id: Some("m1".into()),
                timestamp: Some(1_772_054_103),
                message_type: Some("T".into()),
            },
            headers: vec![
                text_header("rb-source", "RockBot"),
                text_header("rb-destination", "Other"),
                text_header("rb-rb-timeout-ms", "60000"),
                text_header("rb-dead-letter-reason", "broken"),
                text_header("rb-traceparent", TRACE),
                text_header("rb-tracestate", "a=b"),
            ],
            body: Bytes::from_static(b"{}"),
        }
    );
    let read = Envelope::from_frame(frame);
    assert_eq!(read.headers.get(header::DEAD_LETTER_REASON), Some("broken"));
}

#[test]
fn an_expiry_is_rounded_up_and_kept_to_what_the_broker_takes() {
    for (after, expected) in [
        (Duration::ZERO, "0"),
        (Duration::from_nanos(1), "1"),
        (Duration::from_millis(60_000), "60000"),
        (Duration::MAX, "4294967295"),
    ] {
        assert_eq!(expiration(after), expected);
    }
    let properties = Properties { expiration: Some("soon".into()), ..Properties::default() };
    let read = Envelope::from_frame(Frame { properties, ..Frame::default() });
    assert_eq!(read.expires_after, None);
}

#[test]
fn what_does_not_fit_into_amqp_is_an_error() {
    let long = || "x".repeat(256);
    let fitting = Envelope::new("T", long(), Bytes::new());
    assert!(fitting.to_frame().is_ok(), "the source is a header's value and may be long");
    for (envelope, what, length) in [
        (fitting.clone().with_correlation_id(long()), "correlation id", 256),
        (Envelope { message_id: long(), ..fitting.clone() }, "message id", 256),
        (Envelope { message_type: long(), ..fitting.clone() }, "message type", 256),
        (fitting.with_header("y".repeat(253), ""), "name of a header", 256),
    ] {
        assert_eq!(envelope.to_frame(), Err(Error::TooLong { what, length }));
    }
}

#[test]
fn the_debug_form_shows_no_secret() {
    let frame = Frame {
        headers: vec![text_header("rb-k", "hunter2")],
        body: Bytes::from_static(b"hunter2"),
        ..Frame::default()
    };
    let shown = format!("{frame:?}");
    assert!(!shown.contains("hunter2") && shown.contains("body_bytes: 7"), "{shown}");
}

/// Names that matter, and any others.
fn header_name() -> impl Strategy<Value = String> {
    prop_oneof![
        proptest::sample::select(vec![
            "rb-source",
            "rb-destination",
            "rb-traceparent",
            "rb-tracestate",
            "rb-timeout-ms",
            "rb-rb-timeout-ms",
            "rb-dead-letter-reason",
            "x-death",
        ])
        .prop_map(str::to_owned),
        "(rb-){0,3}[a-z-]{0,6}",
        any::<String>(),
    ]
}

fn any_frame() -> impl Strategy<Value = Frame<'static>> {
    let text = || proptest::option::of(any::<String>().prop_map(Cow::<'static, str>::Owned));
    let value = prop_oneof![
        any::<Vec<u8>>().prop_map(|bytes| HeaderValue::LongString(Cow::Owned(bytes))),
        any::<String>().prop_map(|text| HeaderValue::LongString(Cow::Owned(text.into_bytes()))),
        Just(HeaderValue::Other),
    ];
    let headers = proptest::collection::vec((header_name().prop_map(Cow::Owned), value), 0..12);
    let properties = (text(), text(), text(), text(), text(), text(), any::<Option<u64>>());

    (properties, headers, any::<Vec<u8>>()).prop_map(|(properties, headers, body)| {
        let (content_type, correlation_id, reply_to, expiration, message_id, message_type, time) =
            properties;
        Frame {
            properties: Properties {
                content_type,
                delivery_mode: None,
                correlation_id,
                reply_to,
                expiration,
                message_id,
                timestamp: time,
                message_type,
            },
            headers,
            body: Bytes::from(body),
        }
    })
}

fn logical_headers() -> impl Strategy<Value = Headers> {
    let known = proptest::sample::select(vec![
        header::CONTENT_TRUST,
        header::TIMEOUT_MS,
        header::MCP_SERVER,
        header::DEADLINE_MS,
        header::DEAD_LETTER_REASON,
    ])
    .prop_map(Cow::Borrowed);

    // A foreign key is neither a field of the envelope nor a known name without its prefix.
    let foreign = "(rb-)?x[a-z-]{0,8}".prop_map(Cow::Owned);
    proptest::collection::vec((prop_oneof![known, foreign], any::<String>()), 0..8).prop_map(
        |pairs| {
            let mut headers = Headers::new();
            for (name, value) in pairs {
                headers.set(name, value);
            }
            headers
        },
    )
}

fn any_envelope() -> impl Strategy<Value = Envelope> {
    let short = || "[ -~]{1,40}";
    let trace = ("[1-9a-f][0-9a-f]{31}", "[1-9a-f][0-9a-f]{15}", "[0-9a-f]{2}", "[a-z=,]{0,9}")
        .prop_map(|(trace, span, flags, state)| {
            TraceContext::parse(&format!("00-{trace}-{span}-{flags}"), Some(&state))
        });

    let ids = (short(), short(), proptest::option::of(short()), proptest::option::of(short()));
    let rest = (any::<u64>().prop_map(|n| n.max(1)), proptest::option::of(any::<u32>()));
    let places = (short(), proptest::option::of(short()));

    (ids, places, rest, logical_headers(), proptest::option::of(trace), any::<Vec<u8>>()).prop_map(
        |(ids, (source, destination), (timestamp, expiry), headers, trace, body)| Envelope {
            message_id: ids.0,
            message_type: ids.1,
            correlation_id: ids.2,
            reply_to: ids.3.map(|text| Topic::parse(text).unwrap()),
            source,
            destination,
            timestamp,
            headers,
            trace: trace.flatten(),
            expires_after: expiry.map(|ms| Duration::from_millis(ms.into())),
            body: Bytes::from(body),
        },
    )
}

proptest! {
    #[test]
    fn any_frame_reads_and_what_was_read_is_stable(frame in any_frame()) {
        let once = Envelope::from_frame(frame);
        if let Ok(written) = once.to_frame() {
            let again = Envelope::from_frame(written);
            // Only a time that does not fit is cut.
            prop_assume!(once.expires_after.is_none_or(|after| after.as_millis() < 1 << 32));
            prop_assert_eq!(again, once);
        }
    }

    #[test]
    fn an_envelope_survives_the_way_through_a_frame(envelope in any_envelope()) {
        let frame = envelope.to_frame().unwrap();
        prop_assert_eq!(Envelope::from_frame(frame), envelope);
    }
}
