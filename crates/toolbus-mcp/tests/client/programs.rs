//! How programs are started: where, with which variables, and not at all when they are disabled.

use std::time::Duration;

use serde_json::{Value, json};
use toolbus_mcp::server_pool::ServerPool;
use toolbus_mcp::{CallError, ServerState, StartStep};
use toolbus_testkit::eventually;

use crate::support::*;

/// Where a hostile server runs, and the variables `A` and `B` of its environment.
async fn whereabouts(set: &ServerPool, server: &str) -> Value {
    let told = call(set, server, "where", json!({})).await.unwrap();
    serde_json::from_str(told.text.as_deref().unwrap()).unwrap()
}

#[tokio::test]
async fn the_folder_and_the_file_of_variables_of_an_entry() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap();
    let file = path.join("env");
    std::fs::write(&file, "A=from the file\nB='and this'\n").unwrap();

    let mut entry = hostile(&path, "where");
    entry["cwd"] = json!(path);
    entry["envFile"] = json!(file);
    entry["env"] = json!({"B": "from the entry"});
    let mut unsupervised = options();
    unsupervised.supervisor = None;

    for options in [options(), unsupervised] {
        let set = start_with(json!({"a": entry}), options).await;
        let expected = json!({"cwd": path, "A": "from the file", "B": "from the entry"});
        assert_eq!(whereabouts(&set, "a").await, expected);
        set.close(PATIENCE).await;
    }
}

#[tokio::test]
async fn a_folder_or_a_file_that_is_not_there_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let nowhere = folder.path().join("nowhere");
    let file = folder.path().join("env");
    std::fs::write(&file, "A=1\ns3cret\n").unwrap();

    let with = |member: &str, path: &std::path::Path| {
        let mut entry = hostile(folder.path(), "good");
        entry[member] = json!(path);
        entry
    };
    let set = start(json!({
        "cwd": with("cwd", &nowhere),
        "missing": with("envFile", &nowhere),
        "wrong": with("envFile", &file),
    }))
    .await;
    let failure = |server| match state(&set, server) {
        ServerState::Failed { failure, .. } => failure.to_string(),
        other => panic!("{server}: {other:?}"),
    };
    assert_eq!(failure("cwd"), format!("its cwd {nowhere:?} is no folder"));
    let missing = failure("missing");
    let expected = format!("its envFile {nowhere:?}: it cannot be read: No such file");
    assert!(missing.starts_with(&expected), "{missing}");
    assert_eq!(failure("wrong"), format!("its envFile {file:?}: line 2 has no '='"));
}

#[tokio::test]
async fn credentials_of_the_file_of_variables_are_erased() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("env");
    std::fs::write(&file, "API_TOKEN=token-of-the-file\nLOG_LEVEL=information\n").unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/servers/leaking.py");
    let entry = json!({"command": "python3", "args": ["-I", script, "--key", "the-key"],
        "envFile": file});
    let set = start(json!({"l": entry})).await;

    let said = call(&set, "l", "say", json!({})).await.unwrap();
    assert!(said.text.unwrap().starts_with("*** and *** in information"));
    let error = call(&set, "l", "fail", json!({})).await.unwrap_err();
    assert!(error.to_string().contains("*** and *** in ***"), "{error}");
}

#[tokio::test]
async fn a_program_that_takes_long_to_start_says_how_far_it_is() {
    let script = "echo fetching 7 of 12 >&2; read request; echo still fetching >&2; sleep 60";
    let entry = json!({"command": "sh", "args": ["-c", script]});
    let set = ServerPool::start(entries(json!({"a": entry})), options()).unwrap();
    let progress = eventually(PATIENCE, async || match state(&set, "a") {
        ServerState::Starting(progress) if progress.last_words.is_some() => Ok(progress),
        other => Err(format!("{other:?}")),
    })
    .await;
    assert_eq!((progress.step, progress.limit), (StartStep::FirstAnswer, CONNECT_LIMIT));
    assert!(progress.last_words.unwrap().contains("fetching"));

    let status = toolbus_mcp::status(&set);
    let status = &status["servers"][0];
    assert_eq!(status["state"], "starting");
    assert_eq!(status["start"]["step"], "first_answer");
    assert_eq!(status["start"]["limit_s"], CONNECT_LIMIT.as_secs());
    assert!(status["start"]["last_words"].as_str().unwrap().contains("fetching"));
    set.close(PATIENCE).await;
}

#[tokio::test]
async fn an_entry_says_how_long_its_server_may_take_to_start() {
    let folder = tempfile::tempdir().unwrap();
    let mut patient = hostile(folder.path(), "good");
    patient["startupTimeoutMs"] = json!(CONNECT_LIMIT.as_millis() as u64);
    let script = "echo fetching >&2; sleep 60";
    let slow = json!({"command": "sh", "args": ["-c", script], "startupTimeoutMs": 500});

    let mut options = options();
    options.connect_timeout = Duration::from_millis(1);
    let set = start_with(json!({"patient": patient}), options).await;
    assert!(matches!(state(&set, "patient"), ServerState::Connected { .. }));
    set.close(PATIENCE).await;

    let set = start(json!({"slow": slow})).await;
    let ServerState::Failed { failure, .. } = state(&set, "slow") else { panic!("not failed") };
    assert_eq!(failure.to_string(), "it did not finish connecting within 500 ms");
    assert_eq!(failure.last_words(), Some("fetching"));
    set.close(PATIENCE).await;
}

#[tokio::test]
async fn a_disabled_server_is_not_started_and_keeps_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let mut entry = hostile(folder.path(), "good");
    entry["disabled"] = json!(true);
    let set = start(json!({"a": entry})).await;

    assert_eq!(state(&set, "a"), ServerState::Disabled);
    assert_eq!(toolbus_mcp::status(&set)["servers"][0]["state"], "disabled");
    assert!(set.find("a").unwrap().summary.is_none(), "agents are not told of it");
    let error = call(&set, "a", "echo", json!({})).await.unwrap_err();
    assert!(matches!(error, CallError::NotConnected { .. }), "{error:?}");
    assert!(error.to_string().contains("the operator has disabled it"), "{error}");
    assert!(pids(folder.path(), "good").is_empty());

    set.close(PATIENCE).await;
    assert_eq!(state(&set, "a"), ServerState::Stopped);
}
