use serde_json::json;

use toolbus_wire::ErrorCode;
use toolbus_wire::message::tool::ContentKind;

use super::*;

fn text(text: &str) -> Arguments {
    Arguments::Text(Some(text.to_owned()))
}

fn check(arguments: Arguments, expected: Value) {
    let read = arguments.object().map(Value::Object);
    assert_eq!(read, Ok(expected), "{arguments:?}");
}

fn refused(arguments: Arguments) -> String {
    let error = arguments.object().unwrap_err();
    assert_eq!(error.code, ErrorCode::InvalidArguments);
    error.message
}

#[test]
fn nothing_is_an_empty_object() {
    for nothing in [
        Arguments::Text(None),
        text(""),
        text(" \n\t"),
        text("null"),
        text("{}"),
        Arguments::Value(Value::Null),
        Arguments::Value(json!({})),
    ] {
        check(nothing, json!({}));
    }
}

#[test]
fn an_object_is_unwrapped_from_text() {
    let object = json!({"a": 1, "b": {"c": [null, "é"]}, "n": 12345678901234567_u64});
    let once = object.to_string();
    let twice = Value::String(once.clone()).to_string();
    let thrice = Value::String(twice.clone()).to_string();
    check(Arguments::Value(object.clone()), object.clone());
    check(Arguments::Value(Value::String(once.clone())), object.clone());
    check(text(&once), object.clone());
    check(text(&twice), object);
    assert_eq!(refused(text(&thrice)), "arguments must be a JSON object, not a string");
    assert_eq!(
        refused(Arguments::Value(Value::String(twice))),
        "arguments must be a JSON object, not a string"
    );
}

#[test]
fn anything_else_is_refused_with_what_it_is() {
    for (json, kind) in [("[1,2]", "an array"), ("7", "a number"), ("true", "a boolean")] {
        let expected = format!("arguments must be a JSON object, not {kind}");
        let value: Value = json.parse().unwrap();
        assert_eq!(refused(text(json)), expected);
        assert_eq!(refused(text(&Value::String(json.to_owned()).to_string())), expected);
        assert_eq!(refused(Arguments::Value(value)), expected);
    }
    for broken in ["not json", "{", "{\"a\":1}}", "\"not json\"", "{'a':1}", "\u{0}", "\"\""] {
        let message = refused(text(broken));
        assert!(message.starts_with("arguments are not JSON: "), "{broken}: {message}");
    }
}

#[test]
fn text_that_is_too_long_is_refused_before_it_is_read() {
    let long = "x".repeat(10 << 20);
    let expected = "arguments of 10485760 bytes are over the limit of 8388608";
    assert_eq!(refused(text(&long)), expected);
    assert_eq!(refused(Arguments::Value(Value::String(long))), expected);
    let padded = format!("{{}}{}", " ".repeat(ARGUMENTS_BYTES_MAX - 2));
    check(text(&padded), json!({}));
}

#[test]
fn text_that_is_nested_too_deep_is_refused() {
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(refused(text(&deep)), "arguments are nested more than 100 deep");
}

/// 1c.12: what nothing keeps is shown in words.
#[test]
fn rule_1c_12_parts_without_a_text_are_named() {
    let part =
        |kind, text: Option<&str>, mime_type: Option<&str>, uri: Option<&str>| ContentBlock {
            kind,
            text: text.map(str::to_owned),
            data: Some("AA==".to_owned()),
            mime_type: mime_type.map(str::to_owned),
            uri: uri.map(str::to_owned),
        };
    let blocks = vec![
        part(ContentKind::Text, Some("two lines"), None, None),
        part(ContentKind::Image, None, Some("image/png"), None),
        part(ContentKind::Audio, None, None, None),
        part(ContentKind::Resource, None, Some("text/plain"), Some("file:///a.txt")),
    ];
    let output = Output { blocks: blocks.clone(), ..Output::default() };
    let expected =
        "two lines\n[Image: image/png]\n[Audio: of no known type]\n[Resource: file:///a.txt]";
    assert_eq!(output.to_text(), expected);
    assert_eq!(Output { blocks, ..Output::text("said") }.to_text(), "said");
}
