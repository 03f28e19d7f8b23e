use std::time::Duration;

use lapin::types::FieldArray;
use toolbus_wire::Topic;

use super::*;

fn envelope() -> Envelope {
    Envelope::new("Some.Type", "source ☃", Bytes::from_static(b"{}"))
        .with_correlation_id("c")
        .with_reply_to(Topic::parse("reply.to").unwrap())
        .with_expiry(Duration::from_secs(3))
        .with_header("rb-timeout-ms", "60000")
        .with_header("own", "value")
}

#[test]
fn an_envelope_comes_back_as_it_went() {
    let sent = envelope();
    let properties = properties_of(&sent).unwrap();
    let got = envelope_of(&properties, sent.body.clone());
    let sorted = |envelope: &Envelope| -> std::collections::BTreeMap<String, String> {
        envelope.headers.iter().map(|(name, value)| (name.into(), value.into())).collect()
    };
    assert_eq!(sorted(&got), sorted(&sent));
    assert_eq!(Envelope { headers: sent.headers.clone(), ..got }, sent);
}

#[test]
fn headers_are_long_strings_and_nothing_else_is_read() {
    let properties = properties_of(&envelope()).unwrap();
    let headers = properties.headers().as_ref().unwrap();
    assert!(headers.inner().values().all(|value| matches!(value, AMQPValue::LongString(_))));
    assert!(headers.contains_key("rb-rb-timeout-ms") && headers.contains_key("rb-own"));

    let others = [
        AMQPValue::Boolean(true),
        AMQPValue::LongLongInt(1),
        AMQPValue::Void,
        AMQPValue::FieldTable(FieldTable::default()),
        AMQPValue::LongString(b"\xff"[..].into()),
    ];
    for other in others {
        let properties = with_headers(&properties, |headers| {
            headers.insert("rb-own".into(), other.clone());
        });
        let envelope = envelope_of(&properties, Bytes::new());
        assert_eq!(envelope.headers.get("own"), None, "{other:?}");
        assert_eq!(envelope.source, "source ☃");
    }
}

#[test]
fn a_text_that_amqp_cannot_carry_is_an_error() {
    let mut long = envelope();
    long.message_type = "x".repeat(256);
    properties_of(&long).unwrap_err();
}

#[test]
fn the_size_on_the_wire_is_never_estimated_too_low() {
    let mut array = FieldArray::default();
    array.push(AMQPValue::LongLongInt(1));
    array.push(long_string("in an array"));
    let properties = with_headers(&properties_of(&envelope()).unwrap(), |headers| {
        headers.insert("array".into(), AMQPValue::FieldArray(array));
        headers.insert("flag".into(), AMQPValue::Boolean(true));
        headers.insert("long".into(), long_string(&"x".repeat(5_000)));
    });

    let mut wire = vec![0; 10_000];
    let frame = lapin::protocol::basic::gen_properties(&properties);
    let (_, bytes) = frame(wire.as_mut_slice().into()).unwrap().into_inner();
    let (bytes, estimated) = (usize::try_from(bytes).unwrap(), encoded_bytes(&properties));
    assert!(estimated >= bytes && estimated < bytes + 200, "{estimated} for {bytes}");
}
