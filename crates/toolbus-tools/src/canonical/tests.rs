use proptest::prelude::*;
use serde_json::{Value, json};

use super::{canonical_text, sha256_hex};

fn check(json: &str, expected: &str) {
    let value: Value = serde_json::from_str(json).unwrap();
    assert_eq!(canonical_text(&value), expected, "{json}");
}

/// The examples of RFC 8785, §3.2.2 and §3.2.3.
#[test]
fn the_examples_of_the_rfc_are_written_as_it_says() {
    check(
        r#"{"numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
            "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
            "literals": [null, true, false]}"#,
        concat!(
            r#"{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"#,
            r#""string":"€$\u000f\nA'B\"\\\\\"/"}"#,
        ),
    );
    check(
        r#"{"\u20ac": 1, "\r": 2, "\ufb33": 3, "1": 4, "\ud83d\ude00": 5, "\u0080": 6, "\u00f6": 7}"#,
        "{\"\\r\":2,\"1\":4,\"\u{80}\":6,\"ö\":7,\"€\":1,\"😀\":5,\"\u{fb33}\":3}",
    );
}

/// Samples of RFC 8785, appendix B, but for integers past 2^53.
#[test]
fn numbers_are_written_as_ecmascript_writes_them() {
    for (json, expected) in [
        ("-0.0", "0"),
        ("0", "0"),
        ("1.0", "1"),
        ("5e-324", "5e-324"),
        ("-5e-324", "-5e-324"),
        ("1.7976931348623157e308", "1.7976931348623157e+308"),
        ("1e21", "1e+21"),
        ("1e23", "1e+23"),
        ("9.999999999999997e22", "9.999999999999997e+22"),
        ("1.0000000000000001e23", "1.0000000000000001e+23"),
        ("0.000001", "0.000001"),
        ("9.999999999999997e-7", "9.999999999999997e-7"),
        ("333333333.33333325", "333333333.33333325"),
        ("-0.0000033333333333333333", "-0.0000033333333333333333"),
        ("1424953923781206.2", "1424953923781206.2"),
        ("1e2", "100"),
        ("-1.5", "-1.5"),
    ] {
        check(json, expected);
    }
}

#[test]
fn integers_keep_all_their_digits() {
    for number in ["9007199254740992", "9007199254740993", "18446744073709551615"] {
        check(number, number);
    }
    check("-9223372036854775808", "-9223372036854775808");
    // 2^63 as a double, which ECMAScript would write as the integer 9223372036854776000.
    check("9223372036854775808.0", "9223372036854775808");
    check("1e20", "100000000000000000000");
}

#[test]
fn digests_are_those_that_others_compute() {
    let text = canonical_text(&json!({"b": 1, "a": "x"}));
    assert_eq!(text, r#"{"a":"x","b":1}"#);
    // printf '{"a":"x","b":1}' | sha256sum
    let expected = "cdab067e9f3beb32d1252cfd63e492592fecbf591b0d08cadb24bb17f3864246";
    assert_eq!(sha256_hex(&text), expected);
}

fn json_value() -> impl Strategy<Value = Value> {
    let number = prop_oneof![
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-4i64..4).prop_map(Value::from),
        any::<f64>().prop_filter_map("JSON has no such number", |float| {
            serde_json::Number::from_f64(float).map(Value::Number)
        }),
    ];
    let string = prop_oneof!["[ab\"\\\\\n\u{0}é😀]{0,4}", any::<String>()];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        number,
        string.clone().prop_map(Value::String),
    ];
    leaf.prop_recursive(4, 32, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::Array),
            prop::collection::vec((string.clone(), inner), 0..5)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// The same value with the members of its objects in another order.
fn reversed(value: &Value) -> Value {
    match value {
        Value::Array(values) => values.iter().map(reversed).collect(),
        Value::Object(members) => Value::Object(
            members.iter().rev().map(|(name, value)| (name.clone(), reversed(value))).collect(),
        ),
        other => other.clone(),
    }
}

/// Whether two values are the same to a reader of JSON: numbers by their exact value, objects
/// whatever the order of their members.
fn is_equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => match (a.as_i128(), b.as_i128()) {
            (Some(a), Some(b)) => a == b,
            (None, None) => a.as_f64() == b.as_f64(),
            (Some(integer), None) => is_integer(b.as_f64(), integer),
            (None, Some(integer)) => is_integer(a.as_f64(), integer),
        },
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_equal(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            let same = |(name, a): (&String, &Value)| b.get(name).is_some_and(|b| is_equal(a, b));
            a.len() == b.len() && a.iter().all(same)
        }
        (a, b) => a == b,
    }
}

#[expect(clippy::cast_possible_truncation, reason = "it is below 2^64, or unequal")]
fn is_integer(float: Option<f64>, integer: i128) -> bool {
    float
        .is_some_and(|float| float.fract() == 0.0 && float.abs() < 1e21 && float as i128 == integer)
}

/// Changes one place of a value, chosen by `at`.
fn changed(value: &Value, at: usize) -> Value {
    match value {
        Value::Null => json!(false),
        Value::Bool(bool) => json!(!bool),
        Value::Number(_) => json!("1"),
        Value::String(string) => {
            let mut chars: Vec<char> = string.chars().collect();
            if chars.is_empty() {
                return json!("x");
            }
            let place = at % chars.len();
            chars[place] = if chars[place] == 'x' { 'y' } else { 'x' };
            Value::String(chars.into_iter().collect())
        }
        Value::Array(values) if values.is_empty() => json!([null]),
        Value::Array(values) => {
            let mut values = values.clone();
            let place = at % values.len();
            values[place] = changed(&values[place], at / 2);
            Value::Array(values)
        }
        Value::Object(members) if members.is_empty() => json!({"": null}),
        Value::Object(members) => {
            let mut members = members.clone();
            let place = at % members.len();
            if let Some((_, value)) = members.iter_mut().nth(place) {
                *value = changed(value, at / 2);
            }
            Value::Object(members)
        }
    }
}

proptest! {
    #[test]
    fn the_text_is_json_of_an_equal_value(value in json_value()) {
        let text = canonical_text(&value);
        let read: Value = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(canonical_text(&read), text);
    }

    #[test]
    fn equal_values_have_one_text(value in json_value()) {
        prop_assert_eq!(canonical_text(&value), canonical_text(&reversed(&value)));
    }

    #[test]
    fn two_values_have_one_text_just_when_they_are_equal(a in json_value(), b in json_value()) {
        prop_assert_eq!(canonical_text(&a) == canonical_text(&b), is_equal(&a, &b));
    }

    #[test]
    fn any_change_of_a_value_changes_its_digest(value in json_value(), at in any::<usize>()) {
        let other = changed(&value, at);
        prop_assert_ne!(
            sha256_hex(&canonical_text(&value)),
            sha256_hex(&canonical_text(&other))
        );
    }
}
