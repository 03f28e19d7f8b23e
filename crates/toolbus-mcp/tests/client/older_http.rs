//! Servers of the older HTTP transport: one that others wrote, and some that do something wrong.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use toolbus_bus::Deadline;
use toolbus_mcp::server_pool::ServerPool;
use toolbus_mcp::{CallError, ServerState};
use toolbus_testkit::{eventually, mcp};
use toolbus_wire::ErrorCode;

use crate::support::*;

fn entry(server: &Script, kind: &str) -> Value {
    json!({"h": {"type": kind, "url": server.url("/s3cret-path-to-it?key=s3cret-query"),
        "headers": {"X-Key": "s3cret-key"}}})
}

async fn works(set: &ServerPool) {
    let echo = call(set, "h", "echo", json!({})).await.expect("an answer");
    assert_eq!(echo.text.as_deref(), Some("here"));
}

#[tokio::test]
async fn a_real_one() {
    let Some(mut server) = mcp::everything_sse().await else { return };
    let mut entry = server.to_json();
    entry["deniedTools"] = json!([crate::real::DENIED]);
    let set = start(json!({"everything": entry})).await;
    crate::real::answers_as_recorded(&set).await;
    crate::real::progress_timeout_and_cancellation(&set).await;
    let echo = async || call(&set, "everything", "echo", json!({"message": "x"})).await;

    // The end of the stream is noticed without a call, and the next call finds a new one.
    server.crash();
    eventually(PATIENCE, async || match state(&set, "everything") {
        ServerState::Failed { .. } => Ok(()),
        other => Err(other),
    })
    .await;
    server.start_again().await.unwrap();
    eventually(PATIENCE, echo).await;
    set.close(PATIENCE).await;
}

#[tokio::test]
async fn what_worked_is_remembered() {
    let server = Script::start("older_http.py", "good");
    let set = start(entry(&server, "sse")).await;
    works(&set).await;
    let first = server.log().await;
    let found_out = first.iter().filter(|request| *request == "POST elsewhere").count();
    assert_eq!(found_out, 2, "it was asked what it speaks, and initialized: {first:?}");

    // Lost in a call, and connected again without asking.
    let error = call(&set, "h", "closes", json!({})).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::OutcomeUnknown, "{error}");
    works(&set).await;
    let again = server.log().await.split_off(first.len());
    let expected = [
        "POST tools/call",
        "GET",
        "POST initialize",
        "POST notifications/initialized",
        "POST tools/list",
        "POST tools/call",
    ];
    assert_eq!(again, expected);
    set.close(PATIENCE).await;

    let set = start(entry(&server, "http")).await;
    let ServerState::Failed { failure, .. } = state(&set, "h") else { panic!() };
    assert!(failure.to_string().starts_with("it does not take streamable HTTP"), "{failure}");
    set.close(PATIENCE).await;
}

#[tokio::test]
async fn streams_that_do_not_begin_as_they_should() {
    const SLOW: &str = "it did not finish connecting within 2000 ms";
    let check = async |kind: &str, expected: &str| {
        let server = Script::start("older_http.py", kind);
        let mut options = options();
        if expected == SLOW {
            options.connect_timeout = Duration::from_secs(2);
        }
        let set = start_with(entry(&server, "sse"), options).await;
        let ServerState::Failed { failure, .. } = state(&set, "h") else { panic!("{kind}") };
        let failure = failure.to_string();
        assert!(failure.contains(expected), "{kind}: {failure}");
        assert!(!failure.contains("s3cret") && !failure.contains("127.0.0.1"), "{kind}: {failure}");
        set.close(Duration::ZERO).await;
    };
    tokio::join!(
        check("silent", SLOW),
        check("flood", SLOW),
        check("endless", SLOW),
        check("no-stream", "Unexpected content type: Some(\"text/plain\")"),
        check("elsewhere", "HTTP 302"),
        check("other-origin", "the address for messages is of another origin"),
        check("other-scheme", "the address for messages is of another origin"),
        check("no-address", "the address for messages is none"),
        check("long-address", "the address for messages is too long"),
    );
}

#[tokio::test]
async fn calls_end_with_their_error() {
    let server = Script::start("older_http.py", "good");
    let set = start(entry(&server, "auto")).await;
    let headers = call(&set, "h", "headers", json!({})).await.expect("an answer");
    // The server was given its key, and says it; nobody else hears it.
    assert_eq!(headers.text.as_deref(), Some("***"));
    let check = async |tool: &str, code: ErrorCode, expected: &str| {
        let began = Instant::now();
        let limit = if tool == "silent" { Duration::from_secs(3) } else { PATIENCE };
        let deadline = Deadline::after(limit);
        let error = set.call(call_of("h", tool, json!({})).with_deadline(deadline)).await;
        let error = error.expect_err(tool);
        assert_eq!(error.code(), code, "{tool}: {error}");
        assert!(error.to_string().contains(expected), "{tool}: {error}");
        assert!(!error.to_string().contains("s3cret"), "{tool}: {error}");
        assert!(began.elapsed() < PATIENCE, "{tool}: {:?}", began.elapsed());
        works(&set).await;
    };
    // Side by side on one stream: what one does wrong, the others do not feel.
    tokio::join!(
        check("silent", ErrorCode::Timeout, "timed out after 3000ms"),
        check("broken", ErrorCode::ExecutionFailed, "HTTP 500"),
        check("unauthorized", ErrorCode::AuthRequired, "asks for authorization"),
        check("huge", ErrorCode::ExecutionFailed, "more than 16777216"),
        check("no-json", ErrorCode::ExecutionFailed, "is not a valid MCP message"),
        check("gone", ErrorCode::ToolNotFound, "Method not found"),
    );
    let batch = call(&set, "h", "batch", json!({})).await.expect("an answer");
    assert_eq!(batch.text.as_deref(), Some("in a batch"));
    let flood = call(&set, "h", "floods", json!({})).await.expect("an answer");
    assert_eq!(flood.text.as_deref(), Some("after the flood"));
    check("closes", ErrorCode::OutcomeUnknown, "was lost during the call").await;
    let connects = async || server.log().await.iter().filter(|r| *r == "GET").count();
    assert_eq!(connects().await, 2, "one stream, and another after it was closed");
    set.close(Duration::ZERO).await;
}

#[tokio::test]
async fn a_server_that_asks_for_a_pause_is_left_alone_for_it() {
    let server = Script::start("older_http.py", "good");
    let set = start(entry(&server, "sse")).await;
    let before = server.log().await.len();
    let first = call(&set, "h", "pause", json!({})).await.unwrap_err();
    assert_eq!(first.retry_after(), Some(Duration::from_secs(50)), "{first}");
    let held = call(&set, "h", "echo", json!({})).await.unwrap_err();
    assert!(matches!(held, CallError::Paused { .. }), "{held}");
    assert_eq!(server.log().await.split_off(before), ["POST tools/call"]);
    set.close(Duration::ZERO).await;
}

#[tokio::test]
async fn a_session_that_is_not_known_is_replaced_and_the_call_sent_again() {
    let server = Script::start("older_http.py", "good");
    let set = start(entry(&server, "sse")).await;
    let error = call(&set, "h", "lost", json!({})).await.unwrap_err();
    assert!(error.to_string().contains("Session expired"), "{error}");
    let log = server.log().await;
    let calls = log.iter().filter(|request| *request == "POST tools/call").count();
    assert_eq!(calls, 2, "sent once more on a new stream: {log:?}");
    works(&set).await;
    set.close(Duration::ZERO).await;
}
