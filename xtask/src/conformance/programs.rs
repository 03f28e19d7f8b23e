//! The programs that the suite runs against. Each ends with its value, and in any case after
//! [`RUN_TIMEOUT`], even if this process is killed: `timeout` of coreutils starts them.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};

use serde_json::json;

use super::SuiteTarget;
use crate::workspace;

/// How long a whole run may take at most.
const RUN_TIMEOUT: Duration = Duration::from_secs(600);
/// How long a program may take to be ready.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a program may take to end once it is told to.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
/// The name that the server under test has in the fleet.
const SERVER: &str = "conformance";
/// What it offers, and the server of the Python SDK that offers the same.
const OFFER: &str = "crates/conformance/src/bin/conformance-server/offer.json";
const PYTHON_SERVER: &str = "crates/conformance/python-server.py";

/// What a fleet is made of.
pub(super) struct FleetParts<'a> {
    /// Where our programs are.
    pub(super) programs: &'a Path,
    /// Where results and logs go.
    pub(super) logs: &'a Path,
    /// Where `server-everything` is.
    pub(super) everything: PathBuf,
    /// Where Python with its MCP SDK is.
    pub(super) python: PathBuf,
}

/// A program that runs.
struct RunningProgram {
    name: &'static str,
    child: Child,
}

/// The server under test.
pub(super) struct DirectServer {
    _server: RunningProgram,
    address: SocketAddr,
}

/// The fleet in front of servers: agent-host with its MCP face, and the bridge.
pub(super) struct FleetHop {
    _names: RunningProgram,
    _host: RunningProgram,
    _bridge: RunningProgram,
    face: SocketAddr,
    names: SocketAddr,
}

impl DirectServer {
    pub(super) fn start(parts: &FleetParts<'_>, arguments: &[&str]) -> anyhow::Result<Self> {
        let address = free_address()?;
        let mut command = command_with_timeout(&parts.programs.join("conformance-server"));
        command.arg(address.port().to_string()).args(arguments).stdin(Stdio::piped());
        let mut server = RunningProgram::start("conformance-server", &mut command, parts.logs)?;
        server.wait_until(|| TcpStream::connect(address).is_ok())?;
        Ok(Self { _server: server, address })
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }
}

impl FleetHop {
    /// Starts it with two servers over HTTP, one for each era, and those over stdio. `bus` is where
    /// the bridge reaches the broker of `amqp`.
    pub(super) fn start(
        parts: &FleetParts<'_>,
        amqp: &str,
        bus: &str,
        server: &str,
        initialize: &str,
    ) -> anyhow::Result<Self> {
        let config = parts.logs.join("mcp.json");
        std::fs::write(&config, parts.config(server, initialize).to_string())?;
        let mut command = command_with_timeout(&parts.programs.join("mcp-bridge"));
        command.args(["--bus", bus, "--mcp-config"]).arg(config);
        let bridge = RunningProgram::start("mcp-bridge", &mut command, parts.logs)?;

        let face = free_address()?;
        let mut command = command_with_timeout(&parts.programs.join("agent-host"));
        command.args(["--bus", amqp, "serve", "--mcp", &face.to_string()]);
        command.env("TOOLBUS_DIRECT_TOOLS", "true");
        let mut host = RunningProgram::start("agent-host", &mut command, parts.logs)?;
        for place in SuiteTarget::ALL {
            let Some(server) = server_name(place) else { continue };
            host.wait_until(|| face_knows_server(face, server).unwrap_or(false))?;
        }
        let prefix = format!("{SERVER}__");
        host.wait_until(|| face_offers_tools(face, &prefix).unwrap_or(false))?;

        let names = free_address()?;
        let mut command = command_with_timeout(&parts.programs.join("conformance-names"));
        command.args([&names.port().to_string(), &format!("http://{face}/mcp"), &prefix]);
        command.stdin(Stdio::piped());
        let mut proxy = RunningProgram::start("conformance-names", &mut command, parts.logs)?;
        proxy.wait_until(|| TcpStream::connect(names).is_ok())?;

        Ok(Self { _names: proxy, _host: host, _bridge: bridge, face, names })
    }

    /// Where a server is reached through it, or the agent itself.
    pub(super) fn url(&self, place: SuiteTarget) -> String {
        match server_name(place) {
            Some(server) => format!("http://{}/mcp/{server}", self.face),
            None => format!("http://{}/mcp", self.names),
        }
    }
}

impl FleetParts<'_> {
    /// The `mcp.json` of all servers.
    fn config(&self, server: &str, initialize: &str) -> serde_json::Value {
        let entries = SuiteTarget::ALL.into_iter().filter_map(|place| {
            let entry = match place {
                SuiteTarget::Hop => json!({"type": "http", "url": server}),
                SuiteTarget::Initialize => json!({"type": "http", "url": initialize}),
                SuiteTarget::Stdio => {
                    program(self.programs.join("conformance-server"), ["stdio".into()])
                }
                SuiteTarget::Python => program(
                    self.python.join("bin/python"),
                    [PYTHON_SERVER, OFFER].map(|file| workspace::root().join(file)),
                ),
                SuiteTarget::Everything => program(
                    self.everything.join("node"),
                    [self.everything.join("server.js"), "stdio".into()],
                ),
                SuiteTarget::Direct | SuiteTarget::Agent | SuiteTarget::Client => return None,
            };
            Some((server_name(place)?.to_owned(), entry))
        });

        let entries: serde_json::Map<_, _> = entries.collect();
        json!({ "mcpServers": entries })
    }
}

/// The entry of a server that is a program.
fn program<const N: usize>(command: PathBuf, arguments: [PathBuf; N]) -> serde_json::Value {
    json!({"command": command, "args": arguments.as_slice()})
}

/// The name in the fleet of the server that a column is about. `None` where it is about no path.
fn server_name(place: SuiteTarget) -> Option<&'static str> {
    match place {
        SuiteTarget::Direct | SuiteTarget::Agent | SuiteTarget::Client => None,
        SuiteTarget::Hop => Some(SERVER),
        other => Some(other.name()),
    }
}

/// A command that ends by itself.
pub(super) fn command_with_timeout(program: &Path) -> Command {
    let mut command = Command::new("timeout");
    command.arg("--kill-after=10").arg(RUN_TIMEOUT.as_secs().to_string()).arg(program);
    command.current_dir(workspace::root()).stdin(Stdio::null());
    command
}

fn free_address() -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}

/// Whether the face knows a server: it answers 404 until a bridge has announced it.
fn face_knows_server(face: SocketAddr, server: &str) -> anyhow::Result<bool> {
    let mut stream = connect(face)?;
    write!(stream, "GET /mcp/{server} HTTP/1.1\r\nHost: {face}\r\nConnection: close\r\n\r\n")?;
    let mut line = [0; 12];
    stream.read_exact(&mut line)?;
    Ok(!line.ends_with(b"404"))
}

/// Whether the agent offers tools with a prefix: it asks for what they take once a server is there.
fn face_offers_tools(face: SocketAddr, prefix: &str) -> anyhow::Result<bool> {
    let request = json!({
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/list",
        "params": {"_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "xtask", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }},
    });
    let request = request.to_string();

    let mut stream = connect(face)?;
    write!(
        stream,
        "POST /mcp HTTP/1.1\r\nHost: {face}\r\nConnection: close\r\n\
         Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
         MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/list\r\n\
         Content-Length: {}\r\n\r\n{request}",
        request.len()
    )?;
    let mut response = String::new();
    stream.read_to_string(&mut response)?;

    Ok(response.contains(prefix))
}

fn connect(face: SocketAddr) -> anyhow::Result<TcpStream> {
    let stream = TcpStream::connect(face)?;
    stream.set_read_timeout(Some(Duration::from_secs(2)))?;
    Ok(stream)
}

impl RunningProgram {
    fn start(name: &'static str, command: &mut Command, logs: &Path) -> anyhow::Result<Self> {
        let log = File::create(logs.join(format!("{name}.log")))?;
        command.stdout(log.try_clone()?).stderr(log);
        let child = command.spawn().with_context(|| format!("starting {name}"))?;
        Ok(Self { name, child })
    }

    fn wait_until(&mut self, ready: impl Fn() -> bool) -> anyhow::Result<()> {
        let end = Instant::now() + START_TIMEOUT;
        while !ready() {
            if let Some(status) = self.child.try_wait()? {
                bail!("{} ended: {status}", self.name);
            }
            ensure!(Instant::now() < end, "{} was not ready in {START_TIMEOUT:?}", self.name);
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }
}

impl Drop for RunningProgram {
    fn drop(&mut self) {
        // `timeout` hands the signal on. Where that fails, it has ended already.
        let pid = self.child.id().to_string();
        let _ = Command::new("kill").args(["-TERM", &pid]).stderr(Stdio::null()).status();
        let end = Instant::now() + STOP_TIMEOUT;
        while matches!(self.child.try_wait(), Ok(None)) {
            if Instant::now() > end {
                let _ = self.child.kill();
                let _ = self.child.wait();
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
