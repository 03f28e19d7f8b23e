//! The list of MCP servers, as `agent-host mcp` shows and changes it.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use serde_json::{Value, json};
use tempfile::TempDir;
use toolbus_testkit::mcp as servers;
use toolbus_testkit::process::{Finished, Launch};

use crate::support::*;

const SECRET: &str = "c4nary-of-a-list";

/// A folder with a list of a test's own, and perhaps a vault.
struct ListFiles(TempDir);

impl ListFiles {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn with_vault() -> Self {
        let files = Self::new();
        std::fs::write(files.key(), "1".repeat(64)).unwrap();
        std::fs::set_permissions(files.key(), std::fs::Permissions::from_mode(0o600)).unwrap();
        files
    }

    fn list(&self) -> PathBuf {
        self.0.path().join("mcp.json")
    }

    fn key(&self) -> PathBuf {
        self.0.path().join("key")
    }

    fn read(&self) -> Value {
        serde_json::from_slice(&std::fs::read(self.list()).unwrap()).unwrap()
    }

    async fn mcp(&self, arguments: &[&str], input: &str) -> Finished {
        let store = format!("sqlite:{}", self.0.path().join("state.db").display());
        let launch = Launch::new("agent-host").arg("mcp").args(arguments).stdin(input);
        let launch = launch.env("TOOLBUS_STORE", store).env("TOOLBUS_MCP__CONFIG", self.list());
        let launch = match self.key().exists() {
            true => launch.env("TOOLBUS_VAULT__KEY_FILE", self.key()),
            false => launch,
        };
        let finished = launch.run(LIMIT).await.unwrap();
        assert!(!finished.stdout.contains(SECRET) && !finished.stderr.contains(SECRET));
        finished
    }

    async fn done(&self, arguments: &[&str], input: &str) -> String {
        let finished = self.mcp(arguments, input).await;
        assert!(finished.status.success(), "{finished:?}");
        finished.stdout
    }

    async fn refused(&self, arguments: &[&str], code: i32) -> String {
        let finished = self.mcp(arguments, "").await;
        assert_eq!(finished.status.code(), Some(code), "{finished:?}");
        finished.stderr
    }
}

#[tokio::test]
async fn a_server_is_added_connected_and_removed() {
    let Some(time) = servers::time() else { return };
    let files = ListFiles::new();
    let told = files.done(&["list"], "").await;
    assert_eq!(told, format!("There are no servers in {}.\n", files.list().display()));

    let mut add = vec!["add", "Clock", "--", &time.command];
    add.extend(time.args.iter().map(String::as_str));
    let told = files.done(&add, "").await;
    assert!(told.ends_with("`agent-host mcp sync` connects it\n"), "{told}");
    files.done(&["add", "gone", "--env", "LEVEL=warn", "--", "/nowhere/server", "--x"], "").await;
    let mode = files.list().metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    let told = files.done(&["list"], "").await;
    assert!(told.starts_with(&format!("Clock  {}", time.command)), "{told}");
    assert!(told.ends_with("gone   /nowhere/server --x\n"), "{told}");
    let shown: Value = serde_json::from_str(&files.done(&["show", "GONE"], "").await).unwrap();
    let expected = json!({"command": "/nowhere/server", "args": ["--x"], "env": {"LEVEL": "***"}});
    assert_eq!(shown, json!({"gone": expected}));

    let synced = files.mcp(&["sync"], "").await;
    assert_eq!(synced.status.code(), Some(1), "{synced:?}");
    assert!(synced.stdout.starts_with("Clock  connected, 2 tools\ngone   not available: "));
    assert_eq!(files.done(&["remove", "gone"], "").await.split(' ').next(), Some("removed"));
    let synced = files.done(&["sync", "--json"], "").await;
    let synced: Value = serde_json::from_str(&synced).unwrap();
    assert_eq!((&synced[0]["status"], &synced[0]["tools"]), (&json!("connected"), &json!(2)));
}

#[tokio::test]
async fn what_is_asked_for_goes_to_the_vault_and_is_not_shown() {
    let files = ListFiles::with_vault();
    let add = ["add", "notes", "--env", "API_TOKEN", "--", "notes-server"];
    files.done(&add, &format!("{SECRET}\n")).await;
    let entry = &files.read()["mcpServers"]["notes"];
    assert_eq!(entry["env"]["API_TOKEN"], "${vault:API_TOKEN}");
    let add = ["add", "web", "--url", "https://mcp.example/mcp", "--header", "Authorization"];
    files.done(&add, SECRET).await;
    let entry = &files.read()["mcpServers"]["web"];
    assert_eq!(entry["headers"]["Authorization"], "${vault:Authorization}");

    // Without a vault it is in the file, and shown nowhere.
    let files = ListFiles::new();
    let add = ["add", "notes", "--env", "API_TOKEN", "--", "notes-server"];
    files.done(&add, SECRET).await;
    assert_eq!(files.read()["mcpServers"]["notes"]["env"]["API_TOKEN"], SECRET);
    for look in [&["show", "notes"][..], &["list", "--json"]] {
        assert!(files.done(look, "").await.contains("\"API_TOKEN\": \"***\""));
    }
    files.done(&["add", "more", "--optional-env", "MODE", "--", "notes-server"], "\n").await;
    assert_eq!(files.read()["mcpServers"]["more"], json!({"command": "notes-server"}));
}

#[tokio::test]
async fn cx_c3_what_is_needed_is_asked_for_first_and_each_answer_is_a_line() {
    let files = ListFiles::new();
    let add = [
        &["add", "notes", "--optional-env", "MODE", "--optional-env", "API_KEY"][..],
        &["--env", "API_TOKEN", "--env", "REGION", "--", "notes-server"],
    ];
    let input = format!("{SECRET}\nnorth\nfast\n{SECRET}-2\n");
    let added = files.mcp(&add.concat(), &input).await;
    assert!(added.status.success(), "{added:?}");
    let expected = json!({
        "API_TOKEN": SECRET, "REGION": "north", "MODE": "fast", "API_KEY": format!("{SECRET}-2"),
    });
    assert_eq!(files.read()["mcpServers"]["notes"]["env"], expected);
    let prompts = added.stderr.find("REGION of notes: ").zip(added.stderr.find("MODE of notes"));
    assert!(prompts.is_some_and(|(first, second)| first < second), "{added:?}");
}

#[tokio::test]
async fn cx_c3_a_server_that_is_added_survives_a_sync_that_fails() {
    let files = ListFiles::new();
    // Nobody listens there.
    let bus = ["--bus", "amqp://127.0.0.1:9"];
    let add = [&["add", "one", "--url", "http://127.0.0.1:9/mcp"][..], &bus].concat();
    files.done(&add, "").await;
    let before = files.read();
    let synced = files.mcp(&[&["sync"][..], &bus].concat(), "").await;
    assert_eq!(synced.status.code(), Some(1), "{synced:?}");
    assert_eq!(files.read(), before);
    assert!(before["mcpServers"]["one"].is_object());
}

#[tokio::test]
async fn what_cannot_be_is_refused_and_nothing_is_written() {
    let files = ListFiles::new();
    files.done(&["add", "one", "--url", "http://127.0.0.1:9/mcp"], "").await;
    let before = files.read();
    for (arguments, problem) in [
        (&["add", "ONE", "--", "x"][..], "has a server ONE already"),
        (&["add", "a__b", "--", "x"], "__"),
        (&["add", "b"], "required"),
        (&["add", "b", "--url", "ftp://x"], "url"),
        (&["add", "b", "--env", "A=${TOOLBUS_NO_SUCH}", "--", "x"], "TOOLBUS_NO_SUCH"),
        (&["add", "b", "--env", "A", "--", "x"], "A: the value is empty"),
        (&["show", "two"], "has no server two"),
        (&["remove", "two"], "has no server two"),
        (&["remove", "onne"], "has no server onne; did you mean 'one'?"),
    ] {
        let told = files.refused(arguments, 2).await;
        assert!(told.contains(problem), "{arguments:?}: {told}");
    }
    assert_eq!(files.read(), before);

    std::fs::write(files.list(), "{\"mcpServers\": ").unwrap();
    for arguments in [&["list"][..], &["add", "b", "--", "x"], &["remove", "one"], &["sync"]] {
        let told = files.refused(arguments, 1).await;
        assert!(told.contains("is no list of MCP servers, and is left alone"), "{told}");
    }
    assert_eq!(std::fs::read_to_string(files.list()).unwrap(), "{\"mcpServers\": ");
}
