use serde_json::json;
use toolbus_wire::message::mcp::McpServerError;

use super::*;

#[test]
fn a_server_s_error_is_told_as_it_told_it() {
    let data = Some(json!({"uri": "a:b"}));
    let told = McpServerError { code: -32002, message: "its words".to_owned(), data: data.clone() };
    let failed = CallError::execution_failed("text").with_details(told.to_details());
    let error = super::error(failed);
    assert_eq!((error.code.0, &*error.message, error.data), (-32002, "its words", data));

    // A text means nothing to a program.
    let error = super::error(CallError::execution_failed("MCP error -32002: not there"));
    assert_eq!(
        (error.code.0, &*error.message),
        (-32603, "execution_failed: MCP error -32002: not there")
    );
}
