use super::*;

#[test]
fn a_body_that_is_no_message_is_refused_by_what_is_wrong_with_it() {
    let check = |body: &[u8], code: i32, message: &str, id: Option<Value>| {
        let error = body_error(&Bytes::copy_from_slice(body));
        let message = message.to_owned();
        assert_eq!(error, BodyError { code, message, id }, "{}", String::from_utf8_lossy(body));
    };
    check(b"", -32700, "Parse error: the body is empty", None);
    check(b" \r\n", -32700, "Parse error: the body is empty", None);
    check(b"{\"a\":\n}", -32700, "Parse error: the body is no JSON at line 2, column 1", None);
    check(b"{} {}", -32700, "Parse error: the body is no JSON at line 1, column 4", None);
    check(b"\"\xff\"", -32700, "Parse error: the body is not of UTF-8", None);

    let check = |body: &str, reason: &str, id: Option<Value>| {
        let reason = format!("Invalid Request: {reason}");
        check(body.as_bytes(), -32600, &reason, id);
    };
    for body in ["null", "1", "\"ping\"", "true"] {
        check(body, "a message is a JSON object", None);
    }
    for body in ["[]", r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#] {
        check(body, "a batch is not taken: each message has a POST of its own", None);
    }
    let version = "`jsonrpc` has to be \"2.0\"";
    check("{}", version, None);
    check(r#"{"jsonrpc":"1.0","id":7,"method":"ping"}"#, version, Some(json!(7)));
    let method = "`method` has to be a text";
    check(r#"{"jsonrpc":"2.0","id":"a"}"#, method, Some(json!("a")));
    check(r#"{"jsonrpc":"2.0","id":1,"method":5}"#, method, Some(json!(1)));
    let id = "`id` has to be a text or a whole number";
    check(r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, id, None);
    check(r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, id, None);
    let long = format!(r#"{{"jsonrpc":"2.0","id":"{}","method":"ping"}}"#, "a".repeat(300));
    check(&long, id, None);
    let params = "`params` has to be an object";
    check(r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}"#, params, Some(json!(1)));
    let form = "it has not the form of a message of MCP";
    check(r#"{"jsonrpc":"2.0","id":1,"result":7}"#, form, Some(json!(1)));
}

/// Values within values are no work for the reader, nor for its stack.
#[test]
fn a_body_of_many_levels_is_refused_like_another() {
    let deep = format!("{}{}", "[".repeat(1 << 20), "]".repeat(1 << 20));
    let error = body_error(&Bytes::from(deep));
    assert!([-32700, -32600].contains(&error.code), "{error:?}");
}
