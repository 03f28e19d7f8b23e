use serde_json::{Value, json};

use super::*;

fn check(outcome: Outcome, expected: Value) {
    let result = to_result(outcome, ServerErrors::InWords).unwrap();
    let mut result = result.to_value(100).unwrap();
    result.as_object_mut().unwrap().remove("resultType");
    assert_eq!(result, expected);
}

fn block_of(kind: ContentKind) -> ContentBlock {
    ContentBlock { kind, text: None, data: None, mime_type: None, uri: None }
}

#[test]
fn text_is_a_block_and_blocks_are_instead_of_it() {
    let text = json!([{"type": "text", "text": "hi"}]);
    check(Ok(Output::text("hi")), json!({"content": text, "isError": false}));
    check(Ok(Output::error("hi")), json!({"content": text, "isError": true}));
    check(Ok(Output::default()), json!({"content": [], "isError": false}));
    let some = |text: &str| Some(text.to_owned());
    let blocks = vec![
        ContentBlock { text: some("hi"), ..block_of(ContentKind::Text) },
        ContentBlock {
            data: some("AAAA"),
            mime_type: some("image/png"),
            ..block_of(ContentKind::Image)
        },
        ContentBlock { data: some("AAAA"), ..block_of(ContentKind::Audio) },
        ContentBlock { text: some("in it"), uri: some("a:b"), ..block_of(ContentKind::Resource) },
        ContentBlock {
            data: some("AAAA"),
            uri: some("a:c"),
            mime_type: some("x/y"),
            ..block_of(ContentKind::Resource)
        },
        ContentBlock { uri: some("a:d"), ..block_of(ContentKind::Resource) },
    ];
    let expected = json!([
        {"type": "text", "text": "hi"},
        {"type": "image", "data": "AAAA", "mimeType": "image/png"},
        {"type": "audio", "data": "AAAA", "mimeType": "application/octet-stream"},
        {"type": "resource", "resource": {"uri": "a:b", "text": "in it"}},
        {"type": "resource", "resource": {"uri": "a:c", "mimeType": "x/y", "blob": "AAAA"}},
        {"type": "resource_link", "uri": "a:d", "name": "a:d"},
    ]);
    let output = Output { content: some("hi"), blocks, ..Output::default() };
    check(Ok(output), json!({"content": expected, "isError": false}));
}

#[test]
fn a_value_goes_beside_the_text() {
    let text = json!([{"type": "text", "text": "3"}]);
    let of = |value: Value| {
        let structured = Some(RawJson::of(&value));
        Output { structured, ..Output::text("3") }
    };
    let object = json!({"sum": 3});
    let expected = json!({"content": text, "structuredContent": object, "isError": false});
    check(Ok(of(object.clone())), expected);
    let failed = Output { is_error: true, ..of(object.clone()) };
    check(Ok(failed), json!({"content": text, "structuredContent": object, "isError": true}));
    let in_older_era = |value: Value| {
        let result = to_result(Ok(of(value)), ServerErrors::InWords).unwrap();
        without_bare_values(result).member("structuredContent")
    };
    assert_eq!(in_older_era(object.clone()), Some(RawJson::of(&object)));
    assert_eq!(in_older_era(json!([3])), None);
}

#[test]
fn an_error_is_for_the_model_unless_there_is_no_such_tool() {
    let error = CallError::new(ErrorCode::RateLimited, "too fast");
    let error = error.with_retry_after(std::time::Duration::from_secs(5));
    let text = json!([{"type": "text", "text": "rate_limited: too fast"}]);
    let told = json!({"toolbus/error": {
        "code": "rate_limited",
        "message": "too fast",
        "isRetryable": true,
        "execution": "not_started",
        "retryAfterMs": 5_000,
    }});
    check(Err(error), json!({"content": text, "isError": true, "_meta": told}));
    let error = CallError::not_registered("t");
    let error = to_result(Err(error), ServerErrors::InWords).unwrap_err();
    assert_eq!(error.code, rmcp::model::ErrorCode::INVALID_PARAMS);
    assert_eq!(error.message, "Tool 't' is not registered.");
}

#[test]
fn what_a_server_wrote_goes_as_it_is() {
    let result = RawJson::parse(r#"{ "content": [], "new": 1.50 }"#.to_owned()).unwrap();
    let output = Output { mcp: Some(result.clone()), ..Output::default() };
    assert_eq!(to_result(Ok(output), ServerErrors::AsTheyAre).unwrap(), result);
}

#[test]
fn a_server_s_error_is_one_of_the_protocol_where_the_client_speaks_with_it() {
    let told = McpServerError { code: -32000, message: "no".to_owned(), data: Some(json!([1])) };
    let failed = CallError::execution_failed("it failed: no").with_details(told.to_details());
    let error = to_result(Err(failed.clone()), ServerErrors::AsTheyAre).unwrap_err();
    assert_eq!((error.code.0, &*error.message, error.data), (-32000, "no", Some(json!([1]))));
    assert!(to_result(Err(failed), ServerErrors::InWords).is_ok());
}

#[test]
fn what_a_client_cannot_answer_is_for_its_author() {
    let required = json!({"requiredCapabilities": {"elicitation": {}, "sampling": {}}});
    let error = McpServerError {
        code: -32021,
        message: "it cannot be asked".to_owned(),
        data: Some(required.clone()),
    };
    let failed = CallError::execution_failed("it failed").with_details(error.to_details());
    let error = to_result(Err(failed), ServerErrors::InWords).unwrap_err();
    assert_eq!((error.code.0, error.data), (-32021, Some(required)));

    // What a tool's text says is the tool's own.
    let quoted = "MCP error -32021: it cannot be asked: elicitation, sampling";
    let error = CallError::execution_failed(quoted);
    assert!(to_result(Err(error), ServerErrors::AsTheyAre).is_ok());
}
