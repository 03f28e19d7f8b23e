use lapin::protocol::basic::{AMQPProperties, parse_properties};
use lapin::types::AMQPValue;

use super::*;

/// A header frame's payload with these properties.
fn header_payload(flags: u16, properties: &[u8]) -> Vec<u8> {
    [&[0, 60, 0, 0][..], &[0; 8], &flags.to_be_bytes(), properties].concat()
}

fn repaired(flags: u16, properties: &[u8]) -> Vec<u8> {
    let mut payload = header_payload(flags, properties);
    repair_frame(Kind::Header, &mut payload);
    payload.split_off(14)
}

fn text(text: &[u8]) -> Vec<u8> {
    [&[u8::try_from(text.len()).unwrap()], text].concat()
}

fn repair_table(entries: &[u8]) -> Vec<u8> {
    [&u32::try_from(entries.len()).unwrap().to_be_bytes()[..], entries].concat()
}

/// What the library makes of a payload.
fn parse(payload: &[u8]) -> AMQPProperties {
    parse_properties(&payload[12..]).expect("the library reads it").1
}

#[test]
fn texts_become_utf8_and_keep_their_length() {
    let check = |octets: &[u8], expected: &str| {
        assert_eq!(repaired(0x80, &text(octets)), text(expected.as_bytes()), "{octets:?}");
    };
    check(b"", "");
    check("plain ☃".as_bytes(), "plain ☃");
    check(b"\xff", "?");
    check(b"a\xffb\xc3\x28c", "a?b?(c");
    // A character that is cut off, and half of a surrogate pair.
    check(b"\xe2\x98", "??");
    check(b"\xed\xa0\x80x", "???x");
    check(&[0xfe; 255], &"?".repeat(255));
}

#[test]
fn every_text_of_a_message_is_repaired() {
    let headers = repair_table(&[text(b"h\xff"), b"t\x01".to_vec()].concat());
    let flags = 0b1111_1111_1111_1100;
    let properties = [
        text(b"type\xff"),
        text(b"encoding\xff"),
        headers,
        vec![2, 3],
        text(b"correlation\xff"),
        text(b"reply\xff"),
        text(b"expiration\xff"),
        text(b"id\xff"),
        vec![0xff; 8],
        text(b"kind\xff"),
        text(b"user\xff"),
        text(b"app\xff"),
        text(b"cluster\xff"),
    ]
    .concat();
    let mut payload = header_payload(flags, &properties);
    repair_frame(Kind::Header, &mut payload);
    let properties = parse(&payload);
    assert_eq!(properties.cluster_id().as_ref().map(|text| text.as_str()), Some("cluster?"));
    assert_eq!(properties.message_id().as_ref().map(|text| text.as_str()), Some("id?"));
    assert_eq!(*properties.timestamp(), Some(u64::MAX));
    assert!(properties.headers().as_ref().unwrap().contains_key("h?"));
}

#[test]
fn every_kind_of_header_is_passed() {
    let inner = [text(b"in\xff"), b"I\0\0\0\x07".to_vec()].concat();
    let values: Vec<Vec<u8>> = vec![
        b"t\x01".to_vec(),
        b"b\xff".to_vec(),
        b"B\xff".to_vec(),
        b"s\xff\xff".to_vec(),
        b"u\xff\xff".to_vec(),
        b"I\xff\xff\xff\xff".to_vec(),
        b"i\xff\xff\xff\xff".to_vec(),
        b"l\xff\xff\xff\xff\xff\xff\xff\xff".to_vec(),
        b"f\0\0\0\0".to_vec(),
        b"d\0\0\0\0\0\0\0\0".to_vec(),
        b"D\x02\xff\xff\xff\xff".to_vec(),
        b"T\xff\xff\xff\xff\xff\xff\xff\xff".to_vec(),
        b"V".to_vec(),
        [b"S".to_vec(), repair_table(b"\xff\xfe")].concat(),
        [b"x".to_vec(), repair_table(b"\xff\xfe")].concat(),
        [b"F".to_vec(), repair_table(&inner)].concat(),
        [
            b"A".to_vec(),
            repair_table(&[b"V".to_vec(), b"F".to_vec(), repair_table(&inner)].concat()),
        ]
        .concat(),
    ];
    let count = values.len();
    let entries: Vec<u8> = values
        .into_iter()
        .enumerate()
        .flat_map(|(number, value)| {
            [text(&[0xff, b'a' + u8::try_from(number).unwrap()]), value].concat()
        })
        .collect();
    let mut payload = header_payload(0x2000, &repair_table(&entries));
    repair_frame(Kind::Header, &mut payload);
    let headers = parse(&payload).headers().clone().unwrap();
    assert_eq!(headers.inner().len(), count);
    let nested = |value: &AMQPValue| match value {
        AMQPValue::FieldTable(table) => table.contains_key("in?"),
        _ => false,
    };

    assert!(nested(&headers.inner()["?p"]));
    let AMQPValue::FieldArray(array) = &headers.inner()["?q"] else { panic!("{headers:?}") };
    assert!(nested(&array.as_slice()[1]));
    // What is in a long text is the reader's business.
    assert_eq!(headers.inner()["?n"], AMQPValue::LongString(b"\xff\xfe"[..].into()));
}

#[test]
fn nothing_is_nested_deeper_than_the_library_can_bear() {
    for kind in [b'F', b'A'] {
        let mut value = vec![b'V'];
        for _ in 0..5_000 {
            let name = if kind == b'F' { text(b"a") } else { Vec::new() };
            value = [vec![kind], repair_table(&[name, value].concat())].concat();
        }

        let mut payload = header_payload(0x2000, &repair_table(&[text(b"a"), value].concat()));
        let length = payload.len();
        repair_frame(Kind::Header, &mut payload);
        assert_eq!(payload.len(), length);

        let headers = parse(&payload).headers().clone().unwrap();
        let mut value = headers.inner()["a"].clone();
        let mut depth = 0;

        loop {
            value = match value {
                AMQPValue::FieldTable(table) => table.inner()["a"].clone(),
                AMQPValue::FieldArray(array) => array.as_slice()[0].clone(),
                other => break assert!(matches!(other, AMQPValue::ByteArray(_)), "{other:?}"),
            };
            depth += 1;
        }

        assert_eq!(depth, DEPTH_MAX);
    }
}

#[test]
fn methods_with_a_strangers_text_are_repaired() {
    let check = |payload: &[&[u8]], expected: &[&[u8]]| {
        let mut payload = payload.concat();
        repair_frame(Kind::Method, &mut payload);
        assert_eq!(payload, expected.concat());
    };

    let nine = [0; 9];
    check(
        &[&[0, 60, 0, 60], b"\x01c", &nine, b"\x02e\xff\x02k\xff"],
        &[&[0, 60, 0, 60], b"\x01c", &nine, b"\x02e?\x02k?"],
    );
    check(
        &[&[0, 60, 0, 50, 1, 56], b"\x01\xff\x01\xff\x01\xff"],
        &[&[0, 60, 0, 50, 1, 56], b"\x01?\x01?\x01?"],
    );
    check(
        &[&[0, 20, 0, 40, 1, 150], b"\x01\xe2\0\0\0\0"],
        &[&[0, 20, 0, 40, 1, 150], b"\x01?\0\0\0\0"],
    );
    check(&[&[0, 10, 0, 60], b"\x02\xff\xff"], &[&[0, 10, 0, 60], b"\x02??"]);

    // Not every method has a text there.
    check(&[&[0, 60, 0, 80], b"\xff\xff\xff"], &[&[0, 60, 0, 80], b"\xff\xff\xff"]);
}

#[test]
fn a_payload_of_no_form_is_left_as_it_is() {
    let good = header_payload(
        0x2080,
        &[repair_table(&[text(b"a"), b"V".to_vec()].concat()), text(b"id")].concat(),
    );
    for length in 0..good.len() {
        let mut cut = good[..length].to_vec();
        for kind in [Kind::Header, Kind::Method] {
            repair_frame(kind, &mut cut);
        }
        assert_eq!(cut, good[..length]);
    }

    for length in [0xff_u8, 0x7f] {
        let mut payload = header_payload(0x2000, &[length; 64]);
        let before = payload.clone();
        repair_frame(Kind::Header, &mut payload);
        assert_eq!(payload, before);
    }
}
