use toolbus_wire::message::tool::{ContentBlock as WireBlock, ContentKind};

use super::*;

#[test]
fn only_what_the_client_did_wrong_has_the_servers_code() {
    let check = |told: i32, code: i32, message: &str| {
        let server_error =
            McpServerError { code: told, message: "its words".to_owned(), data: None };
        let failed = CallError::execution_failed("text").with_details(server_error.to_details());
        let error = error(failed);
        assert_eq!((error.code.0, &*error.message), (code, message), "{told}");
    };
    check(-32002, -32002, "its words");
    check(-32602, -32602, "its words");
    check(-32603, -32603, "execution_failed: text");

    // A text means nothing to a program.
    let error = error(CallError::execution_failed("MCP error -32002: not there"));
    assert_eq!(error.code.0, -32603);
}

#[test]
fn a_message_keeps_what_is_more_than_text() {
    let picture = WireBlock {
        kind: ContentKind::Image,
        text: None,
        data: Some("AAAA".to_owned()),
        mime_type: Some("image/png".to_owned()),
        uri: None,
    };
    let of = |role: &str, block| McpPromptMessage {
        role: role.to_owned(),
        content: Some("hi".to_owned()),
        content_type: None,
        block,
    };
    let told = [of("user", None), of("assistant", Some(picture))].map(to_prompt_message);
    let expected = json!([
        {"role": "user", "content": {"type": "text", "text": "hi"}},
        {"role": "assistant",
         "content": {"type": "image", "data": "AAAA", "mimeType": "image/png"}},
    ]);
    assert_eq!(serde_json::to_value(told).unwrap(), expected);
}

#[test]
fn contents_are_text_or_bytes() {
    let of = |text: Option<&str>, blob: Option<&str>| {
        let told = McpResourceContents {
            uri: "a:b".to_owned(),
            mime_type: None,
            text: text.map(str::to_owned),
            blob: blob.map(str::to_owned),
        };
        serde_json::to_value(to_contents(told)).unwrap()
    };
    assert_eq!(of(Some("hi"), None), json!({"uri": "a:b", "text": "hi"}));
    assert_eq!(of(None, Some("AAAA")), json!({"uri": "a:b", "blob": "AAAA"}));
}
