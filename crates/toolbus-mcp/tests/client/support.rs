//! What the tests share: sets from JSON, calls, and processes that must be gone.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use toolbus_bus::{Deadline, Progress};
use toolbus_mcp::config::{self, StdioIsolation, Variables};
use toolbus_mcp::server_pool::{Change, Changes, PoolConfig, ServerPool};
use toolbus_mcp::supervisor::Supervisor;
use toolbus_mcp::{
    Call, CallError, CallResult, PrivateAddresses, RegistrationRules, ServerState,
    StdioRegistration,
};
use toolbus_testkit::eventually;
use toolbus_tools::Scope;
use toolbus_tools::call::{Call as AgentCall, CallTime};
use toolbus_wire::message::toolbus::ToolProgress;
use toolbus_wire::name::AgentName;

/// Longer than anything here takes, on a slow machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// How long a server may take to start on a machine that does other things too. Tests of servers
/// that never get there have a limit of their own.
pub(crate) const CONNECT_LIMIT: Duration = Duration::from_secs(120);

/// Servers are supervised, as those of our programs are.
pub(crate) fn options() -> PoolConfig {
    let mut options = PoolConfig::new(std::env::vars_os());
    options.connect_timeout = CONNECT_LIMIT;
    options.supervisor = Some(supervisor());
    options.private_registration = PrivateAddresses::Allowed;
    // Servers note their own process ids, which a shield changes. `shielded.rs` has it on.
    options.stdio_isolation = StdioIsolation::Off;
    options
}

/// The rules of an operator who lets agents register servers by any address, and no programs.
pub(crate) fn registration_by_address() -> RegistrationRules {
    RegistrationRules { programs: StdioRegistration::Denied, ..RegistrationRules::allow_all() }
}

pub(crate) fn supervisor() -> Supervisor {
    Supervisor::program(env!("CARGO_BIN_EXE_toolbus-mcp-supervisor"))
}

pub(crate) fn entries(servers: Value) -> Vec<config::Entry> {
    let text = json!({"mcpServers": servers}).to_string();
    let config = config::parse(&text, Variables::Refused).expect("JSON");
    assert_eq!(config.mistakes, []);
    config.servers
}

/// Starts the servers and waits for their first attempts.
pub(crate) async fn start_with(servers: Value, options: PoolConfig) -> ServerPool {
    let set = ServerPool::start(entries(servers), options).expect("an HTTP client");
    set.wait_settled().await;
    set
}

pub(crate) async fn start(servers: Value) -> ServerPool {
    start_with(servers, options()).await
}

pub(crate) fn arguments(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(arguments) => arguments,
        other => panic!("not an object: {other}"),
    }
}

pub(crate) fn call_of(server: &str, tool: &str, args: Value) -> Call {
    Call::new(Some(server), tool, arguments(args), Deadline::after(PATIENCE))
}

pub(crate) async fn call(
    set: &ServerPool,
    server: &str,
    tool: &str,
    args: Value,
) -> Result<CallResult, CallError> {
    set.call(call_of(server, tool, args)).await
}

pub(crate) fn state(set: &ServerPool, server: &str) -> ServerState {
    set.find(server).expect("a known server").state
}

pub(crate) fn tool_names(set: &ServerPool, server: &str) -> Vec<String> {
    set.find(server).and_then(|status| status.summary).map(|s| s.tool_names).unwrap_or_default()
}

/// The next difference in what there is. It comes of what was done before, so it is not far.
pub(crate) async fn next(changes: &mut Changes) -> Option<Change> {
    tokio::time::timeout(CONNECT_LIMIT, changes.next()).await.expect("a change, or the end")
}

/// A call of an agent's model.
pub(crate) fn call_by_agent(tool: &str, arguments: Value) -> AgentCall {
    AgentCall::by_name(&Scope::local(AgentName::standard()), tool, arguments)
        .expect("a short name")
        .with_time(CallTime::within(PATIENCE))
}

/// Progress that is kept.
pub(crate) fn progress() -> (Progress, Arc<Mutex<Vec<ToolProgress>>>) {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&heard);
    (Progress::to(move |progress| sink.lock().push(progress)), heard)
}

/// Nothing of the environment and of the user. Unlike with `-I`, a script finds what is beside it;
/// nothing is written there.
pub(crate) const PYTHON_OPTIONS: [&str; 3] = ["-E", "-s", "-B"];

/// A server in Python that listens on a port of 127.0.0.1 and prints it. Killed at drop.
pub(crate) struct Script {
    child: Child,
    pub(crate) port: u16,
}

impl Script {
    /// Starts `tests/servers/NAME` with one argument.
    pub(crate) fn start(name: &str, argument: &str) -> Self {
        Self::start_with("python3", name, argument)
    }

    /// The same, with another Python.
    pub(crate) fn start_with(python: &str, name: &str, argument: &str) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers").join(name);
        Self::run(Command::new(python).args(PYTHON_OPTIONS).arg(script).arg(argument))
    }

    /// Starts a server by another command.
    pub(crate) fn run(command: &mut Command) -> Self {
        let command = command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("a program");
        let mut port = String::new();
        let stdout = child.stdout.take().expect("a pipe");
        BufReader::new(stdout).read_line(&mut port).expect("a port");
        Self { child, port: port.trim().parse().expect("a port") }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// A request of a test, beside the connections that are tested.
    pub(crate) async fn ask(&self, path: &str, order: Option<Value>) -> Value {
        let client = toolbus_testkit::http_client_builder().build().expect("a client");
        let request = match order {
            Some(order) => client.post(self.url(path)).body(order.to_string()),
            None => client.get(self.url(path)),
        };
        let answer = request.send().await.expect("an answer").text().await.expect("a text");
        serde_json::from_str(&answer).expect("JSON")
    }

    /// What it was asked so far.
    pub(crate) async fn log(&self) -> Vec<Value> {
        match self.ask("/log", None).await {
            Value::Array(log) => log,
            other => panic!("no log: {other}"),
        }
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The entry of a hostile server: `tests/servers/hostile.py` with what it should do. Each of its
/// processes adds its id to a file in `folder`: without a shield, where that is its id out here.
pub(crate) fn hostile(folder: &Path, kind: &str) -> Value {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/servers/hostile.py");
    let args = json!(["-I", script, kind, pid_file(folder, kind)]);
    json!({"command": "python3", "args": args, "sandbox": "off"})
}

/// Returns the processes that have this folder among their arguments.
pub(crate) fn processes_of(folder: &Path) -> Vec<u32> {
    let folder = folder.to_str().expect("UTF-8");
    let processes = std::fs::read_dir("/proc").expect("/proc").flatten();
    let ids = processes.filter_map(|process| process.file_name().to_str()?.parse().ok());
    ids.filter(|id: &u32| {
        let line = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(folder)
    })
    .collect()
}

fn pid_file(folder: &Path, kind: &str) -> PathBuf {
    folder.join(format!("{kind}.pids"))
}

/// The processes that a hostile server was so far.
pub(crate) fn pids(folder: &Path, kind: &str) -> Vec<u32> {
    let text = std::fs::read_to_string(pid_file(folder, kind)).unwrap_or_default();
    text.lines().map(|line| line.parse().expect("a process id")).collect()
}

/// Waits until none of the processes is there, not even as a zombie.
pub(crate) async fn gone(pids: &[u32]) {
    assert!(!pids.is_empty(), "no process was ever started");
    eventually(PATIENCE, async || {
        let left: Vec<&u32> =
            pids.iter().filter(|pid| Path::new(&format!("/proc/{pid}")).exists()).collect();
        if left.is_empty() { Ok(()) } else { Err(format!("still there: {left:?}")) }
    })
    .await;
}
