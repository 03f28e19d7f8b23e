//! Servers that come from files: the operator's, which is followed, and that of registrations,
//! which is written.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Map, Value, json};
use toolbus_config::TimeSpan;
use toolbus_mcp::ServerState;
use toolbus_mcp::config::{Entry, StdioIsolation, Variables};
use toolbus_mcp::server_pool::{AddError, Registered, ServerPool, UnregisterError};
use toolbus_mcp::settings::McpSettings;
use toolbus_testkit::{eventually, mcp};
use toolbus_wire::ErrorCode;

use crate::support::*;

/// The agent that registers.
const AGENT: &str = "RockBot";

/// A folder with an `mcp.json`, and settings that name it.
struct Files {
    folder: tempfile::TempDir,
    settings: McpSettings,
}

impl Files {
    fn new(servers: Value) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let settings = McpSettings {
            config: Some(folder.path().join("mcp.json")),
            pins: Some(folder.path().join("pins")),
            allow_stdio_registration: true,
            sandbox_registered: false,
            supervisor: Some(supervisor()),
            connect_timeout: TimeSpan::seconds(CONNECT_LIMIT.as_secs()),
            // Servers note their own process ids, which a shield changes.
            stdio_isolation: StdioIsolation::Off,
            ..McpSettings::default()
        };
        let files = Self { folder, settings };
        files.write(servers);
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Replaces `mcp.json` as careful programs do.
    fn write(&self, servers: Value) {
        let text = json!({"mcpServers": servers}).to_string();
        std::fs::write(self.path("new"), text).unwrap();
        std::fs::rename(self.path("new"), self.path("mcp.json")).unwrap();
    }

    async fn start(&self) -> ServerPool {
        let set = self.settings.start_servers().unwrap();
        set.wait_settled().await;
        set
    }

    fn hostile(&self, kind: &str) -> Value {
        hostile(self.folder.path(), kind)
    }

    fn registered(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.path("mcp.registered.json")).unwrap();
        let value: Value = serde_json::from_str(&text).unwrap();
        value["mcpServers"].as_object().unwrap().keys().cloned().collect()
    }
}

fn is_connected(set: &ServerPool, server: &str) -> bool {
    set.find(server).is_some_and(|status| matches!(status.state, ServerState::Connected { .. }))
}

async fn until_connected(set: &ServerPool, server: &str) {
    eventually(PATIENCE, async || match set.find(server).map(|status| status.state) {
        Some(ServerState::Connected { .. }) => Ok(()),
        other => Err(format!("{server}: {other:?}")),
    })
    .await;
}

async fn until_gone(set: &ServerPool, server: &str) {
    eventually(PATIENCE, async || match set.find(server) {
        None => Ok(()),
        Some(status) => Err(status),
    })
    .await;
}

/// The entry of a real server whose processes [`marked`] finds.
fn with_mark(server: mcp::StdioServer, mark: &str) -> Value {
    let mut entry = server.to_json();
    entry["env"] = json!({"MARK": mark});
    entry
}

/// The servers that were started with this mark in their environment.
fn marked(mark: &str) -> Vec<u32> {
    let mark = format!("MARK={mark}");
    let is_marked = |process: &Path| {
        let environment = std::fs::read(process.join("environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
    };
    let processes = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    processes
        .filter(|process| is_marked(process))
        .filter_map(|process| process.file_name()?.to_str()?.parse().ok())
        .collect()
}

fn mark() -> String {
    toolbus_wire::envelope::new_id()
}

#[tokio::test]
async fn an_entry_that_becomes_disabled_stops_its_server_whatever_else_it_says() {
    let files = Files::new(json!({}));
    let good = files.hostile("good");
    files.write(json!({"a": good}));
    let set = files.start().await;
    assert!(is_connected(&set, "a"));

    files.write(json!({"a": {"disabled": true, "command": "${NOT_SET_HERE}"}}));
    eventually(PATIENCE, async || match set.find("a").map(|status| status.state) {
        Some(ServerState::Disabled) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    gone(&pids(files.folder.path(), "good")).await;

    let members = arguments(good.clone());
    let entry = Entry::parse("a", members.clone(), Variables::Refused).unwrap();
    let refused = set.register(entry, members).await.unwrap_err();
    assert!(matches!(refused, AddError::Operators(_)), "{refused:?}");

    files.write(json!({"a": good}));
    until_connected(&set, "a").await;
}

#[tokio::test]
async fn a_changed_file_changes_what_is_different_and_nothing_else() {
    let (Some(everything), Some(time)) = (mcp::everything_stdio(), mcp::time()) else { return };
    let marks = [mark(), mark()];
    let (time, mut all) = (with_mark(time, &marks[0]), with_mark(everything, &marks[1]));
    let files = Files::new(json!({}));
    let old = files.hostile("good");
    files.write(json!({"time": time, "all": all, "old": old}));
    let set = files.start().await;
    let [before, all_before] = [&marks[0], &marks[1]].map(|mark| marked(mark));
    assert_eq!((before.len(), all_before.len()), (1, 1));
    let old_pids = pids(files.folder.path(), "good");

    let (sink, heard) = progress();
    // Nearly as long as calls on a server that was changed may go on.
    let args = json!({"duration": 8, "steps": 80});
    let slow = call_of("all", "trigger-long-running-operation", args);
    let slow = set.call(slow.with_progress(sink));
    let change = async {
        eventually(PATIENCE, async || if heard.lock().is_empty() { Err("quiet") } else { Ok(()) })
            .await;
        all["deniedTools"] = json!(["echo"]);
        // In another order, which is no difference to any of them.
        files.write(json!({"new": files.hostile("slow"), "all": all, "Time": time}));
        until_gone(&set, "old").await;
        until_connected(&set, "new").await;
        let denied = call(&set, "all", "echo", json!({"message": "x"})).await.unwrap_err();
        assert_eq!(denied.code(), ErrorCode::Denied);
        let sum = call(&set, "all", "get-sum", json!({"a": 1, "b": 2})).await.unwrap();
        assert_eq!(sum.text.as_deref(), Some("The sum of 1 and 2 is 3."));
        assert!(marked(&marks[1]).contains(&all_before[0]), "a call still runs on the old one");
    };
    let (done, ()) = tokio::join!(slow, change);
    assert!(done.unwrap().text.unwrap().starts_with("Long running operation completed."));
    assert_eq!(marked(&marks[0]), before, "one that did not change was not started again");
    assert!(is_connected(&set, "time"));
    gone(&all_before).await;
    gone(&old_pids).await;
    set.close(Duration::ZERO).await;
}

#[tokio::test]
async fn an_entry_that_makes_no_sense_leaves_its_server_as_it_is() {
    let files = Files::new(json!({}));
    let good = files.hostile("good");
    files.write(json!({"a": good}));
    let set = files.start().await;
    // Written in place, not replaced.
    let wrong = json!({"mcpServers": {"a": {"command": 7}, "b": files.hostile("slow")}});
    std::fs::write(files.path("mcp.json"), wrong.to_string()).unwrap();
    until_connected(&set, "b").await;
    assert!(is_connected(&set, "a"));
    assert_eq!(pids(files.folder.path(), "good").len(), 1);

    // Files that say nothing: what there is stays until one says something again.
    for (step, text) in ["{", "[]", "{\"mcpServer\": {}}", ""].into_iter().enumerate() {
        std::fs::write(files.path("mcp.json"), text).unwrap();
        std::fs::remove_file(files.path("mcp.json")).unwrap();
        let next = format!("step{step}");
        files.write(json!({"a": good, &next: files.hostile("family")}));
        until_connected(&set, &next).await;
    }
    assert_eq!(pids(files.folder.path(), "good").len(), 1, "it was never started again");
    assert!(set.find("b").is_none() && set.find("step0").is_none());
    set.close(Duration::ZERO).await;
}

#[tokio::test]
async fn what_cannot_be_watched_is_found_by_looking() {
    let mut files = Files::new(json!({}));
    for (version, kind) in [("v1", "good"), ("v2", "slow")] {
        std::fs::create_dir(files.path(version)).unwrap();
        let text = json!({"mcpServers": {version: files.hostile(kind)}}).to_string();
        std::fs::write(files.path(version).join("mcp.json"), text).unwrap();
    }
    // The folder that is watched is v1 itself, and nothing happens in it.
    std::os::unix::fs::symlink(files.path("v1"), files.path("link")).unwrap();
    files.settings.config = Some(files.path("link").join("mcp.json"));
    let set = files.start().await;
    std::os::unix::fs::symlink(files.path("v2"), files.path("next")).unwrap();
    std::fs::rename(files.path("next"), files.path("link")).unwrap();
    until_connected(&set, "v2").await;
    assert!(set.find("v1").is_none());
    set.close(Duration::ZERO).await;
}

/// Registers a server as the handler of management requests does.
async fn register(set: &ServerPool, name: &str, entry: &Value) -> Result<Registered, AddError> {
    let members: Map<String, Value> = arguments(entry.clone());
    let entry = Entry::parse(name, members.clone(), Variables::Refused).unwrap();
    set.register(entry, members).await
}

#[tokio::test]
async fn a_registration_lasts_until_it_is_deleted() {
    let (Some(everything), Some(time)) = (mcp::everything_stdio(), mcp::time()) else { return };
    let mut files = Files::new(json!({"time": time.to_json()}));
    let operators = std::fs::read(files.path("mcp.json")).unwrap();
    let mut entry = everything.to_json();
    entry["env"] = json!({"KEY": "s3cret"});
    entry["registeredBy"] = json!(AGENT);

    let set = files.start().await;
    let registered = register(&set, "All", &entry).await.unwrap();
    assert!(registered.not_kept.is_none() && registered.summary.tool_count > 10);
    assert_eq!(files.registered(), ["All"]);
    let path = files.path("mcp.registered.json");
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    // The same once more is the same, and what does not connect is not kept.
    register(&set, "all", &entry).await.unwrap();
    let failed = register(&set, "bad", &files.hostile("exits")).await;
    assert!(matches!(failed, Err(AddError::Failed(_))), "{failed:?}");
    assert_eq!(files.registered(), ["All"]);
    set.close(Duration::ZERO).await;

    // After a new start.
    let set = files.start().await;
    let echo = call(&set, "all", "echo", json!({"message": "again"})).await.unwrap();
    assert_eq!(echo.text.as_deref(), Some("Echo: again"));
    set.close(Duration::ZERO).await;

    // The operator has changed his mind about programs: it is not started, and not lost.
    files.settings.allow_stdio_registration = false;
    let set = files.start().await;
    assert!(set.find("all").is_none() && is_connected(&set, "time"));
    assert_eq!(files.registered(), ["All"]);
    // And it is still its agent's alone.
    let refused = set.unregister("all", "Somebody").await.unwrap_err();
    assert!(matches!(refused, UnregisterError::OtherAgents(_)), "{refused}");
    let mut theirs = everything.to_json();
    theirs["registeredBy"] = json!("Somebody");
    let refused = register(&set, "all", &theirs).await.unwrap_err();
    assert!(matches!(refused, AddError::OtherAgents(_)), "{refused}");
    assert_eq!(files.registered(), ["All"]);
    set.close(Duration::ZERO).await;
    files.settings.allow_stdio_registration = true;

    let set = files.start().await;
    set.unregister("ALL", AGENT).await.unwrap();
    set.unregister("never-there", AGENT).await.unwrap();
    assert!(set.find("all").is_none());
    assert_eq!(files.registered(), Vec::<String>::new());
    set.close(Duration::ZERO).await;
    let set = files.start().await;
    assert!(set.find("all").is_none());
    set.close(Duration::ZERO).await;
    assert_eq!(std::fs::read(files.path("mcp.json")).unwrap(), operators);
}

#[tokio::test]
async fn what_is_the_operators_is_not_an_agents_to_touch() {
    let files = Files::new(json!({}));
    let (mine, theirs) = (files.hostile("good"), files.hostile("slow"));
    files.write(json!({"mine": mine}));
    let set = files.start().await;
    let refused = register(&set, "MINE", &theirs).await.unwrap_err();
    assert_eq!(refused.to_string(), "the MCP server 'mine' is the operator's");
    let refused = set.unregister("Mine", AGENT).await.unwrap_err();
    assert!(matches!(refused, UnregisterError::Operators(_)), "{refused}");
    assert!(is_connected(&set, "mine"));

    // An operator takes a name that an agent has registered, and gives it back.
    register(&set, "x", &theirs).await.unwrap();
    files.write(json!({"mine": mine, "X": mine}));
    eventually(PATIENCE, async || match register(&set, "x", &theirs).await {
        Err(AddError::Operators(_)) => Ok(()),
        other => Err(other),
    })
    .await;
    gone(&pids(files.folder.path(), "slow")).await;
    files.write(json!({"mine": mine}));
    eventually(PATIENCE, async || {
        let started = pids(files.folder.path(), "slow").len();
        if started == 2 { Ok(()) } else { Err(started) }
    })
    .await;
    until_connected(&set, "x").await;
    set.unregister("x", AGENT).await.unwrap();
    set.close(Duration::ZERO).await;
}

#[tokio::test]
async fn an_agent_may_replace_what_an_agent_has_registered() {
    let files = Files::new(json!({}));
    let set = files.start().await;
    register(&set, "x", &files.hostile("good")).await.unwrap();
    let failed = register(&set, "x", &files.hostile("exits")).await.unwrap_err();
    assert!(matches!(failed, AddError::Failed(_)), "{failed}");
    assert!(is_connected(&set, "x"), "the old one is there until a new one is");
    register(&set, "x", &files.hostile("slow")).await.unwrap();
    gone(&pids(files.folder.path(), "good")).await;
    set.close(Duration::ZERO).await;
    let set = files.start().await;
    assert_eq!(pids(files.folder.path(), "slow").len(), 2, "the new one is what was kept");
    set.close(Duration::ZERO).await;
}

#[tokio::test]
async fn a_registration_that_cannot_be_kept_says_so_and_stays_for_now() {
    let mut files = Files::new(json!({}));
    files.settings.registrations = Some(files.path("none").join("r.json"));
    let set = files.start().await;
    let registered = register(&set, "x", &files.hostile("good")).await.unwrap();
    assert!(registered.not_kept.is_some());
    // A change of the other file does not take it away.
    files.write(json!({"y": files.hostile("slow")}));
    until_connected(&set, "y").await;
    assert!(is_connected(&set, "x"));
    set.unregister("x", AGENT).await.unwrap();
    assert!(set.find("x").is_none());
    set.close(Duration::ZERO).await;
}

#[tokio::test]
async fn processes_with_the_same_files_agree() {
    let files = Files::new(json!({}));
    let (first, second) = tokio::join!(files.start(), files.start());
    register(&second, "x", &files.hostile("good")).await.unwrap();
    until_connected(&first, "x").await;
    second.unregister("x", AGENT).await.unwrap();
    until_gone(&first, "x").await;
    first.close(Duration::ZERO).await;
    second.close(Duration::ZERO).await;
}
