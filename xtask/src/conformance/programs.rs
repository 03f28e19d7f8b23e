//! The programs that the suite runs against. Each ends with its value, and in any case after
//! [`RUN_TIMEOUT`], even if this process is killed: `timeout` of coreutils starts them.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};

use crate::workspace;

/// How long a whole run may take at most.
const RUN_TIMEOUT: Duration = Duration::from_secs(600);
/// How long a program may take to be ready.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a program may take to end once it is told to.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
/// The name that the server under test has in the fleet.
const SERVER: &str = "conformance";

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

/// The fleet in front of it: agent-host with its MCP face, and the bridge.
pub(super) struct FleetHop {
    _host: RunningProgram,
    _bridge: RunningProgram,
    face: SocketAddr,
}

impl DirectServer {
    pub(super) fn start(programs: &Path, logs: &Path) -> anyhow::Result<Self> {
        let address = free_address()?;
        let mut command = command_with_timeout(&programs.join("conformance-server"));
        command.arg(address.port().to_string()).stdin(Stdio::piped());
        let mut server = RunningProgram::start("conformance-server", &mut command, logs)?;
        server.wait_until(|| TcpStream::connect(address).is_ok())?;
        Ok(Self { _server: server, address })
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }
}

impl FleetHop {
    pub(super) fn start(
        programs: &Path,
        logs: &Path,
        amqp: &str,
        server: &str,
    ) -> anyhow::Result<Self> {
        let face = free_address()?;
        let config = logs.join("mcp.json");
        let entry = serde_json::json!({"mcpServers": {SERVER: {"type": "http", "url": server}}});
        std::fs::write(&config, entry.to_string())?;
        let mut command = command_with_timeout(&programs.join("mcp-bridge"));
        command.args(["--bus", amqp, "--mcp-config"]).arg(config);
        let bridge = RunningProgram::start("mcp-bridge", &mut command, logs)?;
        let mut command = command_with_timeout(&programs.join("agent-host"));
        command.args(["--bus", amqp, "serve", "--mcp", &face.to_string()]);
        let mut host = RunningProgram::start("agent-host", &mut command, logs)?;
        host.wait_until(|| face_knows_server(face).unwrap_or(false))?;
        Ok(Self { _host: host, _bridge: bridge, face })
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}/mcp/{SERVER}", self.face)
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

/// Whether the face knows the server: it answers 404 until a bridge has announced it.
fn face_knows_server(face: SocketAddr) -> anyhow::Result<bool> {
    let mut stream = TcpStream::connect(face)?;
    stream.set_read_timeout(Some(Duration::from_secs(2)))?;
    write!(stream, "GET /mcp/{SERVER} HTTP/1.1\r\nHost: {face}\r\nConnection: close\r\n\r\n")?;
    let mut line = [0; 12];
    stream.read_exact(&mut line)?;
    Ok(!line.ends_with(b"404"))
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
