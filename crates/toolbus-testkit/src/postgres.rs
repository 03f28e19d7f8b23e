//! PostgreSQL for tests: [`database`] for most, a [`Server`] of one's own for those that break it.

use std::env;
use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use tempfile::TempDir;
use tokio::sync::OnceCell;
use tokio::time::Instant;

use crate::process::Process;

/// Where Debian and Ubuntu have the programs of each version.
const DEBIAN_VERSIONS: &str = "/usr/lib/postgresql";
/// A start takes less than a second on an idle core.
const START_TIMEOUT: Duration = Duration::from_secs(60);
const STOP_TIMEOUT: Duration = Duration::from_secs(30);
/// A port may be taken between the choice and its use.
const ATTEMPTS: usize = 3;
const USER: &str = "toolbus";
/// Names the port of the server that all tests of a run share.
const SHARED: &str = "TOOLBUS_TEST_POSTGRES";
/// PostgreSQL does not run as root, so root's servers run as nobody.
const NOBODY: u32 = 65_534;

/// A private server. Killed, with all its data, when this is dropped.
pub struct Server {
    process: Option<Process>,
    programs: PathBuf,
    port: u16,
    settings: &'static [&'static str],
    folder: TempDir,
}

/// Returns the URL of an empty database for one test, on the server at the port that
/// `TOOLBUS_TEST_POSTGRES` names, else on a server that is started once for this test process.
/// `None` if PostgreSQL is not installed and may be missing.
///
/// # Panics
/// If the server cannot be started, if it is missing and `TOOLBUS_REQUIRE_REAL` is `1`, or if the
/// package does not declare it.
pub async fn database() -> Option<String> {
    // As for the broker: a server takes a second to start, and tests share nothing else.
    static SERVER: OnceCell<Option<Server>> = OnceCell::const_new();
    crate::declared::check("services", "postgresql");
    let created = match env::var(SHARED) {
        Ok(port) => shared_database(&port),
        Err(_) => SERVER.get_or_init(server).await.as_ref()?.database(),
    };
    Some(created.unwrap_or_else(|error| panic!("no database: {error:?}")))
}

fn shared_database(port: &str) -> anyhow::Result<String> {
    let port = port.parse().with_context(|| format!("{SHARED}={port}"))?;
    create_database(&find_programs().context("PostgreSQL is not installed")?, port)
}

/// A server of the test's own. `None` as for [`database`].
///
/// # Panics
/// As [`database`] does.
pub async fn server() -> Option<Server> {
    if find_programs().is_none() {
        crate::skip("PostgreSQL is not installed: run dev/setup");
        return None;
    }
    Some(Server::start().await.unwrap_or_else(|error| panic!("no server: {error:?}")))
}

impl Server {
    /// Starts a server for a whole test run. What it commits does not survive a loss of power.
    ///
    /// # Errors
    /// When PostgreSQL is not installed, or does not start.
    pub async fn start_shared() -> anyhow::Result<Self> {
        Self::start_with(&["fsync=off", "max_connections=1000"]).await
    }

    async fn start() -> anyhow::Result<Self> {
        Self::start_with(&["max_connections=100"]).await
    }

    async fn start_with(settings: &'static [&'static str]) -> anyhow::Result<Self> {
        let programs = find_programs().context("PostgreSQL is not installed")?;
        let folder = tempfile::Builder::new().prefix("toolbus-test-").tempdir()?;
        if is_root() {
            chown(folder.path(), Some(NOBODY), Some(NOBODY))?;
        }
        let data = folder.path().join("data");
        let mut initdb = command(&programs, "initdb");
        initdb.args(["--auth", "trust", "--no-sync", "--encoding", "UTF8", "--username", USER]);
        let made = initdb.arg("--pgdata").arg(&data).output().context("initdb")?;
        ensure!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));

        let mut server = Self { process: None, programs, port: 0, settings, folder };
        for attempt in 1.. {
            [server.port] = crate::ports::free()?;
            match server.run().await {
                Ok(()) => break,
                Err(error) if attempt == ATTEMPTS => return Err(error),
                Err(_) => {}
            }
        }
        Ok(server)
    }

    /// The port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Creates an empty database.
    ///
    /// # Errors
    /// When the server does not run.
    pub fn database(&self) -> anyhow::Result<String> {
        create_database(&self.programs, self.port)
    }

    /// Starts it again, where it was before.
    ///
    /// # Errors
    /// When it is not ready in time; the error has its output.
    pub async fn run(&mut self) -> anyhow::Result<()> {
        let mut postgres = command(&self.programs, "postgres");
        postgres.arg("-D").arg(self.folder.path().join("data"));
        postgres.arg("-k").arg(self.folder.path()).arg("-p").arg(self.port.to_string());
        let fixed = ["listen_addresses=127.0.0.1", "shared_buffers=16MB"];
        for setting in fixed.iter().chain(self.settings) {
            postgres.args(["-c", setting]);
        }
        let folder = self.folder.path();
        let mut process = Process::spawn_with("postgres", &mut postgres, folder, Some(folder))?;

        let end = Instant::now() + START_TIMEOUT;
        while !self.is_ready()? {
            if process.exit_status().is_some() || Instant::now() > end {
                bail!("PostgreSQL is not ready\n{}", process.logs());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        self.process = Some(process);
        Ok(())
    }

    /// Stops it, as an administrator would who does not wait for clients.
    ///
    /// # Errors
    /// When it does not stop.
    pub async fn stop(&mut self) -> anyhow::Result<()> {
        let data = self.folder.path().join("data");
        let stopped = command(&self.programs, "pg_ctl")
            .args(["stop", "--mode", "fast", "--pgdata"])
            .arg(data)
            .output()
            .context("pg_ctl")?;
        ensure!(stopped.status.success(), "pg_ctl: {}", String::from_utf8_lossy(&stopped.stderr));
        if let Some(mut process) = self.process.take() {
            process.wait(STOP_TIMEOUT).await?;
        }
        Ok(())
    }

    fn is_ready(&self) -> anyhow::Result<bool> {
        let port = self.port.to_string();
        let mut ready = command(&self.programs, "pg_isready");
        ready.args(["--quiet", "--host", "127.0.0.1", "--port", &port, "--username", USER]);
        Ok(ready.status().context("pg_isready")?.success())
    }
}

fn create_database(programs: &Path, port: u16) -> anyhow::Result<String> {
    let name = format!("test_{}", uuid::Uuid::new_v4().simple());
    let made = command(programs, "createdb")
        .args(["--host", "127.0.0.1", "--port", &port.to_string(), "--username", USER, &name])
        .output()
        .context("createdb")?;
    ensure!(made.status.success(), "createdb: {}", String::from_utf8_lossy(&made.stderr));
    Ok(format!("postgres://{USER}@127.0.0.1:{port}/{name}"))
}

/// The folder of PostgreSQL's programs: the newest of Debian's, else the first on `PATH`.
fn find_programs() -> Option<PathBuf> {
    let has_all =
        |folder: &PathBuf| ["initdb", "postgres"].iter().all(|name| folder.join(name).is_file());
    let versions = fs::read_dir(DEBIAN_VERSIONS).into_iter().flatten().flatten();
    let mut versions: Vec<(u32, PathBuf)> = versions
        .filter_map(|version| {
            let number = version.file_name().to_str()?.parse().ok()?;
            Some((number, version.path().join("bin")))
        })
        .filter(|(_, folder)| has_all(folder))
        .collect();
    versions.sort();
    if let Some((_, newest)) = versions.pop() {
        return Some(newest);
    }

    let path = env::var_os("PATH")?;
    env::split_paths(&path).find(has_all)
}

fn command(programs: &Path, name: &str) -> Command {
    let mut command = Command::new(programs.join(name));
    // Somewhere that nobody may read too.
    command.current_dir("/").env("LC_ALL", "C.UTF-8");
    if is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
