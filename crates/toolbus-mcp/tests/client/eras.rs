//! Both eras of the protocol over HTTP: with sessions, and without.

use serde_json::{Value, json};
use toolbus_mcp::{CallError, ServerState};
use toolbus_testkit::{eventually, mcp};

use toolbus_wire::ErrorCode;

use crate::support::*;

fn protocol(set: &toolbus_mcp::server_pool::ServerPool) -> String {
    match state(set, "h") {
        ServerState::Connected { protocol, .. } => protocol,
        other => panic!("{other:?}"),
    }
}

async fn speaks_the_newer_era(form: &str) {
    let Some(time) = mcp::time() else { return };
    let server = Script::start_with(&time.command, "kit_http.py", form);
    let set = start(json!({"h": {"url": server.url("/mcp")}})).await;
    assert_eq!(protocol(&set), "2026-07-28");
    let (sink, _heard) = progress();
    let echo = call_of("h", "echo", json!({"text": "here"}));
    let echo = set.call(echo.with_progress(sink)).await.unwrap();
    assert_eq!(echo.text.as_deref(), Some("here"));
    let unknown = call(&set, "h", "no_such_tool", json!({})).await.unwrap_err();
    assert!(matches!(unknown, CallError::ToolUnknown { .. }), "{unknown}");
    // Tools that change are told to who has asked for that.
    let subscribed = |request: &Value| request["method"] == "subscriptions/listen";
    eventually(PATIENCE, async || match server.log().await.iter().any(subscribed) {
        true => Ok(()),
        false => Err("no subscription"),
    })
    .await;
    server.ask("/control", Some(json!({}))).await;
    eventually(PATIENCE, async || match call(&set, "h", "late", json!({})).await {
        Ok(_) if tool_names(&set, "h").contains(&"late".to_owned()) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    set.close(PATIENCE).await;

    let log = server.log().await;
    let methods: Vec<&str> = log.iter().filter_map(|request| request["method"].as_str()).collect();
    assert_eq!(methods[..2], ["server/discover", "tools/list"], "{methods:?}");
    assert!(!methods.contains(&"initialize"), "{methods:?}");
    for request in log.iter().filter(|request| request["http"] == "POST") {
        let headers = &request["headers"];
        assert_eq!(headers["mcp-protocol-version"], "2026-07-28", "{request}");
        assert_eq!(headers["mcp-method"], request["method"], "{request}");
        assert_eq!(headers["mcp-session-id"], Value::Null, "{request}");
        let meta = &request["meta"];
        assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], "2026-07-28", "{request}");
        assert_eq!(meta["io.modelcontextprotocol/clientInfo"]["name"], "toolbus", "{request}");
    }
    let call = log.iter().find(|request| request["method"] == "tools/call").expect("a call");
    assert_eq!(call["headers"]["mcp-name"], "echo");
    assert!(call["meta"]["progressToken"].is_number(), "{call}");
}

#[tokio::test]
async fn the_newer_era_needs_no_session() {
    tokio::join!(speaks_the_newer_era("json"), speaks_the_newer_era("stream"));
}

/// A tool may say anything, and what it says is no word of its server's about sessions.
#[tokio::test]
async fn a_tool_that_speaks_of_sessions_ends_none() {
    for how in ["tool-200", "tool-400", "tool-stream"] {
        let server = Script::start("sessions.py", how);
        let set = start(json!({"h": {"url": server.url("/mcp")}})).await;
        let before = server.log().await.len();
        let error = call(&set, "h", "echo", json!({})).await.unwrap_err();
        assert!(error.to_string().contains("Session not found"), "{how}: {error}");
        assert_eq!(error.code(), ErrorCode::ExecutionFailed, "{how}");
        assert_eq!(server.log().await.split_off(before), ["tools/call"], "{how}");
        set.close(PATIENCE).await;
    }
}

#[tokio::test]
async fn a_lost_session_costs_the_next_call_a_new_connection() {
    for how in ["404", "400"] {
        let server = Script::start("sessions.py", how);
        let set = start(json!({"h": {"url": server.url("/mcp")}})).await;
        assert_eq!(protocol(&set), "2025-11-25");
        let echo = async || call(&set, "h", "echo", json!({})).await.unwrap().text;
        assert_eq!(echo().await.as_deref(), Some("here"));
        let before = server.log().await.len();
        server.ask("/control", Some(json!({}))).await;
        assert_eq!(echo().await.as_deref(), Some("here"), "{how}");
        assert_eq!(echo().await.as_deref(), Some("here"), "{how}");
        // The one in vain, what a new connection takes, the same call again; and then one each. The
        // server may have other tools by now.
        let after = server.log().await.split_off(before);
        let expected = [
            "tools/call",
            "server/discover",
            "initialize",
            "notifications/initialized",
            "tools/list",
            "tools/call",
            "tools/call",
        ];
        assert_eq!(after, expected, "{how}");

        // Calls that find it out at the same time share the new session.
        server.ask("/control", Some(json!({}))).await;
        let before = server.log().await.len();
        let calls = (0..16).map(|_| echo());
        for answer in futures_util::future::join_all(calls).await {
            assert_eq!(answer.as_deref(), Some("here"), "{how}");
        }
        let after = server.log().await.split_off(before);
        let initialized = after.iter().filter(|method| *method == "initialize").count();
        assert_eq!(initialized, 1, "{how}: {after:?}");
        set.close(PATIENCE).await;
    }
}
