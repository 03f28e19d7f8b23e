use proptest::prelude::*;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::*;

const LIMITS: Limits = Limits { bytes: 100, values: 8, depth: 3, string_bytes: 10 };

fn read(text: &str) -> Result<Value, Error> {
    from_str(text, &LIMITS)
}

fn over(text: &str) -> OverLimit {
    match read(text) {
        Err(Error::OverLimit(over)) => over,
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn values_are_counted_outside_of_strings() {
    for (text, count) in [
        ("0", 1),
        ("[]", 2),
        ("[0,0,0]", 4),
        (r#"{"a,[":"\",{"}"#, 2),
        (r#"{"a":[1,{}]}"#, 5),
        (r#"["\\",1]"#, 3),
        (r#"["open"#, 2),
        (r#"["\"#, 2),
        ("", 1),
    ] {
        assert_eq!(count_values(text.as_bytes()), count, "{text}");
    }
}

#[test]
fn a_text_at_its_limits_is_read_and_one_over_them_is_not() {
    assert_eq!(read("[1,2,3,4,5,6,7]").unwrap(), json!([1, 2, 3, 4, 5, 6, 7]));
    assert_eq!(over("[1,2,3,4,5,6,7,8]"), OverLimit::Values { max: 8 });
    assert_eq!(read("[[[1]]]").unwrap(), json!([[[1]]]));
    assert_eq!(over("[[[[1]]]]"), OverLimit::Depth { max: 3 });
    assert_eq!(read(r#"[{"1234567890":"1234567890"}]"#).unwrap()[0]["1234567890"], "1234567890");
    for text in [r#"["12345678901"]"#, r#"{"12345678901":1}"#, r#"["1234567890\""#] {
        assert_eq!(over(text), OverLimit::StringBytes { max: 10 }, "{text}");
    }
    assert_eq!(read(&format!("{:100}", 1)).unwrap(), json!(1));
    assert_eq!(over(&format!("{:101}", 1)), OverLimit::Bytes { bytes: 101, max: 100 });

    assert!(matches!(from_slice::<Value>(b"\"\xff\"", &LIMITS), Err(Error::Invalid(_))));
    assert!(matches!(read("[1"), Err(Error::Invalid(_))));
}

#[test]
fn texts_that_are_not_looked_into_are_counted_too() {
    let text = format!("[{}]", vec!["0"; 100].join(","));
    let limits = Limits::of_bytes(text.len()).with_values(100);
    let read = from_str::<&RawValue>(&text, &limits);
    assert!(matches!(read, Err(Error::OverLimit(OverLimit::Values { max: 100 }))));
    let read = from_str::<&RawValue>(&text, &limits.with_values(101));
    assert_eq!(read.unwrap().get(), text);
}

#[test]
fn an_error_says_the_limit_and_nothing_of_the_text() {
    let said = |text| over(text).to_string();
    assert_eq!(said("[1,2,3,4,5,6,7,8]"), "it has more than 8 values");
    assert_eq!(said("[[[[1]]]]"), "it is nested more than 3 deep");
    assert_eq!(said(r#"["secret-secret"]"#), "it has a string of more than 10 bytes");
    assert_eq!(said(&" ".repeat(101)), "it has 101 bytes, and the limit is 100");
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        r#"[a-z"\\,\[{\]}]{0,12}"#.prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 64, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((r#"[a-z"\\,\[{\]}]{0,6}"#, inner), 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Values, depth and longest string, counted in the value itself. An empty array or object counts
/// as two.
fn measure(value: &Value) -> (usize, usize, usize) {
    let written = |text: &str| Value::from(text).to_string().len() - 2;
    let parts: Vec<_> = match value {
        Value::String(text) => return (1, 0, written(text)),
        Value::Array(items) => items.iter().map(measure).collect(),
        Value::Object(members) => members
            .iter()
            .map(|(name, value)| {
                let (values, depth, longest) = measure(value);
                (values, depth, longest.max(written(name)))
            })
            .collect(),
        _ => return (1, 0, 0),
    };

    let values = parts.iter().map(|part| part.0).sum::<usize>().max(1);
    let depth = parts.iter().map(|part| part.1).max().unwrap_or(0);
    let longest = parts.iter().map(|part| part.2).max().unwrap_or(0);
    (values + 1, depth + 1, longest)
}

proptest! {
    #[test]
    fn what_is_counted_is_what_would_be_built(value in any_json()) {
        let text = value.to_string();
        let (values, depth, string_bytes) = measure(&value);
        prop_assert_eq!(count_values(text.as_bytes()), values);

        let exact = Limits { bytes: text.len(), values, depth, string_bytes };
        prop_assert_eq!(from_str::<Value>(&text, &exact).unwrap(), value);
        let mut under = vec![Limits { values: values - 1, ..exact }];
        under.extend(depth.checked_sub(1).map(|depth| Limits { depth, ..exact }));
        let string_bytes = string_bytes.checked_sub(1);
        under.extend(string_bytes.map(|string_bytes| Limits { string_bytes, ..exact }));
        for limits in under {
            prop_assert!(limits.check(text.as_bytes()).is_err(), "{:?}", limits);
        }
    }

    #[test]
    fn any_bytes_are_scanned(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = from_slice::<Value>(&bytes, &LIMITS);
        prop_assert!(count_values(&bytes) <= bytes.len() + 1);
    }
}

/// A text within a text, as often as asked, each with so many arrays around it.
fn nested_texts(levels: usize, arrays: usize) -> String {
    let mut text = "1".to_owned();
    for _ in 0..levels {
        let quoted = text.replace('\\', "\\u005c").replace('"', "\\u0022");
        let (open, close) = ("[".repeat(arrays), "]".repeat(arrays));
        text = format!("{open}{{\"$serde_json::private::RawValue\":\"{quoted}\"}}{close}");
    }
    text
}

#[test]
fn a_text_within_a_text_is_not_parsed() {
    // What the library does with it: four values, where a reader counts two.
    let text = r#"{"$serde_json::private::RawValue":"[1,2,3]"}"#;
    assert_eq!(serde_json::from_str::<Value>(text).unwrap(), json!([1, 2, 3]));

    let escaped = r#"{ "\u0024serde_json::private::Raw\u0056alue"  :"[1,2,3]"}"#;
    let later = r#"{"a":1,"$serde_json::private::RawValue":"2"}"#;
    // It is as deep as this: 60 times 126.
    let deep = nested_texts(60, 126);
    for text in [text, escaped, later, &deep] {
        let large = Limits::of_bytes(1 << 20);
        let read = from_str::<Value>(text, &large);
        assert!(matches!(read, Err(Error::OverLimit(OverLimit::ReservedName))), "{read:?}");
        let read = from_trusted::<Value>(text).map_err(|error| error.to_string());
        assert_eq!(read, Err(OverLimit::ReservedName.to_string()));
    }

    for text in [r#"["$serde_json::private::RawValue"]"#, r#"{"$serde_json::private::Raw":"1"}"#] {
        assert!(from_str::<Value>(text, &Limits::of_bytes(100)).is_ok(), "{text}");
    }
}

#[test]
fn plain_values_are_those_of_the_library_but_for_its_name() {
    let value = json!({"a": [1, -2, 1.5, null, true, "x"], "b": {"c": {}}});
    assert_eq!(PlainValue::deserialize(&value).unwrap(), PlainValue(value));
    let reserved = json!({"a": {"b": 1, "$serde_json::private::RawValue": "1"}});
    assert!(PlainValue::deserialize(&reserved).is_err());
}
