//! Values, and buffers that end too early.

use super::super::STACK_BYTES;
use super::{Fail, Reader, is_number};

const DOCUMENT: &str =
    r#" {"a": [1, -2.50e+3, true, false, null], "b\"\\": {"c": "\u00e9\ud83d\ude00"}, "": []}"#;

#[track_caller]
fn check(text: &str, expected: Result<&str, Fail>) {
    let value = Reader::new(text.as_bytes(), true).value().map(|value| value.to_string());
    assert_eq!(value.as_deref().map_err(|fail| *fail), expected, "{text}");
    let raw = Reader::new(text.as_bytes(), true).raw_value().map(drop);
    assert_eq!(raw, expected.map(drop), "{text}");
}

#[test]
fn a_value_that_is_not_whole_is_incomplete() {
    for end in 0..DOCUMENT.len() {
        let beginning = &DOCUMENT.as_bytes()[..end];
        let value = Reader::new(beginning, false).value();
        assert_eq!(value.err(), Some(Fail::Incomplete), "{end}");
        let raw = Reader::new(beginning, false).raw_value();
        assert_eq!(raw.err(), Some(Fail::Incomplete), "{end}");
    }
    let expected = r#"{"a":[1,-2.50e+3,true,false,null],"b\"\\":{"c":"é😀"},"":[]}"#;
    check(DOCUMENT, Ok(expected));
}

#[test]
fn numbers_at_the_end_of_a_buffer_may_go_on() {
    assert_eq!(Reader::new(b"12", false).value().err(), Some(Fail::Incomplete));
    check("12", Ok("12"));
    check("-999999999999999999", Ok("-999999999999999999"));
    check("9223372036854775808", Ok("9223372036854775808"));
}

#[test]
fn what_is_no_json_is_refused() {
    check("tru", Err(Fail::Expected("a value")));
    check("nul1", Err(Fail::Expected("a value")));
    check("[1 2]", Err(Fail::Expected("a comma or a closing bracket")));
    check("[1,]", Err(Fail::Expected("a value")));
    check("{\"a\":1,}", Err(Fail::Expected("a key")));
    check("{a:1}", Err(Fail::Expected("a key")));
    check("{\"a\" 1}", Err(Fail::Expected("a colon")));
    check("01", Err(Fail::Expected("a number")));
    check("\"a", Err(Fail::Incomplete));
    check("\"a\\", Err(Fail::Incomplete));
}

#[test]
fn nesting_is_bounded() {
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    // With the stack that a worker has.
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(move || {
        check(&nested(1_000), Ok(&nested(1_000)));
        check(&nested(1_001), Err(Fail::TooDeep));
        check(&"{\"a\":".repeat(100_000), Err(Fail::TooDeep));
    });
    thread.expect("a thread").join().expect("it does not panic");
}

#[test]
fn wrong_escapes_are_replaced() {
    check(r#""\x\u12\ud800\udc00\ud800x""#, Ok("\"\u{FFFD}\u{FFFD}12𐀀\u{FFFD}x\""));
    check(r#""\u+123\ud800\u+c00""#, Ok("\"\u{FFFD}+123\u{FFFD}\u{FFFD}+c00\""));
}

#[test]
fn numbers_are_told_from_other_text() {
    for (text, expected) in [
        ("0", Some(true)),
        ("-0", Some(true)),
        ("10", Some(true)),
        ("1.5", Some(false)),
        ("1e9", Some(false)),
        ("1E-9", Some(false)),
        ("", None),
        ("-", None),
        ("01", None),
        ("1.", None),
        (".5", None),
        ("1e", None),
        ("+1", None),
        ("1 ", None),
        ("1-2", None),
    ] {
        assert_eq!(is_number(text.as_bytes()), expected, "{text}");
    }
}
