//! Servers that hang are found and started again; servers that are only slow are left alone.

use std::time::Duration;

use serde_json::{Value, json};
use toolbus_bus::Deadline;
use toolbus_mcp::server_pool::{Change, ServerPool};
use toolbus_testkit::eventually;
use toolbus_wire::ErrorCode;

use crate::support::*;

/// Until a request that is made now is with its server.
const LONG_ENOUGH: Duration = Duration::from_millis(500);

/// Calls the tools one after the other, and each of them times out.
async fn time_out(set: &ServerPool, tools: [&str; 3]) {
    for tool in tools {
        let deadline = Deadline::after(LONG_ENOUGH);
        let call = set.call(call_of("h", tool, json!({})).with_deadline(deadline)).await;
        assert_eq!(call.unwrap_err().code(), ErrorCode::Timeout, "{tool}");
    }
}

/// After three calls without an answer the server is away, with the reason, and back in the end.
async fn check_found(entry: Value, tools: [&str; 3]) {
    let set = start(json!({"h": entry})).await;
    let mut changes = set.changes();
    next(&mut changes).await;
    time_out(&set, tools).await;

    let Some(Change::Listed(away)) = next(&mut changes).await else { panic!() };
    assert_eq!(away.unavailable.as_deref(), Some("it answers neither calls nor a probe"));
    let Some(Change::Listed(back)) = next(&mut changes).await else { panic!() };
    assert_eq!(back.unavailable, None);
    call(&set, "h", "echo", json!({"message": "x"})).await.unwrap();
    set.close(Duration::ZERO).await;
}

#[tokio::test]
async fn a_program_that_hangs_is_started_again() {
    let folder = tempfile::tempdir().unwrap();
    check_found(hostile(folder.path(), "slow"), ["slow", "echo", "echo"]).await;
    let pids = pids(folder.path(), "slow");
    assert_eq!(pids.len(), 2, "the one that hung, and another");
    gone(&pids).await;
}

#[tokio::test]
async fn an_http_server_that_hangs_is_connected_again() {
    let server = Script::start("hostile_http.py", "hangs");
    check_found(json!({"url": server.url("/")}), ["silent", "echo", "echo"]).await;
}

#[tokio::test]
async fn an_event_stream_that_is_half_open_is_opened_again() {
    let server = Script::start("older_http.py", "good");
    let entry = json!({"type": "sse", "url": server.url("/sse")});
    check_found(entry, ["half-opens", "echo", "echo"]).await;
}

#[tokio::test]
async fn a_program_that_does_one_thing_after_the_other_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let set = start(json!({"h": hostile(folder.path(), "slow")})).await;
    let nap = call(&set, "h", "nap", json!({}));
    // The nap is sent first.
    let (nap, ()) = tokio::join!(nap, time_out(&set, ["echo", "echo", "echo"]));
    assert_eq!(nap.unwrap().text.as_deref(), Some("awake"));
    call(&set, "h", "echo", json!({})).await.unwrap();
    assert_eq!(pids(folder.path(), "slow").len(), 1);
    set.close(Duration::ZERO).await;
}

#[tokio::test]
async fn a_server_that_answers_the_probe_is_left_alone() {
    let server = Script::start("hostile_http.py", "good");
    let set = start(json!({"h": {"url": server.url("/")}})).await;
    let mut changes = set.changes();
    next(&mut changes).await;
    time_out(&set, ["silent", "silent", "silent"]).await;
    eventually(PATIENCE, async || {
        let asked = server.log().await;
        let has_pinged = asked.iter().any(|request| request == "ping");
        if has_pinged { Ok(()) } else { Err(asked) }
    })
    .await;
    call(&set, "h", "echo", json!({})).await.unwrap();
    set.close(Duration::ZERO).await;
    assert_eq!(changes.next().await, None, "it was never away");
}
