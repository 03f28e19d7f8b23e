//! The servers that people really use, all behind one bridge: each does its work through the bus.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::ensure;
use axum::Router;
use axum::response::Html;
use axum::routing::get;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;
use toolbus_testkit::process::Service;
use toolbus_testkit::rabbit::Vhost;
use toolbus_testkit::{eventually, mcp as parts, rabbit};

use crate::support::*;

/// How long nine servers may take to start at once, on a machine that does other things too.
const START_LIMIT: Duration = Duration::from_secs(240);
/// How long a call takes that no test waits for, in milliseconds.
const LONG_MS: u64 = 600_000;

/// One bridge with all of them, and what they work on.
struct All {
    vhost: Vhost,
    bus: String,
    _bridge: Service,
    bridge_id: u32,
    folder: TempDir,
    _servers: Servers,
}

impl All {
    /// `None` where a part has not been fetched and may be missing.
    async fn start() -> Option<Self> {
        let vhost = rabbit::vhost().await?;
        let folder = TempDir::new().unwrap();
        let within = |name: &str| {
            let folder = folder.path().join(name);
            std::fs::create_dir(&folder).unwrap();
            folder
        };

        let (allowed, repository) = (within("allowed"), within("repository"));
        make_repository(&repository);
        let mut memory = parts::memory()?.to_json();
        memory["env"] = json!({"MEMORY_FILE_PATH": folder.path().join("memory.jsonl")});
        let mut everything = parts::everything_stdio()?.to_json();
        everything["timeoutMs"] = json!(LONG_MS);
        let servers = Servers::with(&[
            ("everything", everything),
            ("fetch", parts::fetch(&["--allow-private-ips"])?.to_json()),
            ("fetch-outside", parts::fetch(&[])?.to_json()),
            ("filesystem", parts::filesystem(&allowed)?.to_json()),
            ("git", parts::git(&repository)?.to_json()),
            ("memory", memory),
            ("thinking", parts::sequential_thinking()?.to_json()),
            ("time", parts::time()?.to_json()),
        ]);
        let bus = vhost.amqp_url();
        let launch = launch("mcp-bridge", &bus).arg("--mcp-config").arg(servers.file());
        let mut bridge = start(launch.env("TOOLBUS_MCP__CONNECT_TIMEOUT", "2m")).await;
        eventually(START_LIMIT, async || {
            let (_, status) = bridge.look("/status").await?;
            ensure!(status.matches("\"connected\"").count() == 9, "{status}");
            Ok(())
        })
        .await;
        let bridge_id = bridge.process().id();

        Some(Self { vhost, bus, _bridge: bridge, bridge_id, folder, _servers: servers })
    }

    async fn call(&self, server: &str, tool: &str, arguments: Value) -> Outcome {
        mcp(&self.bus, server, tool, arguments).await
    }

    /// The processes of a server, by a part of their command line. What supervises them has that in
    /// its own, and is none of them.
    fn processes_of(&self, server: &str) -> Vec<u32> {
        let ours = descendants(self.bridge_id);
        let is_of_it = |id: &u32| {
            let line = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
            let mut words = line.split(|byte| *byte == 0).map(String::from_utf8_lossy);
            let program = words.next().unwrap_or_default().into_owned();
            let is_server = program.ends_with("/node") || program.ends_with("/python");
            is_server && words.any(|word| word.contains(server))
        };
        ours.into_iter().filter(is_of_it).collect()
    }

    /// Ends a server as a crash would.
    async fn kill(&self, server: &str) {
        let found = self.processes_of(server);
        let &[id] = &found[..] else { panic!("{server}: {found:?}") };
        let id = Pid::from_raw(i32::try_from(id).unwrap()).unwrap();
        kill_process(id, Signal::KILL).unwrap();
        gone(&found).await;
    }
}

/// Two commits, and a change that is in none.
fn make_repository(folder: &Path) {
    let git = |arguments: &[&str]| {
        let mut command = Command::new("git");
        command.arg("-C").arg(folder).args(arguments);
        for (name, value) in [("HOME", folder.as_os_str()), ("GIT_CONFIG_NOSYSTEM", "1".as_ref())] {
            command.env(name, value);
        }
        let done = command.output().unwrap();
        assert!(done.status.success(), "{arguments:?}: {done:?}");
    };
    git(&["init", "--quiet", "--initial-branch", "main"]);
    git(&["config", "user.name", "Somebody"]);
    git(&["config", "user.email", "somebody@example.org"]);
    for (text, subject) in [("one\n", "The first line"), ("one\ntwo\n", "Another line")] {
        std::fs::write(folder.join("lines"), text).unwrap();
        git(&["add", "lines"]);
        git(&["commit", "--quiet", "--message", subject]);
    }
    std::fs::write(folder.join("lines"), "one\ntwo\nthree\n").unwrap();
}

/// The text of a tool's own error.
#[track_caller]
fn tool_error(outcome: &Outcome) -> &str {
    assert_eq!(outcome.code(), "tool_error");
    outcome.json["content"].as_str().unwrap()
}

async fn files_are_read_and_written_inside_their_folder_only(all: &All) {
    let allowed = all.folder.path().join("allowed");
    let path = |name: &str| json!({"path": allowed.join(name)});
    let text = "line 1\n\tünïcode \"quoted\" \\ back\u{2028}slash 🦀\n";
    let mut write = path("notes.txt");
    write["content"] = json!(text);
    all.call("filesystem", "write_file", write).await.content();
    assert_eq!(std::fs::read_to_string(allowed.join("notes.txt")).unwrap(), text);
    let read = all.call("filesystem", "read_text_file", path("notes.txt")).await;
    assert_eq!(read.content(), text);

    std::fs::write(all.folder.path().join("outside.txt"), "not for them").unwrap();
    std::os::unix::fs::symlink(all.folder.path(), allowed.join("up")).unwrap();
    for outside in ["../outside.txt", "up/outside.txt", "/etc/passwd"] {
        let refused = all.call("filesystem", "read_text_file", path(outside)).await;
        assert!(tool_error(&refused).contains("Access denied"), "{outside}: {refused:?}");
        let mut write = path(outside);
        write["content"] = json!("x");
        let refused = all.call("filesystem", "write_file", write).await;
        assert!(tool_error(&refused).contains("Access denied"), "{outside}: {refused:?}");
    }

    let outside = std::fs::read_to_string(all.folder.path().join("outside.txt")).unwrap();
    assert_eq!(outside, "not for them");
}

async fn a_repository_is_looked_at(all: &All) {
    let repository = json!({"repo_path": all.folder.path().join("repository")});
    let log = all.call("git", "git_log", repository.clone()).await;
    let (first, second) = (log.content().find("The first line"), log.content().find("Another"));
    assert!(first.is_some() && second < first, "{log:?}");
    let diff = all.call("git", "git_diff_unstaged", repository).await;
    assert!(diff.content().contains("\n+three"), "{diff:?}");
    let elsewhere = json!({"repo_path": all.folder.path().join("allowed")});
    tool_error(&all.call("git", "git_log", elsewhere).await);
}

async fn a_page_is_fetched(all: &All) {
    let page = "<html><body><article><h1>Title</h1><p>Some <b>bold</b> words.</p></article></body>";
    let robots = "User-agent: *\nDisallow: /private\n";
    let app = Router::new()
        .route("/page", get(async move || Html(page)))
        .route("/private", get(async move || Html(page)))
        .route("/robots.txt", get(async move || robots));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let url = |path: &str| json!({"url": format!("http://{address}/{path}")});
    let work = async {
        let fetched = all.call("fetch", "fetch", url("page")).await;
        assert!(fetched.content().contains("Some **bold** words."), "{fetched:?}");
        let refused = all.call("fetch", "fetch", url("private")).await;
        assert!(tool_error(&refused).contains("robots.txt"), "{refused:?}");
        let refused = all.call("fetch-outside", "fetch", url("page")).await;
        assert!(tool_error(&refused).contains("private"), "{refused:?}");
    };

    tokio::select! {
        () = work => {}
        ended = async { axum::serve(listener, app).await } => panic!("{ended:?}"),
    }
}

/// What the memory is told: nested, and in the words of several scripts.
fn crab() -> Value {
    json!({
        "name": "crab \"🦀\"",
        "entityType": "animal",
        "observations": ["walks sideways", "{\"looks\": [\"like\", \"JSON\"]}", "日本 & <b>", ""],
    })
}

async fn what_is_remembered_is_kept_and_what_is_thought_is_not(all: &All) {
    all.call("memory", "create_entities", json!({"entities": [crab()]})).await.content();
    let thought = async |all: &All, thought: &str| {
        let arguments = json!({
            "thought": thought, "nextThoughtNeeded": true, "thoughtNumber": 1, "totalThoughts": 3,
            "branchFromThought": 1, "branchId": "b",
        });
        let told = all.call("thinking", "sequentialthinking", arguments).await;
        serde_json::from_str::<Value>(told.content()).unwrap()
    };

    thought(all, "{\"a\": [1, {}]}").await;
    let second = thought(all, "another").await;
    assert_eq!((&second["thoughtHistoryLength"], &second["branches"]), (&json!(2), &json!(["b"])));

    let graph = async |all: &All| {
        let read = all.call("memory", "read_graph", json!({})).await;
        serde_json::from_str::<Value>(read.content()).unwrap()
    };

    assert_eq!(graph(all).await["entities"], json!([crab()]));
    all.kill("memory.js").await;
    all.kill("sequential-thinking.js").await;
    assert_eq!(graph(all).await["entities"], json!([crab()]), "it is in a file");
    let third = thought(all, "afresh").await;
    assert_eq!(third["thoughtHistoryLength"], 1, "it was in the process");
}

#[tokio::test]
async fn each_does_its_work() {
    let Some(all) = All::start().await else { return };
    let now = all.call("time", "get_current_time", json!({"timezone": "UTC"})).await;
    assert!(now.content().contains("\"timezone\": \"UTC\""), "{now:?}");
    files_are_read_and_written_inside_their_folder_only(&all).await;
    a_repository_is_looked_at(&all).await;
    a_page_is_fetched(&all).await;
    what_is_remembered_is_kept_and_what_is_thought_is_not(&all).await;
}

/// A call of `server-everything` that takes ten minutes, and tells the topic `steps` how far it is.
fn long_operation() -> Frame {
    let arguments = json!({"duration": LONG_MS / 1000, "steps": 6000});
    let frame = Frame::tool("tool.invoke.mcp", "trigger-long-running-operation", &arguments);
    let frame = frame.header("rb-rb-mcp-server", json!("everything"));
    frame
        .header("rb-rb-timeout-ms", json!(LONG_MS.to_string()))
        .header("rb-rb-progress-to", json!("steps"))
}

/// Waits until a call has told of its first step.
async fn a_step(stranger: &Stranger<'_>) {
    eventually(LIMIT, async || {
        let told = stranger.vhost.take("steps", 100).await?;
        let steps = told.iter().map(Answer::of);
        let steps: Vec<_> = steps.filter(|told| told.kind == "Toolbus.ToolProgress").collect();
        let is_first = |step: &Answer| step.body["progress"] == 1.0;
        ensure!(steps.iter().any(is_first), "{steps:?}");
        anyhow::Ok(())
    })
    .await;
}

#[tokio::test]
async fn a_long_call_is_cancelled_from_far() {
    let Some(vhost) = rabbit::vhost().await else { return };
    let Some(everything) = parts::everything_stdio() else { return };
    let bus = vhost.amqp_url();
    let mut everything = everything.to_json();
    everything["timeoutMs"] = json!(LONG_MS);
    let servers = Servers::with(&[("everything", everything)]);
    let _bridge = bridge(&bus, &servers).await;
    let stranger = Stranger::new(&vhost, &["steps"]).await;
    let frame = long_operation();
    stranger.send(&frame).await;
    a_step(&stranger).await;
    let cancel = json!({"source": "Stranger", "toolCallId": "call_1", "reason": "enough"});
    stranger.send(&Frame::new("tool.cancel", "Toolbus.ToolCancel", cancel.to_string())).await;
    let answers = stranger.take(ANSWERS, 1).await;
    let answer = Answer::of(&answers[0]);
    assert_eq!(answer.properties["correlation_id"], frame.correlation_id());
    assert_eq!(answer.body["code"], "cancelled", "{}", answer.body);
    let echo = mcp(&bus, "everything", "echo", json!({"message": "on"})).await;
    assert_eq!(echo.content(), "Echo: on");
}

#[tokio::test]
async fn one_that_dies_in_a_call_takes_nobody_along() {
    let Some(all) = All::start().await else { return };
    let others = [
        "mcp_server_fetch",
        "mcp_server_git",
        "mcp_server_time",
        "filesystem.js",
        "memory.js",
        "sequential-thinking.js",
    ];
    let before = others.map(|server| all.processes_of(server));
    assert!(before.iter().all(|found| !found.is_empty()), "{before:?}");
    let stranger = Stranger::new(&all.vhost, &["steps"]).await;
    let frame = long_operation();
    stranger.send(&frame).await;
    a_step(&stranger).await;

    // The others are at work while it dies.
    let calls = [
        ("filesystem", "list_directory", json!({"path": all.folder.path().join("allowed")})),
        ("git", "git_status", json!({"repo_path": all.folder.path().join("repository")})),
        ("memory", "read_graph", json!({})),
        ("time", "get_current_time", json!({"timezone": "UTC"})),
        ("marks", "mark", json!({})),
    ];
    let work = async |(server, tool, arguments): &(&str, &str, Value)| {
        for _ in 0..2 {
            all.call(server, tool, arguments.clone()).await.content();
        }
    };

    let [a, b, c, d, e] = &calls;
    let twice = async {
        all.kill("/server.js").await;
        // The tool says that it only reads, so the call is made again, and once.
        a_step(&stranger).await;
        all.kill("/server.js").await;
    };

    tokio::join!(work(a), work(b), work(c), work(d), work(e), twice);
    let answers = stranger.take(ANSWERS, 1).await;
    let answer = Answer::of(&answers[0]);
    assert_eq!(answer.properties["correlation_id"], frame.correlation_id());
    assert_eq!(answer.body["code"], "outcome_unknown", "{}", answer.body);

    // It is back by the next call, and nobody else was started again.
    let echo = all.call("everything", "echo", json!({"message": "again"})).await;
    assert_eq!(echo.content(), "Echo: again");
    assert_eq!(others.map(|server| all.processes_of(server)), before);
}

#[tokio::test]
async fn a_launcher_between_the_bridge_and_a_server() {
    let Some(vhost) = rabbit::vhost().await else { return };
    let Some(memory) = parts::memory_by_npm() else { return };
    let (bus, folder) = (vhost.amqp_url(), TempDir::new().unwrap());
    let file = folder.path().join("memory.jsonl");
    let mut entry = memory.to_json();
    let node = Path::new(&memory.command).parent().unwrap().display().to_string();
    let path = format!("{node}:{}", std::env::var("PATH").unwrap());
    entry["env"] = json!({"MEMORY_FILE_PATH": file, "PATH": path, "HOME": folder.path()});
    let servers = Servers::with(&[("memory", entry)]);
    let mut bridge = bridge(&bus, &servers).await;
    let told = mcp(&bus, "memory", "create_entities", json!({"entities": [crab()]})).await;
    told.content();
    assert!(std::fs::read_to_string(&file).unwrap().contains("walks sideways"));
    let family = descendants(bridge.process().id());
    assert!(family.len() >= 3, "npm, a shell and the server at least: {family:?}");
    bridge.process().kill();
    gone(&family).await;
}
