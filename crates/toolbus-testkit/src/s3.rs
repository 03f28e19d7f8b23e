//! A server that speaks S3 and that nobody here wrote: `moto`, which keeps everything in memory.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::ensure;
use tempfile::TempDir;
use tokio::time::Instant;

use crate::process::Process;

const START_TIMEOUT: Duration = Duration::from_secs(60);

/// A running server with one bucket, `bucket`. Killed, with all it keeps, at drop.
#[derive(Debug)]
pub struct S3 {
    process: Process,
    address: SocketAddr,
    http: reqwest::Client,
    _folder: TempDir,
}

impl S3 {
    /// Starts a server. `None` where it has not been fetched and may be missing.
    ///
    /// # Panics
    /// When it does not start, or it is missing and `TOOLBUS_REQUIRE_REAL` is `1`.
    pub async fn start() -> Option<Self> {
        let program = crate::parts::folder("s3")?.join("bin/python");
        let launched = Self::launch(program).await;
        Some(launched.unwrap_or_else(|error| panic!("no S3: {error:?}")))
    }

    async fn launch(program: PathBuf) -> anyhow::Result<Self> {
        let [port] = crate::ports::free()?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let folder = TempDir::with_prefix("toolbus-s3-")?;
        let mut command = Command::new(program);
        command.args(["-m", "moto.server", "-H", "127.0.0.1", "-p", &port.to_string()]);
        command.stdin(Stdio::null());
        let process = Process::spawn("s3", &mut command, folder.path())?;
        let mut server = Self { process, address, http: crate::http_client()?, _folder: folder };

        let end = Instant::now() + START_TIMEOUT;
        while !server.has_bucket().await {
            let status = server.process.exit_status();
            ensure!(status.is_none(), "ended: {status:?}\n{}", server.process.logs());
            ensure!(Instant::now() < end, "not ready\n{}", server.process.logs());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(server)
    }

    async fn has_bucket(&self) -> bool {
        let made = self.http.put(format!("http://{}/bucket", self.address)).send().await;
        made.is_ok_and(|made| made.status().is_success())
    }

    /// What programs reach it with, as AWS's own read it.
    #[must_use]
    pub fn variables(&self) -> Vec<(String, String)> {
        [
            ("AWS_ENDPOINT_URL", format!("http://{}", self.address)),
            ("AWS_ALLOW_HTTP", "true".to_owned()),
            ("AWS_REGION", "us-east-1".to_owned()),
            ("AWS_ACCESS_KEY_ID", "test".to_owned()),
            ("AWS_SECRET_ACCESS_KEY", "secret-of-the-test".to_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }

    /// Ends it, and all it keeps.
    pub fn kill(&mut self) {
        self.process.kill();
    }
}
