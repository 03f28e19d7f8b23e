//! What is taken out of what it was wrapped into.

use serde_json::json;

use super::*;

fn arguments(value: Value) -> Map<String, Value> {
    value.as_object().expect("an object").clone()
}

#[test]
fn a_call_inside_a_call_is_found() {
    let inner = |server: &str, tool: &str, value: Value| {
        let (server, tool) = (server.to_owned(), tool.to_owned());
        Some(WrappedCall { server, tool, arguments: arguments(value) })
    };
    let check =
        |value: Value, expected| assert_eq!(parse_wrapped_call(&arguments(value)), expected);
    check(
        json!({"server_name": "s", "tool_name": "t", "arguments": {"arguments": {"a": 1}}}),
        inner("s", "t", json!({"arguments": {"a": 1}})),
    );
    check(
        json!({"serverName": "s", "toolName": "t", "arguments": "{\"a\": 1}"}),
        inner("s", "t", json!({"a": 1})),
    );
    check(json!({"server_name": "s", "tool_name": "t"}), inner("s", "t", json!({})));
    check(json!({"server_name": "s", "tool_name": "t", "arguments": [1]}), None);
    check(json!({"server_name": "s", "tool_name": "t", "arguments": "no JSON"}), None);
    check(json!({"tool_name": "t"}), None);
}

#[test]
fn an_aggregator_that_is_asked_to_call_itself_is_called_once() {
    let nested = json!({"serverName": "x", "toolName": "y", "arguments": {}});
    let call =
        json!({"serverName": "My-Aggregator", "toolName": "invoke_tool", "arguments": nested});
    assert_eq!(parse_self_call(&arguments(call)), Some(arguments(nested.clone())));
    assert_eq!(parse_self_call(&arguments(nested)), None);
}
