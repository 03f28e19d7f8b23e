//! What is the same, and what is not.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn of(value: Value) -> Definition {
    match value {
        Value::Object(members) => Definition::new(members),
        other => panic!("not an object: {other}"),
    }
}

#[test]
fn order_means_nothing_where_it_means_nothing() {
    let one = of(json!({"b": 1, "a": {"required": ["y", "x"], "enum": ["p", "q"]}}));
    assert_eq!(one.text, r#"{"a":{"enum":["p","q"],"required":["x","y"]},"b":1}"#);
    let other = of(json!({"a": {"enum": ["p", "q"], "required": ["x", "y"]}, "b": 1}));
    assert_eq!(one, other);
    let changed = of(json!({"a": {"enum": ["q", "p"], "required": ["x", "y"]}, "b": 1}));
    assert_ne!(one.digest, changed.digest);
}

#[test]
fn the_digest_is_sha_256_of_the_text() {
    let empty = of(json!({}));
    let known = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";
    assert_eq!((empty.text.as_str(), empty.digest.as_str()), ("{}", known));
}

/// Values as schemas have them.
fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        ".*".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 64, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((".{0,8}", inner), 0..6)
                .prop_map(|members| { Value::Object(members.into_iter().collect()) }),
        ]
    })
}

fn reversed(value: &Value) -> Value {
    match value {
        Value::Object(members) => Value::Object(
            members.iter().rev().map(|(name, value)| (name.clone(), reversed(value))).collect(),
        ),
        Value::Array(items) => Value::Array(items.iter().map(reversed).collect()),
        plain => plain.clone(),
    }
}

proptest! {
    #[test]
    fn the_text_is_json_of_the_same_value(value in values()) {
        let definition = of(json!({"value": value}));
        let read: Value = serde_json::from_str(&definition.text).expect("JSON");
        prop_assert_eq!(&read["value"], &value);
        let other = of(json!({"value": reversed(&reversed(&value))}));
        prop_assert_eq!(definition, other);
    }
}
