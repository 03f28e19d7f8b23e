//! Servers that are away: agents are told so, with the reason, and told when they are back.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, sleep, timeout};
use toolbus_mcp::ServerState;
use toolbus_mcp::server_pool::{Change, Changes};
use toolbus_testkit::eventually;
use toolbus_wire::message::mcp::McpServerSummary;
use toolbus_wire::{ErrorCode, Execution};

use crate::support::*;

/// Puts a server in the place of `command`.
fn install(folder: &Path, command: &Path) {
    let server = hostile(folder, "plain");
    let arguments: Vec<_> =
        server["args"].as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect();
    let program = server["command"].as_str().unwrap();
    std::fs::write(command, format!("#!/bin/sh\nexec {program} {}\n", arguments.join(" ")))
        .unwrap();
    std::fs::set_permissions(command, std::fs::Permissions::from_mode(0o700)).unwrap();
}

async fn told(changes: &mut Changes) -> McpServerSummary {
    match timeout(PATIENCE, changes.next()).await {
        Ok(Some(Change::Listed(summary))) => summary,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn agents_are_told_why_a_server_is_away_and_when_it_is_back() {
    let folder = tempfile::tempdir().unwrap();
    let command = folder.path().join("server");
    let set = start(json!({"late": {"command": command}})).await;
    let mut changes = set.changes();

    let never = told(&mut changes).await;
    let why = never.unavailable.unwrap();
    assert!(why.ends_with("cannot be started: No such file or directory (os error 2)"), "{why}");
    assert_eq!(never.summary, Some(format!("Not available: {why}.")));
    assert_eq!((never.tool_count, never.tool_names), (0, Vec::new()));

    install(folder.path(), &command);
    call(&set, "late", "echo", json!({})).await.unwrap();
    let there = told(&mut changes).await;
    assert_eq!((there.unavailable, there.tool_count), (None, 3));

    // It dies, and there is no way back: what it can do is known, and that it cannot now.
    std::fs::remove_file(&command).unwrap();
    call(&set, "late", "die", json!({})).await.unwrap_err();
    let gone = told(&mut changes).await;
    assert_eq!((gone.unavailable, gone.tool_count), (Some(why), 3));

    // One that comes back at once was never away.
    install(folder.path(), &command);
    call(&set, "late", "echo", json!({})).await.unwrap();
    assert_eq!(told(&mut changes).await.unavailable, None);
    call(&set, "late", "die", json!({})).await.unwrap_err();
    call(&set, "late", "echo", json!({})).await.unwrap();
    set.close(PATIENCE).await;
    assert_eq!(timeout(PATIENCE, changes.next()).await.unwrap(), None);
}

#[tokio::test]
async fn one_that_appears_is_connected_though_nobody_calls_it() {
    let folder = tempfile::tempdir().unwrap();
    let command = folder.path().join("server");
    let set = start(json!({"late": {"command": command}})).await;
    let mut changes = set.changes();
    assert!(told(&mut changes).await.unavailable.is_some());
    install(folder.path(), &command);
    // It may be tried while it is only half there.
    let there = loop {
        match told(&mut changes).await {
            summary if summary.unavailable.is_none() => break summary,
            _ => {}
        }
    };
    assert_eq!(there.tool_count, 3);
    set.close(PATIENCE).await;
}

#[tokio::test(start_paused = true)]
async fn one_that_stays_away_is_tried_later_each_time() {
    let mut options = options();
    // What is not there is found not to be at once, without a process in between.
    options.supervisor = None;
    let set = start_with(json!({"away": {"command": "/nowhere/server"}}), options).await;
    for (attempt, pause) in (1..).zip([1, 2, 4, 8, 16, 32, 60, 60]) {
        let ServerState::Failed { attempts, next_try_in, .. } = state(&set, "away") else {
            panic!("{:?}", state(&set, "away"))
        };
        let seconds = next_try_in.as_millis().div_ceil(1_000);
        assert_eq!((attempts, seconds), (attempt, pause));
        // Until a moment after the next attempt.
        sleep(next_try_in + Duration::from_millis(50)).await;
    }
    set.close(Duration::ZERO).await;
}

#[tokio::test(start_paused = true)]
async fn calls_of_one_that_stays_away_are_refused_at_once() {
    let mut options = options();
    options.supervisor = None;
    let set = start_with(json!({"away": {"command": "/nowhere/server"}}), options).await;
    // The call has two more attempts made, and waits for them.
    call(&set, "away", "echo", json!({})).await.unwrap_err();
    let ServerState::Failed { attempts: 3, next_try_in, is_circuit_open: true, .. } =
        state(&set, "away")
    else {
        panic!("{:?}", state(&set, "away"))
    };

    let began = Instant::now();
    for _ in 0..10 {
        let error = call(&set, "away", "echo", json!({})).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::ToolNotFound, "{error}");
        assert_eq!(error.execution(), Execution::NotStarted);
        assert!(error.to_string().contains("No such file or directory"), "{error}");
        assert_eq!(error.retry_after(), Some(next_try_in));
    }
    assert_eq!(began.elapsed(), Duration::ZERO);
    let status = &toolbus_mcp::status(&set)["servers"][0]["retry"];
    assert_eq!(*status, json!({"failed_attempts": 3, "in_s": 4, "circuit": "open"}));
    set.close(Duration::ZERO).await;
}

#[tokio::test]
async fn one_that_is_back_takes_calls_again() {
    let folder = tempfile::tempdir().unwrap();
    let command = folder.path().join("server");
    let set = start(json!({"late": {"command": command}})).await;
    call(&set, "late", "echo", json!({})).await.unwrap_err();
    install(folder.path(), &command);
    eventually(PATIENCE, async || call(&set, "late", "echo", json!({})).await).await;
    assert!(matches!(state(&set, "late"), ServerState::Connected { .. }));
    set.close(PATIENCE).await;
}

#[tokio::test]
async fn one_that_is_retried_still_says_why_it_is_away() {
    let folder = tempfile::tempdir().unwrap();
    let retried = folder.path().join("retried");
    let script = "[ -e $0/retry ] || exit 3; : > $0/retried; exec sleep 60";
    let entry = json!({"command": "sh", "args": ["-c", script, folder.path()]});
    let set = start(json!({"away": entry})).await;

    std::fs::write(folder.path().join("retry"), "").unwrap();
    timeout(PATIENCE, async {
        while !retried.exists() {
            sleep(Duration::from_millis(10)).await;
        }
    })
    .await
    .unwrap();
    let ServerState::Failed { failure, attempts, next_try_in, .. } = state(&set, "away") else {
        panic!("{:?}", state(&set, "away"))
    };
    assert!(failure.to_string().ends_with("(exit status: 3)"), "{failure}");
    assert_eq!((attempts, next_try_in), (1, Duration::ZERO));
    set.close(Duration::ZERO).await;
}
