//! Our own programs as processes: started with nothing of the machine's settings, waited for until
//! they say that they are ready, always ended.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, bail, ensure};
use tempfile::TempDir;
use tokio::time::Instant;

use super::Process;

#[cfg(test)]
mod tests;

/// Names of the environment that would change what our programs do; a test sets what it wants.
const FOREIGN_SETTINGS: [&str; 6] =
    ["TOOLBUS_", "OTEL_", "RabbitMq__", "RUST_LOG", "OpenRouter__", "OPENROUTER_"];

/// How one of our programs is to be started.
#[derive(Debug)]
pub struct Launch {
    binary: String,
    /// Path of the binary, if it is not from this workspace's build.
    program: Option<PathBuf>,
    args: Vec<OsString>,
    env: Vec<(String, OsString)>,
    stdin: Input,
}

#[derive(Debug)]
enum Input {
    Nothing,
    Text(Vec<u8>),
    File(PathBuf),
}

/// A service of ours as a process, with its health port on a free port of 127.0.0.1.
#[derive(Debug)]
pub struct Service {
    process: Process,
    health: SocketAddr,
    http: reqwest::Client,
    _folder: TempDir,
}

/// What a program that ran to its end left.
#[derive(Debug)]
pub struct Finished {
    /// How it ended.
    pub status: ExitStatus,
    /// All of its standard output.
    pub stdout: String,
    /// All of its standard error.
    pub stderr: String,
}

impl Launch {
    /// Of the workspace's binary of this name.
    pub fn new(binary: &str) -> Self {
        Self {
            binary: binary.to_owned(),
            program: None,
            args: Vec::new(),
            env: Vec::new(),
            stdin: Input::Nothing,
        }
    }

    /// Launches the binary of this name in a folder, such as one of an earlier commit. Its age is
    /// not checked.
    pub fn in_folder(folder: &Path, binary: &str) -> Self {
        Self { program: Some(folder.join(binary)), ..Self::new(binary) }
    }

    /// Adds one argument.
    #[must_use]
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Sets a variable of the environment. Settings of ours that the test process itself was given
    /// (`TOOLBUS_…`, `OTEL_…`) are not passed on.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.env.push((name.to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Gives the program something to read; without this, standard input is empty.
    #[must_use]
    pub fn stdin(mut self, input: impl Into<Vec<u8>>) -> Self {
        self.stdin = Input::Text(input.into());
        self
    }

    /// Gives the program a file to read, such as a pipe whose other end is open.
    #[must_use]
    pub fn stdin_from(mut self, path: impl Into<PathBuf>) -> Self {
        self.stdin = Input::File(path.into());
        self
    }

    /// Starts the program as a service, or a command that a test looks into, with a health port,
    /// and does not wait for it.
    ///
    /// # Errors
    /// When the binary is missing or older than its sources, or cannot be started.
    pub fn start(self) -> anyhow::Result<Service> {
        let [port] = crate::ports::free()?;
        let health = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let folder = TempDir::with_prefix("toolbus-service-")?;
        let launch = self.env("TOOLBUS_HEALTH", health.to_string());
        let process = launch.spawn(folder.path())?;
        Ok(Service { process, health, http: crate::http_client()?, _folder: folder })
    }

    /// Runs the program to its end.
    ///
    /// # Errors
    /// When the binary is missing or older than its sources, cannot be started, or still runs at
    /// the limit; then it is killed.
    pub async fn run(self, limit: Duration) -> anyhow::Result<Finished> {
        let folder = TempDir::with_prefix("toolbus-run-")?;
        let mut process = self.spawn(folder.path())?;
        let status = process.wait(limit).await.with_context(|| process.logs())?;
        Ok(Finished { status, stdout: process.stdout(), stderr: process.stderr() })
    }

    /// Starts the program with its output in files of `folder`, and does not wait for it. The
    /// folder should be its own: it is removed when the test process dies without dropping
    /// anything.
    ///
    /// # Errors
    /// As [`Launch::start`].
    pub fn spawn(self, folder: &Path) -> anyhow::Result<Process> {
        let mut command = match &self.program {
            Some(program) => Command::new(program),
            None => Command::new(binary(&self.binary)?),
        };
        for (name, _) in env::vars_os() {
            let text = name.to_string_lossy();
            if FOREIGN_SETTINGS.iter().any(|prefix| text.starts_with(prefix)) {
                command.env_remove(&name);
            }
        }

        // What it remembers from one run to the next ends with the test.
        command.env("XDG_STATE_HOME", folder);
        command.args(&self.args).envs(self.env).stdin(Stdio::null());

        match self.stdin {
            Input::Nothing => {}
            Input::Text(input) => {
                let path = folder.join("stdin");
                fs::write(&path, input)?;
                command.stdin(File::open(path)?);
            }
            Input::File(path) => {
                command.stdin(File::open(path)?);
            }
        }

        Process::spawn_with(&self.binary, &mut command, folder, Some(folder))
    }
}

impl Service {
    /// Waits until `/readyz` answers 200 and returns how long that took from this call on.
    ///
    /// # Errors
    /// When the process ends first or the limit passes; the error has what it wrote.
    pub async fn ready(&mut self, limit: Duration) -> anyhow::Result<Duration> {
        let start = Instant::now();
        loop {
            if let Some(status) = self.process.exit_status() {
                bail!("ended before it was ready: {status}\n{}", self.process.logs());
            }
            if matches!(self.look("/readyz").await, Ok((200, _))) {
                return Ok(start.elapsed());
            }
            ensure!(start.elapsed() < limit, "not ready in {limit:?}\n{}", self.process.logs());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// The status and the body of a GET on the health port, for example of `/readyz`.
    ///
    /// # Errors
    /// When nobody answers.
    pub async fn look(&self, path: &str) -> anyhow::Result<(u16, String)> {
        let look = || async {
            let answer = self.http.get(format!("http://{}{path}", self.health)).send().await?;
            anyhow::Ok((answer.status().as_u16(), answer.text().await?))
        };
        // A connection that was kept may be closed by the service as it is used again.
        match look().await {
            Ok(seen) => Ok(seen),
            Err(_) => look().await,
        }
    }

    /// Where the health port is.
    pub fn health(&self) -> SocketAddr {
        self.health
    }

    /// The process, to be killed, stopped, paused and read.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }
}

/// The workspace's binary of this name, from the target folder that the test, or the program that
/// calls this, is in. Nothing builds it here: the build locks of cargo are held by whoever runs the
/// tests.
///
/// # Errors
/// When it is missing or older than its sources.
///
/// # Panics
/// If the package of the test does not declare it.
pub fn binary(name: &str) -> anyhow::Result<PathBuf> {
    let advice = "cargo build --workspace --bins, or cargo xtask test";
    let program = env::current_exe()?;
    let deps = program.ancestors().find(|folder| folder.ends_with("deps"));
    let path = deps
        .unwrap_or(&program)
        .parent()
        .context("this program is not in a target folder")?
        .join(name);
    let built = modified(&path).with_context(|| format!("{name} has not been built: {advice}"))?;
    if let Some(source) = newer_source(&path, built)? {
        bail!("{name} is older than {source}: {advice}");
    }
    // Cargo builds the examples of a package with its tests.
    if !name.starts_with("examples/") {
        crate::declared::check("programs", name);
    }
    Ok(path)
}

/// A source that changed after the binary was built, by the list of sources that cargo keeps beside
/// it. A test against yesterday's binary tells nothing.
fn newer_source(path: &Path, built: SystemTime) -> anyhow::Result<Option<String>> {
    let list = path.with_extension("d");
    let text =
        fs::read_to_string(&list).with_context(|| format!("there is no {}", list.display()))?;
    let sources = text.split_once(": ").map(|(_, sources)| sources).unwrap_or_default();
    // A space within a name is written with a backslash before it.
    let sources = sources.replace("\\ ", "\0");
    Ok(sources
        .split_whitespace()
        .map(|source| source.replace('\0', " "))
        .find(|source| modified(Path::new(source)).is_ok_and(|changed| changed > built)))
}

fn modified(path: &Path) -> anyhow::Result<SystemTime> {
    Ok(fs::metadata(path)?.modified()?)
}
