//! Blocks, texts and limits.

use serde_json::{Value, json};

use super::*;

fn result(value: Value) -> CallResult {
    CallResult::read(&RawJson::of(&value)).expect("a result")
}

/// MX-M3.
#[test]
fn text_blocks_are_joined_and_the_rest_is_kept() {
    let result = result(json!({"isError": true, "structuredContent": {"a": [1]}, "content": [
        {"type": "text", "text": "one"},
        {"type": "image", "data": "aGk=", "mimeType": "image/png"},
        {"type": "text", "text": "two"},
        {"type": "resource", "resource": {"uri": "u:1", "text": "inside", "mimeType": "text/plain"}},
        {"type": "resource", "resource": {"uri": "u:2", "blob": "aGk="}},
        {"type": "resource_link", "uri": "u:3", "name": "n", "title": "T"},
        {"type": "audio", "data": "aGk=", "mimeType": "audio/wav"}
    ]}));
    assert_eq!(result.text.as_deref(), Some("one\ntwo"));
    assert!(result.is_error && result.left_out.is_none());
    assert_eq!(result.structured, Some(RawJson::of(&json!({"a": [1]}))));
    assert_eq!(
        serde_json::to_value(&result.blocks).unwrap(),
        json!([
            {"type": "text", "text": "one"},
            {"type": "image", "data": "aGk=", "mimeType": "image/png"},
            {"type": "text", "text": "two"},
            {"type": "resource", "text": "inside", "mimeType": "text/plain", "uri": "u:1"},
            {"type": "resource", "data": "aGk=", "uri": "u:2"},
            {"type": "resource", "text": "T", "uri": "u:3"},
            {"type": "audio", "data": "aGk=", "mimeType": "audio/wav"}
        ])
    );
}

#[test]
fn no_text_is_none() {
    for content in [json!([]), json!([{"type": "text", "text": ""}])] {
        assert_eq!(result(json!({"content": content})).text, None);
    }
    assert_eq!(
        result(json!({"content": [{"type": "text", "text": ""}, {"type": "text", "text": ""}]}))
            .text
            .as_deref(),
        Some("\n"),
    );
}

#[test]
fn a_kind_of_block_from_the_future_is_shown_as_it_came() {
    let value = json!({"isError": true, "content": [
        {"type": "text", "text": "a"}, {"type": "hologram", "depth": 3}
    ]});
    let result = result(value);
    assert_eq!(result.text.as_deref(), Some("a\n{\"type\":\"hologram\",\"depth\":3}"));
    assert!(result.is_error);
}

#[test]
fn what_is_no_result_of_a_tool_is_none() {
    for no_result in [json!({"x": 1}), json!([]), json!(3), json!({"content": 3})] {
        assert_eq!(CallResult::read(&RawJson::of(&no_result)), None, "{no_result}");
    }
    assert_eq!(result(json!({})), CallResult::default());
}

/// Each of these would be a value of up to a hundred bytes.
#[test]
fn a_value_is_kept_as_it_was_written() {
    let value = format!("[{}12345678901234567890123]", "0,".repeat(1 << 20));
    let text = format!(r#"{{"content":[],"structuredContent":{value}}}"#);
    let result = CallResult::read(&RawJson::parse(text).unwrap()).unwrap();
    assert_eq!(result.structured.unwrap().text(), value);
}

#[test]
fn a_text_over_the_limit_is_cut_and_says_so() {
    let text = "ä".repeat(RESULT_BYTES_MAX / 2 + 5);
    let result = result(json!({"content": [
        {"type": "text", "text": text}, {"type": "text", "text": "after"}
    ], "structuredContent": "x"}));
    assert_eq!(result.blocks.len(), 1);
    assert_eq!(block_bytes(&result.blocks[0]), RESULT_BYTES_MAX);
    assert_eq!(result.left_out, Some(LeftOut { blocks: 1, bytes: 10 + 5 + 3 }));
    assert_eq!(result.structured, None);
    let text = result.text.unwrap();
    assert!(text.ends_with("ä\n[18 bytes and 1 blocks of this result are left out]"));
}

#[test]
fn a_picture_over_the_limit_is_left_out_whole() {
    let data = "A".repeat(RESULT_BYTES_MAX + 1);
    let result =
        result(json!({"content": [{"type": "image", "data": data, "mimeType": "image/png"}]}));
    assert!(result.blocks.is_empty());
    assert_eq!(result.left_out.map(|left_out| left_out.blocks), Some(1));
}

#[test]
fn blocks_over_the_limit_are_left_out() {
    let content = vec![json!({"type": "text", "text": "x"}); BLOCKS_MAX + 2];
    let result = result(json!({"content": content}));
    assert_eq!(result.blocks.len(), BLOCKS_MAX);
    assert_eq!(result.left_out, Some(LeftOut { blocks: 2, bytes: 2 }));
}
