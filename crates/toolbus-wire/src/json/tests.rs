//! The rules of reading and writing bodies, on a type that has one of everything.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::*;

/// One of everything that a message may be made of.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Sample {
    required_text: String,
    number: Option<i32>,
    fraction: Option<f64>,
    inner: Option<Box<Sample>>,
    list: Option<Vec<Sample>>,
    by_key: Option<BTreeMap<String, Sample>>,
    env: Option<BTreeMap<String, String>>,
    free: Option<Value>,
    wrapped: Option<Wrapped>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Wrapped(Box<Sample>);

impl Message for Sample {
    const TYPE: &'static str = "Sample";
}

fn sample(text: &str) -> Sample {
    Sample { required_text: text.to_owned(), ..Sample::default() }
}

fn check(body: &str, expected: Sample) {
    assert_eq!(read::<Sample>(body.as_bytes()), Ok(expected), "{body}");
}

fn check_error(body: impl AsRef<[u8]>, expected: &str) {
    let body = body.as_ref();
    let error = read::<Sample>(body).unwrap_err();
    assert_eq!(error.to_string(), expected, "{}", String::from_utf8_lossy(body));
}

#[test]
fn members_are_found_without_regard_to_case() {
    for name in
        ["requiredText", "RequiredText", "REQUIREDTEXT", "requiredtext", "require\\u0064Text"]
    {
        check(&format!("{{\"{name}\":\"x\"}}"), sample("x"));
    }
}

#[test]
fn the_rule_holds_at_every_depth_of_our_types() {
    let x = || Box::new(sample("x"));
    let outer = |member: Sample| Sample { required_text: "o".to_owned(), ..member };

    for (member, expected) in [
        (r#""INNER":{"REQUIREDTEXT":"x"}"#, Sample { inner: Some(x()), ..Sample::default() }),
        (
            r#""LIST":[{"REQUIREDTEXT":"x"}]"#,
            Sample { list: Some(vec![*x()]), ..Sample::default() },
        ),
        (
            r#""BYKEY":{"Key":{"REQUIREDTEXT":"x"}}"#,
            Sample {
                by_key: Some(BTreeMap::from([("Key".to_owned(), *x())])),
                ..Sample::default()
            },
        ),
        (
            r#""WRAPPED":{"REQUIREDTEXT":"x"}"#,
            Sample { wrapped: Some(Wrapped(x())), ..Sample::default() },
        ),
    ] {
        check(&format!("{{{member},\"requiredText\":\"o\"}}"), outer(expected));
    }
}

#[test]
fn free_json_keeps_its_names() {
    check(
        r#"{"requiredText":"o","env":{"PATH":"1","path":"2"},"free":{"A":{"B":1},"a":null}}"#,
        Sample {
            env: Some([("PATH", "1"), ("path", "2")].map(|(k, v)| (k.into(), v.into())).into()),
            free: Some(serde_json::json!({"A": {"B": 1}, "a": null})),
            ..sample("o")
        },
    );
}

#[test]
fn unknown_members_are_skipped_whatever_they_are() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    for value in ["null", "1e999", r#"{"requiredText":5}"#, r#""\ud800""#, &deep] {
        check(&format!(r#"{{"unknown":{value},"requiredText":"x"}}"#), sample("x"));
    }
}

#[test]
fn null_is_absent_for_an_optional_member() {
    check(r#"{"requiredText":"x","number":null,"list":null,"inner":null}"#, sample("x"));
}

#[test]
fn of_a_member_that_stands_twice_the_first_counts() {
    check(r#"{"requiredText":"x","RequiredText":"y","requiredText":5}"#, sample("x"));
    check(r#"{"RequiredText":"x","requiredText":"y"}"#, sample("x"));
}

#[test]
fn whole_numbers_are_taken_for_fractions() {
    check(r#"{"requiredText":"x","fraction":2}"#, Sample { fraction: Some(2.0), ..sample("x") });
}

#[test]
fn a_null_body_is_an_error_of_its_own() {
    for body in ["null", " \r\n\tnull "] {
        assert_eq!(read::<Sample>(body.as_bytes()), Err(Error::Null));
    }
}

#[test]
fn what_is_not_json_says_so() {
    check_error("", "the body is not JSON: EOF while parsing a value at line 1 column 0");
    check_error("not json", "the body is not JSON: expected ident at line 1 column 2");
    check_error(
        r#"{"requiredText":"x"} {}"#,
        "the body is not JSON: trailing characters at line 1 column 22",
    );
    check_error("\u{feff}{}", "the body is not JSON: expected value at line 1 column 1");
    check_error(b"{\"a\":\"\xff\"}", "the body is not JSON: invalid UTF-8 at byte 6");
}

#[test]
fn free_json_is_bounded_in_depth() {
    let nested = |depth| {
        let (open, close) = ("[".repeat(depth), "]".repeat(depth));
        read::<Sample>(format!(r#"{{"requiredText":"x","free":{open}{close}}}"#).as_bytes())
    };
    assert!(nested(127).is_ok());
    let error = nested(128).unwrap_err().to_string();
    assert!(error.starts_with("the body is not JSON: recursion limit exceeded"), "{error}");
}

#[test]
fn a_mistake_is_told_with_its_place_and_without_any_value() {
    for (body, expected) in [
        ("{}", "missing field `requiredText` at line 1 column 2"),
        (r#"{"requiredText":null}"#, "`requiredText`: invalid type: null, expected a string"),
        (r#"{"requiredText":31337}"#, "`requiredText`: invalid type: integer, expected a string"),
        (r#"{"requiredText":true}"#, "`requiredText`: invalid type: boolean, expected a string"),
        (r#"{"requiredText":1.5}"#, "`requiredText`: invalid type: floating point, expected a str"),
        (r#"{"requiredText":{"a":"hunter2"}}"#, "`requiredText`: invalid type: map, expected a s"),
        (r#"{"NUMBER":"hunter2"}"#, "`number`: invalid type: string, expected i32"),
        (r#"{"number":31337000000}"#, "`number`: invalid value: integer, expected i32"),
        (r#"{"inner":{}}"#, "`inner`: missing field `requiredText`"),
        (r#"{"inner":"hunter2"}"#, "`inner`: invalid type: string, expected struct Sample"),
        (r#"{"inner":31337}"#, "`inner`: invalid type: integer, expected struct Sample"),
        (r#"{"inner":["hunter2"]}"#, "`inner`: invalid type: sequence, expected struct Sample"),
        (
            r#"{"list":[{"requiredText":"x"},{"inner":{"number":"hunter2"}}]}"#,
            "`list[1].inner.number`: invalid type: string, expected i32",
        ),
        (r#"{"byKey":{"hunter2":{}}}"#, "`byKey`: missing field `requiredText`"),
        (r#""hunter2""#, "invalid type: string, expected struct Sample"),
        ("[]", "invalid type: sequence, expected struct Sample"),
        ("31337", "invalid type: integer, expected struct Sample"),
    ] {
        let error = read::<Sample>(body.as_bytes()).unwrap_err();
        assert!(matches!(error, Error::Invalid(_)), "{body}: {error:?}");
        let expected = format!("the body is invalid: {expected}");
        assert!(error.to_string().starts_with(&expected), "{body}: {error}");
        let shown = format!("{error} {error:?}");
        assert!(!shown.contains("hunter2") && !shown.contains("31337"), "{shown}");
    }
}

#[test]
fn a_raw_value_passes_as_it_stands() {
    #[derive(Deserialize)]
    struct Holder<'a> {
        #[serde(borrow)]
        raw: &'a RawValue,
    }
    let holder: Holder<'_> = read_value(br#"{"RAW": {"A" : 1.10} }"#).unwrap();
    assert_eq!(holder.raw.get(), r#"{"A" : 1.10}"#);
}

#[test]
fn absent_members_are_written_as_null() {
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Small {
        some_text: Option<String>,
    }
    impl Message for Small {
        const TYPE: &'static str = "Small";
    }
    assert_eq!(write(&Small { some_text: None }), r#"{"someText":null}"#);
}

/// What makes a body another one, or no JSON at all, when it is put in somewhere.
fn disturbance() -> impl Strategy<Value = &'static str> {
    proptest::sample::select(vec![
        "",
        " ",
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"",
        "\\",
        "null",
        "1",
        "-0.5e1",
        "\"a\":[{}],",
        "\"inner\":null,",
        "\"number\":5,",
        "\"list\":[{\"requiredText\":\"x\"}],",
    ])
}

fn any_sample() -> impl Strategy<Value = Sample> {
    let leaf = (any::<String>(), any::<Option<i32>>()).prop_map(|(required_text, number)| Sample {
        required_text,
        number,
        ..Sample::default()
    });

    leaf.prop_recursive(4, 24, 3, |inner| {
        (
            any::<String>(),
            proptest::option::of(inner.clone().prop_map(Box::new)),
            proptest::option::of(proptest::collection::vec(inner.clone(), 0..3)),
            proptest::option::of(proptest::collection::btree_map(any::<String>(), inner, 0..3)),
        )
            .prop_map(|(required_text, inner, list, by_key)| Sample {
                required_text,
                inner,
                list,
                by_key,
                ..Sample::default()
            })
    })
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(body in any::<Vec<u8>>()) {
        let _ = read::<Sample>(&body);
    }

    #[test]
    fn what_serde_json_reads_is_read_the_same(
        value in any_sample(),
        place in any::<proptest::sample::Index>(),
        put in disturbance(),
    ) {
        let mut body = write(&value).to_vec();
        let place = place.index(body.len() + 1);
        body.splice(place..place, put.bytes());
        let tolerant = read::<Sample>(&body);

        match serde_json::from_slice::<Sample>(&body) {
            Ok(strict) => prop_assert_eq!(tolerant, Ok(strict)),
            // The strict reader refuses duplicates, and nothing else that the tolerant one takes.
            Err(error) if tolerant.is_ok() => {
                prop_assert!(error.to_string().starts_with("duplicate field"), "{}", error);
            }
            Err(_) => {}
        }
    }

    #[test]
    fn what_is_written_is_read_back_in_any_case(value in any_sample()) {
        let body = write(&value);
        prop_assert_eq!(read::<Sample>(&body), Ok(value.clone()));
        // Only the names of members change: a quoted name before a colon, and texts have no such
        // names in them because their quotes are escaped.
        let shouted = std::str::from_utf8(&body).unwrap()
            .replace("\"requiredText\":", "\"REQUIREDTEXT\":")
            .replace("\"inner\":", "\"iNNer\":")
            .replace("\"list\":", "\"LIST\":");
        prop_assert_eq!(read::<Sample>(shouted.as_bytes()), Ok(value));
    }
}

#[derive(Debug, Deserialize)]
struct Holder {
    #[serde(default)]
    items: Vec<Option<u8>>,
    #[serde(default)]
    members: std::collections::HashMap<String, u8>,
    #[serde(default)]
    free: serde_json::Value,
    raw: Option<RawJson>,
}

fn refused(body: &str) -> String {
    read_value::<Holder>(body.as_bytes()).unwrap_err().to_string()
}

#[test]
fn more_values_than_may_be_built_are_refused() {
    let many = vec!["1"; VALUES_MAX + 1].join(",");
    let named: Vec<_> = (0..=VALUES_MAX).map(|number| format!("\"{number}\":1")).collect();
    let values = format!("it has more than {VALUES_MAX} values");
    for (member, value) in [
        ("items", format!("[{many}]")),
        ("members", format!("{{{}}}", named.join(","))),
        ("free", format!("[{many}]")),
    ] {
        let body = format!("{{\"{member}\":{value}}}");
        let said = refused(&body);
        assert!(said.starts_with(&format!("the body is invalid: `{member}`: {values}")), "{said}");
    }

    // All together.
    let half = vec!["1"; VALUES_MAX / 2 + 10].join(",");
    let said = refused(&format!("{{\"items\":[{half}],\"free\":[{half}]}}"));
    assert!(said.contains(&values), "{said}");
    let fits = vec!["1"; VALUES_MAX - 1].join(",");
    let read: Holder = read_value(format!("{{\"items\":[{fits}]}}").as_bytes()).unwrap();
    assert_eq!(read.items.len(), VALUES_MAX - 1);
}

#[test]
fn what_is_kept_as_it_was_written_is_not_counted() {
    let many = vec!["1"; VALUES_MAX + 1].join(",");
    let body = format!("{{\"raw\":[{many}],\"unknown\":[{many}]}}");
    let read: Holder = read_value(body.as_bytes()).unwrap();
    assert_eq!(read.raw.unwrap().text().len(), many.len() + 2);
    assert!(read.members.is_empty() && read.free.is_null());
}

#[test]
fn a_text_within_a_text_is_not_parsed() {
    let said = refused(r#"{"free":{"a":{"$serde_json::private::RawValue":"[1]"}}}"#);
    assert!(said.contains("reserved name"), "{said}");
    let raw = RawJson::parse(r#"{"$serde_json::private::RawValue":"[1]"}"#.to_owned()).unwrap();
    assert_eq!(raw.to_value(100), Err(ValueError::Unreadable));
    assert!(!raw.means(&serde_json::json!([1])));
}
