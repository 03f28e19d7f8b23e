//! How programs are started: where, with which variables, and not at all when they are disabled.

use serde_json::{Value, json};
use toolbus_mcp::server_pool::ServerPool;
use toolbus_mcp::{CallError, ServerState};

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

    let mut entry = hostile(&path, "good");
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
