//! The official library of the A2A protocol, in Python: its client for our server, and its server
//! for our client.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::ensure;
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::process::Process;

const START_TIMEOUT: Duration = Duration::from_secs(60);

/// A running server of the library. Killed at drop.
#[derive(Debug)]
pub struct SdkServer {
    process: Process,
    address: SocketAddr,
    _folder: TempDir,
}

/// A Python that has `a2a`. `None` where it has not been fetched and may be missing.
///
/// # Panics
/// When it is missing and `TOOLBUS_REQUIRE_REAL` is `1`.
pub fn python() -> Option<Command> {
    Some(Command::new(program()?))
}

fn program() -> Option<PathBuf> {
    Some(crate::parts::folder("a2a-sdk")?.join("bin/python"))
}

impl SdkServer {
    /// Runs a script, which is told its port as its argument, and waits until it listens there.
    /// `None` as for [`python`].
    ///
    /// # Panics
    /// When it does not start, or is missing and `TOOLBUS_REQUIRE_REAL` is `1`.
    pub async fn start(script: &Path) -> Option<Self> {
        let launched = Self::launch(program()?, script).await;
        Some(launched.unwrap_or_else(|error| panic!("no server of a2a-sdk: {error:?}")))
    }

    async fn launch(program: PathBuf, script: &Path) -> anyhow::Result<Self> {
        let [port] = crate::ports::free()?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let folder = TempDir::with_prefix("toolbus-a2a-sdk-")?;
        let mut command = Command::new(program);
        command.arg(script).arg(port.to_string()).stdin(Stdio::null());
        command.current_dir(folder.path());
        let process = Process::spawn("a2a-sdk", &mut command, folder.path())?;
        let mut server = Self { process, address, _folder: folder };

        let end = Instant::now() + START_TIMEOUT;
        while TcpStream::connect(address).await.is_err() {
            let status = server.process.exit_status();
            ensure!(status.is_none(), "ended: {status:?}\n{}", server.process.logs());
            ensure!(Instant::now() < end, "not ready\n{}", server.process.logs());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(server)
    }

    /// Where it is, without a path.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What it wrote.
    #[must_use]
    pub fn logs(&self) -> String {
        self.process.logs()
    }
}
