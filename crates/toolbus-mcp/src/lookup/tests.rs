use serde_json::json;

use super::*;

fn read(contents_of: Value) -> McpReadResourceResponse {
    let result = json!({"contents": contents_of});
    contents(serde_json::from_value(result).expect("a result"))
}

#[test]
fn contents_are_text_or_bytes() {
    let response = read(json!([
        {"uri": "a://1", "mimeType": "text/plain", "text": "abc"},
        {"uri": "a://2", "blob": "YWJj"},
    ]));
    let [text, blob] = &response.contents[..] else { panic!("{response:?}") };
    assert_eq!(
        (text.text.as_deref(), text.mime_type.as_deref()),
        (Some("abc"), Some("text/plain"))
    );
    assert_eq!((blob.blob.as_deref(), blob.uri.as_str()), (Some("YWJj"), "a://2"));
    assert_eq!(response.left_out_bytes, None);
}

#[test]
fn a_text_that_is_too_long_is_cut_and_bytes_that_are_are_left_out() {
    let long = "é".repeat(RESULT_BYTES_MAX / 2);
    let response =
        read(json!([{"uri": "a", "text": format!("x{long}")}, {"uri": "b", "text": "c"}]));
    let kept = response.contents[0].text.as_deref().expect("text").len();
    // One byte for the URI, and a character of two that is not cut in the middle.
    assert_eq!(kept, RESULT_BYTES_MAX - 1);
    assert_eq!(response.left_out_bytes, Some(3));
    let response = read(json!([
        {"uri": "a", "blob": "x".repeat(RESULT_BYTES_MAX)},
        {"uri": "b", "text": "fits"},
    ]));
    assert_eq!(response.contents.len(), 1);
    assert_eq!(response.left_out_bytes, Some(RESULT_BYTES_MAX as u64));
}

#[test]
fn a_prompt_is_whole_or_none() {
    let read = |messages: Value| {
        prompt(serde_json::from_value(json!({"messages": messages})).expect("a result"))
    };
    let picture = json!({"type": "image", "data": "AAAA", "mimeType": "image/png"});
    let response = read(json!([
        {"role": "user", "content": {"type": "text", "text": "hi"}},
        {"role": "assistant", "content": picture},
    ]));
    let messages = response.expect("a prompt").messages;
    assert_eq!((messages[0].role.as_str(), messages[0].content.as_deref()), ("user", Some("hi")));
    assert_eq!(
        (messages[1].role.as_str(), messages[1].content_type.as_deref()),
        ("assistant", Some("image"))
    );
    assert_eq!(messages[1].block.as_ref().and_then(|b| b.data.as_deref()), Some("AAAA"));
    let long = "x".repeat(RESULT_BYTES_MAX / 2 + 1);
    let long = json!({"role": "user", "content": {"type": "text", "text": long}});
    assert_eq!(read(json!([long, long])), Err("the prompt is too long".to_owned()));
}

#[test]
fn a_page_is_bounded() {
    let many =
        (0..PAGE_MAX + 7).map(|number| Resource::new(format!("a://{number}"), "n")).collect();
    let response = page(many, Vec::new(), Some("c".repeat(URI_BYTES_MAX + 1)));
    assert_eq!((response.resources.len(), response.left_out), (PAGE_MAX, Some(7)));
    assert_eq!(response.next_cursor, None);
    let large = vec![Resource::new("a", "x".repeat(PAGE_BYTES_MAX)), Resource::new("b", "n")];
    let response = page(large, Vec::new(), None);
    assert_eq!((response.resources.len(), response.left_out), (1, Some(1)));
}

#[test]
fn a_page_goes_as_it_was_written_unless_something_is_hidden_in_it() {
    let clean = |text: &str| {
        clean_page(RawJson::parse(text.to_owned()).unwrap()).unwrap().text().to_owned()
    };
    let page = r#"{ "resources": [{"uri":"a:1","size":1.50,"new":{}}], "_meta": {} }"#;
    assert_eq!(clean(page), page);
    assert_eq!(
        clean(
            "{\"resources\":[{\"uri\":\"a:\u{200B}1\"},{\"uri\":\"a:2\",\"name\":\"n\u{200B}\"}]}"
        ),
        r#"{"resources":[{"uri":"a:2","name":"n"}]}"#
    );
}

/// Another reader of the same page may see what was not looked at here.
#[test]
fn a_page_that_readers_could_read_differently_is_not_passed_on() {
    let page = |text: &str| clean_page(RawJson::parse(text.to_owned()).unwrap());
    let twice = "{\"resources\":[{\"uri\":\"a:\u{200B}1\"}],\"resources\":[]}";
    assert_eq!(page(twice).unwrap().text(), r#"{"resources":[]}"#);
    let half = "{\"resources\":[{\"uri\":\"a:\u{200B}1\",\"name\":\"\\ud800\"}]}";
    assert_eq!(page(half), Err(ValueError::Unreadable));
}

#[test]
fn what_is_hidden_in_a_listing_is_taken_out() {
    let mut resource = Resource::new("a://1", "na\u{200B}me");
    resource.description = Some("look\u{E0068}\u{7} here".to_owned());
    resource.title = Some("T\u{202E}itle".to_owned());
    let hidden = Resource::new("a://2\u{200B}", "another");
    let template = ResourceTemplate::new("a://{x}", "tem\u{200B}plate");
    let response = page(vec![resource, hidden], vec![template], None);
    assert_eq!((response.resources.len(), response.left_out), (1, Some(1)));
    let listed = &response.resources[0];
    assert_eq!((&*listed.uri, &*listed.name), ("a://1", "name"));
    assert_eq!(listed.description.as_deref(), Some("look here"));
    assert_eq!(listed.title.as_deref(), Some("Title"));
    assert_eq!(response.templates[0].name, "template");
}

/// The meta is not what is sent, so it hides no name.
#[test]
fn a_prompt_is_named_whatever_its_meta_is() {
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    for meta in ["{}", "5", &deep, r#"{},"_meta":{}"#] {
        let params = RawJson::parse(format!(r#"{{"name":"p","_meta":{meta}}}"#)).expect("JSON");
        let request = ReadRequest::Relay(Method::GetPrompt, params);
        assert_eq!(request.prompt_name().as_deref(), Some("p"), "{meta}");
    }
}
