//! What the tests share: programs on a broker, calls through the command line, a caller that is
//! none of ours, and a look at what runs on the machine.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;
use toolbus_testkit::eventually;
use toolbus_testkit::process::{Finished, Launch, Service};
use toolbus_testkit::rabbit::{Message, Vhost};
use toolbus_testkit::scripted_server::Asked;

/// How long anything may take that ends sooner on an idle machine. No test waits for it to pass.
pub(crate) const LIMIT: Duration = Duration::from_secs(120);

/// The topic that [`Stranger`]s take their answers on.
pub(crate) const ANSWERS: &str = "stranger.answers";

/// A service of ours on a broker, not waited for.
pub(crate) fn launch(program: &str, bus: &str) -> Launch {
    Launch::new(program).arg("--bus").arg(bus)
}

/// Starts a service of ours on a broker and waits until it is ready.
pub(crate) async fn start(launch: Launch) -> Service {
    let mut service = launch.start().unwrap();
    service.ready(LIMIT).await.unwrap();
    service
}

/// `mcp-bridge` with these servers, ready.
pub(crate) async fn bridge(bus: &str, servers: &Servers) -> Service {
    start(launch("mcp-bridge", bus).arg("--mcp-config").arg(servers.file())).await
}

/// `scripts-manager`, ready.
pub(crate) async fn scripts(bus: &str) -> Service {
    start(launch("scripts-manager", bus)).await
}

/// `agent-host serve`, ready.
pub(crate) async fn serve(bus: &str) -> Service {
    start(launch("agent-host", bus).arg("serve")).await
}

/// Where a service of ours answers MCP clients: its `/status` has the address under this name.
pub(crate) async fn mcp_url(service: &Service, name: &str) -> String {
    let (_, status) = service.look("/status").await.unwrap();
    let status: Value = serde_json::from_str(&status).unwrap();
    format!("http://{}/mcp", status["details"][name].as_str().unwrap())
}

/// An `mcp.json` in a folder of its own, and what its marking server leaves there.
pub(crate) struct Servers {
    folder: TempDir,
}

impl Servers {
    /// The marking server as `marks`, and these.
    pub(crate) fn with(others: &[(&str, Value)]) -> Self {
        Self::called("marks", others)
    }

    /// The marking server under another name, and these.
    pub(crate) fn called(name: &str, others: &[(&str, Value)]) -> Self {
        let servers = Self { folder: tempfile::tempdir().unwrap() };
        let mut entries = json!({name: servers.marking("good")});
        for (name, entry) in others {
            entries[name] = entry.clone();
        }
        std::fs::write(servers.file(), json!({"mcpServers": entries}).to_string()).unwrap();
        servers
    }

    /// The entry of a marking server of this kind.
    pub(crate) fn marking(&self, kind: &str) -> Value {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fleet/server.py");
        json!({"command": "python3", "args": [script, self.folder.path(), kind]})
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.folder.path().join("mcp.json")
    }

    /// The tools that were called, in order.
    pub(crate) fn marks(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.folder.path().join("marks")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Waits until these tools, and no others, were called.
    pub(crate) async fn wait_for_marks(&self, expected: &[&str]) {
        eventually(LIMIT, async || {
            let marks = self.marks();
            ensure!(marks == expected, "marks: {marks:?}");
            Ok(())
        })
        .await;
    }

    /// Lets every call of `wait` end, now and from now on.
    pub(crate) fn open_gate(&self) {
        std::fs::write(self.folder.path().join("gate"), "").unwrap();
    }
}

/// What `agent-host invoke --json` came to.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) exit: Option<i32>,
    pub(crate) json: Value,
    pub(crate) stderr: String,
}

impl Outcome {
    pub(crate) fn of(finished: Finished) -> Self {
        let json = serde_json::from_str(&finished.stdout)
            .unwrap_or_else(|error| panic!("{error}: {finished:?}"));
        Self { exit: finished.status.code(), json, stderr: finished.stderr }
    }

    /// The content of a call that went well.
    #[track_caller]
    pub(crate) fn content(&self) -> &str {
        assert_eq!((self.exit, &self.json["isError"]), (Some(0), &json!(false)), "{self:?}");
        self.json["content"].as_str().unwrap()
    }

    /// The code of a call that failed.
    #[track_caller]
    pub(crate) fn code(&self) -> &str {
        let code = self.json["error"]["code"].as_str().unwrap();
        let exit = if code == "invalid_arguments" { 2 } else { 1 };
        assert_eq!((self.exit, &self.json["isError"]), (Some(exit), &json!(true)), "{self:?}");
        code
    }
}

/// Asserts that each value in the schemas of these tools is of one type, or of none that is told:
/// some models' APIs refuse a tool with `"type": ["string", "null"]`.
#[track_caller]
pub(crate) fn assert_single_types(tools: &Value) {
    assert!(tools.as_array().is_some_and(|tools| !tools.is_empty()), "no tools: {tools}");
    let mut left = vec![(String::new(), tools)];
    while let Some((at, value)) = left.pop() {
        match value {
            Value::Object(members) => {
                let types = members.get("type").filter(|types| types.is_array());
                assert_eq!(types, None, "at {at} in {tools}");
                left.extend(members.iter().map(|(name, value)| (format!("{at}/{name}"), value)));
            }
            Value::Array(items) => {
                let items = items.iter().enumerate();
                left.extend(items.map(|(index, value)| (format!("{at}/{index}"), value)));
            }
            _ => {}
        }
    }
}

/// `agent-host invoke` of a tool, its arguments read from standard input.
pub(crate) fn invocation(bus: &str, tool: &str, arguments: &Value) -> Launch {
    let launch = launch("agent-host", bus).args(["invoke", tool, "-", "--json"]);
    launch.stdin(arguments.to_string())
}

/// Runs a tool through the command line.
pub(crate) async fn invoke(bus: &str, tool: &str, arguments: Value) -> Outcome {
    Outcome::of(invocation(bus, tool, &arguments).run(LIMIT).await.unwrap())
}

/// Runs a Python script through the command line.
pub(crate) async fn python(bus: &str, script: &str) -> Outcome {
    invoke(bus, "execute_python_script", json!({"script": script})).await
}

/// Calls a tool of an MCP server through the command line.
pub(crate) async fn mcp(bus: &str, server: &str, tool: &str, arguments: Value) -> Outcome {
    let arguments = json!({"server_name": server, "tool_name": tool, "arguments": arguments});
    invoke(bus, "mcp_invoke_tool", arguments).await
}

/// A script that runs until it is killed, as a process that [`processes`] finds by `token`.
pub(crate) fn endless_script(token: &str) -> String {
    format!(
        "import os, sys\n\
         print('ran', flush=True)\n\
         code = 'import time; time.sleep(600)'\n\
         os.execv(sys.executable, [sys.executable, '-c', code, '{token}'])"
    )
}

/// A text that nothing else on this machine has.
pub(crate) fn token() -> String {
    format!("token-{}", toolbus_wire::envelope::new_id())
}

/// The processes with this text in their command line.
pub(crate) fn processes(token: &str) -> Vec<u32> {
    let has_token = |id: &u32| {
        std::fs::read(format!("/proc/{id}/cmdline"))
            .is_ok_and(|line| String::from_utf8_lossy(&line).contains(token))
    };
    all_processes().filter(has_token).collect()
}

/// What this process has started, and what that has started in turn.
pub(crate) fn descendants(of: u32) -> Vec<u32> {
    let parents: Vec<(u32, u32)> =
        all_processes().filter_map(|id| Some((id, parent(id)?))).collect();
    let mut found = vec![of];
    let mut looked = 0;
    while let Some(parent) = found.get(looked).copied() {
        found.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(id, _)| id));
        looked += 1;
    }
    found.split_off(1)
}

/// Waits until none of these processes runs.
pub(crate) async fn gone(processes: &[u32]) {
    eventually(LIMIT, async || {
        let left: Vec<_> = processes.iter().filter(|id| parent(**id).is_some()).collect();
        ensure!(left.is_empty(), "still there: {left:?}");
        Ok(())
    })
    .await;
}

/// Waits until a process with this text in its command line runs.
pub(crate) async fn running(token: &str) {
    eventually(LIMIT, async || (!processes(token).is_empty()).then_some(()).context("none yet"))
        .await;
}

/// Waits until no process with this text in its command line runs.
pub(crate) async fn ended(token: &str) {
    eventually(LIMIT, async || {
        let left = processes(token);
        ensure!(left.is_empty(), "still there: {left:?}");
        Ok(())
    })
    .await;
}

fn all_processes() -> impl Iterator<Item = u32> {
    std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

/// The parent of a process that runs; one that has ended and was not reaped yet does not.
fn parent(id: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The name before it is in parentheses and may hold anything.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X") { None } else { fields.next()?.parse().ok() }
}

/// A caller that is none of ours: it knows the broker and the contract, and reads what comes.
pub(crate) struct Stranger<'a> {
    pub(crate) vhost: &'a Vhost,
}

/// A message as a stranger writes it.
#[derive(Clone)]
pub(crate) struct Frame {
    pub(crate) topic: &'static str,
    pub(crate) properties: Value,
    pub(crate) body: Vec<u8>,
}

impl Frame {
    /// As the C# code writes a request: every property, and headers that are long strings.
    pub(crate) fn new(topic: &'static str, kind: &str, body: impl Into<Vec<u8>>) -> Self {
        let id = toolbus_wire::envelope::new_id();
        let properties = json!({
            "content_type": "application/json",
            "delivery_mode": 2,
            "type": kind,
            "message_id": id,
            "correlation_id": id,
            "reply_to": ANSWERS,
            "timestamp": 1_772_054_103,
            "headers": {"rb-source": "Stranger"},
        });
        Self { topic, properties, body: body.into() }
    }

    /// A `ToolInvokeRequest`.
    pub(crate) fn tool(topic: &'static str, tool: &str, arguments: &Value) -> Self {
        let body = json!({
            "toolCallId": "call_1",
            "toolName": tool,
            "arguments": arguments.to_string(),
            "sessionId": null,
        });
        Self::new(topic, "RockBot.Tools.ToolInvokeRequest", body.to_string())
    }

    /// A `ScriptInvokeRequest`.
    pub(crate) fn script(script: &str) -> Self {
        let body = json!({
            "toolCallId": "call_1",
            "script": script,
            "inputData": null,
            "timeoutSeconds": 30,
            "pipPackages": null,
        });
        Self::new("script.invoke", "RockBot.Scripts.ScriptInvokeRequest", body.to_string())
    }

    /// The same without a reply topic, which the C# code writes as an empty text.
    pub(crate) fn without_reply_topic(mut self) -> Self {
        self.properties["reply_to"] = json!("");
        self
    }

    pub(crate) fn header(mut self, name: &str, value: Value) -> Self {
        self.properties["headers"][name] = value;
        self
    }

    pub(crate) fn correlation_id(&self) -> &str {
        self.properties["correlation_id"].as_str().unwrap()
    }
}

impl<'a> Stranger<'a> {
    /// Listens to its own answers and to what is published to these topics, in queues of the same
    /// names. The exchange must be there already.
    pub(crate) async fn new(vhost: &'a Vhost, topics: &[&str]) -> Self {
        for topic in topics.iter().chain(&[ANSWERS]) {
            vhost.declare_queue(topic, json!({"durable": true})).await.unwrap();
            vhost.bind("rockbot", topic, topic).await.unwrap();
        }
        Self { vhost }
    }

    /// Publishes a message that some queue must take.
    pub(crate) async fn send(&self, frame: &Frame) {
        let Frame { topic, properties, body } = frame;
        let sent = self.vhost.publish("rockbot", topic, properties.clone(), body).await;
        assert!(sent.unwrap(), "no queue takes {topic}");
    }

    /// Takes messages out of a queue until there were this many.
    pub(crate) async fn take(&self, queue: &str, count: usize) -> Vec<Message> {
        let mut taken = Vec::new();
        eventually(LIMIT, async || {
            taken.extend(self.vhost.take(queue, 100).await?);
            ensure!(taken.len() >= count, "{} of {count} messages", taken.len());
            anyhow::Ok(())
        })
        .await;
        taken
    }

    /// The one answer to a request.
    pub(crate) async fn ask(&self, frame: &Frame) -> Answer {
        self.send(frame).await;
        let taken = self.take(ANSWERS, 1).await;
        let [message] = &taken[..] else { panic!("{} answers", taken.len()) };
        let answer = Answer::of(message);
        assert_eq!(answer.properties["correlation_id"], frame.correlation_id());
        answer
    }
}

/// An answer as a stranger reads it.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) kind: String,
    pub(crate) properties: Value,
    pub(crate) body: Value,
}

impl Answer {
    pub(crate) fn of(message: &Message) -> Self {
        let properties = Value::Object(message.properties.clone());
        Self {
            kind: properties["type"].as_str().unwrap_or_default().to_owned(),
            properties,
            body: serde_json::from_slice(&message.body).unwrap(),
        }
    }
}

/// Fixed words of Toolbus that announce text from outside.
const ANNOUNCEMENTS: [&str; 7] = [
    "[There is news: ",
    "[A scheduled task is due: ",
    "[You are a subagent, and your task is ",
    "[Another agent asks for something: ",
    "Write the line for the page ",
    "Split the task ",
    "Do the step that ",
];

/// Returns a question to a model with its texts from outside as messages of the role `outside`,
/// which replace the calls made for the model and the words that announce them. Checks that no such
/// text has the role of the user.
pub(crate) fn as_told(asked: &Asked) -> Asked {
    let is_notice = |call: &Value| call["function"]["name"] == "read_notices";
    let mut told = Vec::new();
    for message in asked.body["messages"].as_array().into_iter().flatten() {
        let text = message["content"].as_str().unwrap_or_default();
        let calls = message["tool_calls"].as_array();
        match message["role"].as_str() {
            Some("assistant") if calls.is_some_and(|calls| calls.iter().all(is_notice)) => {}
            Some("user") if ANNOUNCEMENTS.iter().any(|words| text.starts_with(*words)) => {}
            Some("tool") if text.starts_with("<<outside ") => {
                let lines: Vec<&str> = text.lines().collect();
                let inner = lines[1..lines.len() - 1].join("\n");
                told.push(json!({"role": "outside", "content": inner}));
            }
            role => {
                assert!(role != Some("user") || !text.contains("<<outside "), "{text}");
                told.push(message.clone());
            }
        }
    }

    let mut asked = asked.clone();
    if asked.body["messages"].is_array() {
        asked.body["messages"] = told.into();
    }
    asked
}
