//! Servers that send their client more requests than it can answer. That costs nobody else anything:
//! what is held of their requests is bounded.

use std::time::Duration;

use serde_json::json;
use tokio::runtime::Handle;
use toolbus_mcp::server_pool::ServerPool;

use crate::support::*;

/// More tasks than there are for as many requests as a server may have at a time, and far fewer than
/// there would be for the thousands that it sends.
const TASKS_MAX: usize = 400;

/// A tool asks 20,000 times before it answers, and takes no reply until then.
async fn check_bounded(set: &ServerPool, tool: &str) {
    let answer = call(set, "h", tool, json!({})).await.expect(tool);
    assert_eq!(answer.text.as_deref(), Some("asked"), "{tool}");
    let tasks = Handle::current().metrics().num_alive_tasks();
    assert!(tasks <= TASKS_MAX, "{tool}: {tasks} tasks");
    call(set, "h", "echo", json!({})).await.expect("an answer");
}

#[tokio::test]
async fn an_id_is_used_again_and_again_over_stdio() {
    let folder = tempfile::tempdir().unwrap();
    let set = start(json!({"h": hostile(folder.path(), "talks")})).await;
    check_bounded(&set, "same-ping").await;
    set.close(Duration::ZERO).await;
}

#[tokio::test]
async fn an_id_is_used_again_and_again_over_http() {
    let server = Script::start("hostile_http.py", "good");
    let set = start(json!({"h": {"url": server.url("/")}})).await;
    check_bounded(&set, "same-ping").await;
    set.close(Duration::ZERO).await;
}

#[tokio::test]
async fn requests_are_taken_back_at_once_over_stdio() {
    let folder = tempfile::tempdir().unwrap();
    let set = start(json!({"h": hostile(folder.path(), "talks")})).await;
    check_bounded(&set, "cancelled-pings").await;
    set.close(Duration::ZERO).await;
}

#[tokio::test]
async fn requests_are_taken_back_at_once_over_http() {
    let server = Script::start("hostile_http.py", "good");
    let set = start(json!({"h": {"url": server.url("/")}})).await;
    check_bounded(&set, "cancelled-pings").await;
    set.close(Duration::ZERO).await;
}
