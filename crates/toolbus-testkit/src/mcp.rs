//! MCP servers that nobody here wrote: `server-everything`, which shows every feature of the
//! protocol, and the small ones that people really use. Each is `None` where it has not been
//! fetched and may be missing.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::ensure;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::process::Process;

const START_TIMEOUT: Duration = Duration::from_secs(30);

/// How to start a server that speaks MCP over its standard input and output.
#[derive(Debug, Clone)]
pub struct StdioServer {
    /// The program, an absolute path.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
}

/// A running server that speaks MCP over HTTP on 127.0.0.1. Killed at drop.
#[derive(Debug)]
pub struct HttpServer {
    server: StdioServer,
    /// What its entry calls its transport, and where it answers.
    kind: (&'static str, &'static str),
    process: Option<Process>,
    address: SocketAddr,
    folder: TempDir,
}

/// `server-everything` over stdio. `None` where it has not been fetched and may be missing.
///
/// # Panics
/// When it is missing and `TOOLBUS_REQUIRE_REAL` is `1`.
pub fn everything_stdio() -> Option<StdioServer> {
    everything("stdio")
}

/// `mcp-server-time` over stdio, with UTC as its local time zone. `None` where it has not been
/// fetched and may be missing.
///
/// # Panics
/// When it is missing and `TOOLBUS_REQUIRE_REAL` is `1`.
pub fn time() -> Option<StdioServer> {
    let folder = crate::parts::folder("time")?;
    let args = ["-m", "mcp_server_time", "--local-timezone", "UTC"];
    Some(StdioServer::new(&folder.join("bin/python"), &args))
}

/// `server-filesystem`, which reads and writes below one folder.
///
/// # Panics
/// When it is missing and `TOOLBUS_REQUIRE_REAL` is `1`.
pub fn filesystem(allowed: &Path) -> Option<StdioServer> {
    node_server("filesystem", &[&allowed.display().to_string()])
}

/// `server-memory`, which keeps what it is told in the file that its environment names as
/// `MEMORY_FILE_PATH`.
///
/// # Panics
/// When it is missing and `TOOLBUS_REQUIRE_REAL` is `1`.
pub fn memory() -> Option<StdioServer> {
    node_server("memory", &[])
}

/// `server-memory`, started as people start it: by npm, which finds the package, starts a shell,
/// and that the server. Nothing is asked of the network.
///
/// # Panics
/// When it is missing and `TOOLBUS_REQUIRE_REAL` is `1`.
pub fn memory_by_npm() -> Option<StdioServer> {
    let folder = crate::parts::folder("node-servers")?;
    let node = folder.join("node").canonicalize().unwrap_or_else(|e| panic!("node: {e}"));
    let program = node.with_file_name("npm");
    let folder = folder.display().to_string();
    let args = ["exec", "--offline", "--no", "--prefix", &folder, "--", "mcp-server-memory"];
    Some(StdioServer::new(&program, &args))
}

/// `server-sequential-thinking`, which counts the thoughts that it is told.
///
/// # Panics
/// When it is missing and `TOOLBUS_REQUIRE_REAL` is `1`.
pub fn sequential_thinking() -> Option<StdioServer> {
    node_server("sequential-thinking", &[])
}

/// `mcp-server-fetch` with these options.
///
/// # Panics
/// When it is missing and `TOOLBUS_REQUIRE_REAL` is `1`.
pub fn fetch(options: &[&str]) -> Option<StdioServer> {
    python_server("mcp_server_fetch", options)
}

/// `mcp-server-git` for one repository.
///
/// # Panics
/// When it is missing and `TOOLBUS_REQUIRE_REAL` is `1`.
pub fn git(repository: &Path) -> Option<StdioServer> {
    python_server("mcp_server_git", &["--repository", &repository.display().to_string()])
}

/// `server-everything` over streamable HTTP, running. `None` where it has not been fetched and may
/// be missing.
///
/// # Panics
/// When it does not start, or it is missing and `TOOLBUS_REQUIRE_REAL` is `1`.
pub async fn everything_http() -> Option<HttpServer> {
    HttpServer::everything("streamableHttp", ("http", "/mcp")).await
}

/// `server-everything` over the older HTTP transport with server-sent events, running. `None` where
/// it has not been fetched and may be missing.
///
/// # Panics
/// When it does not start, or it is missing and `TOOLBUS_REQUIRE_REAL` is `1`.
pub async fn everything_sse() -> Option<HttpServer> {
    HttpServer::everything("sse", ("sse", "/sse")).await
}

fn everything(transport: &str) -> Option<StdioServer> {
    let folder = crate::parts::folder("everything")?;
    let script = folder.join("server.js").display().to_string();
    Some(StdioServer::new(&folder.join("node"), &[&script, transport]))
}

fn node_server(name: &str, args: &[&str]) -> Option<StdioServer> {
    let folder = crate::parts::folder("node-servers")?;
    let script = folder.join(format!("{name}.js")).display().to_string();
    let args: Vec<&str> = [&*script].into_iter().chain(args.iter().copied()).collect();
    Some(StdioServer::new(&folder.join("node"), &args))
}

fn python_server(module: &str, args: &[&str]) -> Option<StdioServer> {
    let folder = crate::parts::folder("python-servers")?;
    let args: Vec<&str> = ["-m", module].into_iter().chain(args.iter().copied()).collect();
    Some(StdioServer::new(&folder.join("bin/python"), &args))
}

impl StdioServer {
    fn new(command: &Path, args: &[&str]) -> Self {
        Self {
            command: command.display().to_string(),
            args: args.iter().map(|&arg| arg.to_owned()).collect(),
        }
    }

    /// The server's entry for an `mcp.json`, with time to start on a machine that is busy with
    /// other tests.
    pub fn to_json(&self) -> Value {
        json!({"command": self.command, "args": self.args, "startupTimeoutMs": 60_000})
    }

    /// A command that starts it.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.command);
        command.args(&self.args);
        command
    }
}

impl HttpServer {
    async fn everything(transport: &str, kind: (&'static str, &'static str)) -> Option<Self> {
        let server = everything(transport)?;
        let started = Self::start(server, kind).await;
        Some(started.unwrap_or_else(|error| panic!("no server: {error:?}")))
    }

    async fn start(
        server: StdioServer,
        kind: (&'static str, &'static str),
    ) -> anyhow::Result<Self> {
        let [port] = crate::ports::free()?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let folder = TempDir::with_prefix("toolbus-mcp-")?;
        let mut started = Self { server, kind, process: None, address, folder };
        started.start_again().await?;
        Ok(started)
    }

    /// Where it answers.
    pub fn url(&self) -> String {
        format!("http://{}{}", self.address, self.kind.1)
    }

    /// The server's entry for an `mcp.json`.
    pub fn to_json(&self) -> Value {
        json!({"type": self.kind.0, "url": self.url()})
    }

    /// Ends the server as a crash would.
    pub fn crash(&mut self) {
        self.process = None;
    }

    /// Starts the server on the same port after [`HttpServer::crash`]; its sessions are forgotten.
    ///
    /// # Errors
    /// When it is running, ends or does not listen within half a minute.
    pub async fn start_again(&mut self) -> anyhow::Result<()> {
        ensure!(self.process.is_none(), "the server is running");
        let mut command = self.server.command();
        command.env("PORT", self.address.port().to_string()).stdin(Stdio::null());
        let folder = self.folder.path();
        let mut process = Process::spawn_with("everything", &mut command, folder, Some(folder))?;
        let end = Instant::now() + START_TIMEOUT;

        while TcpStream::connect(self.address).await.is_err() {
            let status = process.exit_status();
            ensure!(status.is_none(), "ended: {status:?}\n{}", process.logs());
            ensure!(Instant::now() < end, "not ready in {START_TIMEOUT:?}\n{}", process.logs());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }

        self.process = Some(process);
        Ok(())
    }

    /// The process while it runs, to be paused and read.
    pub fn process(&mut self) -> Option<&mut Process> {
        self.process.as_mut()
    }
}
