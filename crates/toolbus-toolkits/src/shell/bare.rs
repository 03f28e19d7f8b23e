//! Commands without a sandbox, for operators who say so.
//!
//! Invariants: a command does not see this process's environment, where keys are; what it prints is
//! read to the end, and a bounded part of it is kept; when its outcome is told, what it started and
//! left behind is killed. That is found by a mark in its environment, which a program that means
//! harm can take off: there is no fence here.

use std::env;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{Child, Command};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolbus_scripts::runner::{Captured, Ending, Error, OUTPUT_BYTES_MAX};
use toolbus_wire::envelope::new_id;

use super::output::CommandOutcome;

/// The variable with the mark of a command, which its processes inherit.
const MARK: &str = "TOOLBUS_COMMAND";
/// The variables that commands get as they are here.
const VARIABLES: [&str; 8] =
    ["HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "TERM", "TMPDIR", "USER"];
/// How long what a command printed may be waited for when it is over.
const PIPES_TIMEOUT: Duration = Duration::from_secs(5);
/// How long its processes may be looked for.
const KILL_TIMEOUT: Duration = Duration::from_secs(2);
/// How long killed processes have to end before they are looked for once more.
const KILL_INTERVAL: Duration = Duration::from_millis(2);
/// What is read at a time.
const READ_BYTES: usize = 64 << 10;
/// What is read of a process's environment.
const ENVIRONMENT_BYTES_MAX: u64 = 4 << 20;

/// Runs commands with the rights of this process.
pub(super) struct BareShell {
    permits: Arc<Semaphore>,
    tasks: TaskTracker,
}

/// What is told of a command.
pub(super) struct BareCommand<'a> {
    pub(super) shell: &'a Path,
    pub(super) command: &'a str,
    pub(super) directory: &'a Path,
    pub(super) timeout: Duration,
}

/// A command that runs, and what is known of its processes.
struct RunningCommand {
    child: Child,
    mark: String,
    timeout: Duration,
}

/// What a stream had so far.
#[derive(Default)]
struct Kept {
    bytes: Vec<u8>,
    is_truncated: bool,
    has_ended: bool,
}

impl BareShell {
    pub(super) fn new(max_concurrent: usize) -> Self {
        Self { permits: Arc::new(Semaphore::new(max_concurrent)), tasks: TaskTracker::new() }
    }

    /// Runs a command to its end. When this future is dropped the command is killed all the same.
    pub(super) async fn run(
        &self,
        what: BareCommand<'_>,
        cancelled: &CancellationToken,
    ) -> Result<CommandOutcome, Error> {
        let permit = tokio::select! {
            permit = Arc::clone(&self.permits).acquire_owned() => permit,
            () = cancelled.cancelled() => return Err(Error::Cancelled),
        };
        let permit = permit.map_err(|error| Error::Failed(error.to_string()))?;
        let running = RunningCommand::start(&what);
        let running = running.map_err(|error| Error::Failed(error.to_string()))?;

        // Fires as well when the caller drops this future: the task below sees to the end.
        let cancelled = cancelled.child_token();
        let guard = cancelled.clone().drop_guard();
        let (reply, outcome) = oneshot::channel();
        self.tasks.spawn(async move {
            let outcome = running.run(&cancelled).await;
            drop(permit);
            // Whether anybody waits for it or not.
            let _ = reply.send(outcome);
        });

        let lost = |_| Error::OutcomeUnknown("the task of the command panicked".to_owned());
        let outcome = outcome.await.map_err(lost)?;
        drop(guard);
        outcome.map_err(|error| Error::OutcomeUnknown(error.to_string()))
    }
}

impl RunningCommand {
    fn start(what: &BareCommand<'_>) -> io::Result<Self> {
        let mark = new_id();
        let variables = VARIABLES.iter().filter_map(|name| Some((name, env::var_os(name)?)));
        let mut command = Command::new(what.shell);
        command
            .args(["-c", what.command])
            .env_clear()
            .envs(variables)
            .env(MARK, &mark)
            .current_dir(what.directory)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        Ok(Self { child: command.spawn()?, mark, timeout: what.timeout })
    }

    async fn run(mut self, cancelled: &CancellationToken) -> io::Result<CommandOutcome> {
        let start = Instant::now();
        let (stdout, stderr) = (self.child.stdout.take(), self.child.stderr.take());
        let (mut out, mut err) = (Kept::default(), Kept::default());

        let ending = {
            let reading = async { tokio::join!(out.read(stdout), err.read(stderr)) };
            tokio::pin!(reading);
            let mut is_read = false;
            let ending = loop {
                // Every arm only waits; what was read stays with what is kept.
                tokio::select! {
                    status = self.child.wait() => break ending_of(status?),
                    _ = &mut reading, if !is_read => is_read = true,
                    () = sleep_until(start + self.timeout) => break Ending::TimedOut,
                    () = cancelled.cancelled() => break Ending::Cancelled,
                }
            };

            self.kill_all().await?;
            if !is_read {
                let _ = timeout(PIPES_TIMEOUT, reading).await;
            }
            ending
        };

        let unread = [("stdout", &out), ("stderr", &err)];
        let unread = unread.iter().filter(|(_, kept)| !kept.has_ended).map(|(name, _)| *name);
        let unread = unread.collect();
        Ok(CommandOutcome { unread, stdout: out.into(), stderr: err.into(), ending })
    }

    /// Kills the shell, its group, and what else has its mark, until nothing is found.
    async fn kill_all(&mut self) -> io::Result<()> {
        // While it has not been waited for, its number is its group's and nobody else's.
        if let Some(group) = self.child.id().and_then(|id| Pid::from_raw(id.cast_signed())) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        self.child.wait().await?;

        let end = Instant::now() + KILL_TIMEOUT;
        loop {
            let mark = format!("{MARK}={}", self.mark);
            let any =
                spawn_blocking(move || kill_marked(&mark)).await.map_err(io::Error::other)??;
            if !any || Instant::now() >= end {
                return Ok(());
            }
            sleep(KILL_INTERVAL).await;
        }
    }
}

/// Kills the processes that have this in their environment; whether there were any. Those that
/// cannot be looked at are passed over.
fn kill_marked(mark: &str) -> io::Result<bool> {
    let mut any = false;
    for entry in fs::read_dir("/proc")?.flatten() {
        let number = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok());
        let Some(pid) = number.and_then(Pid::from_raw) else { continue };
        if !has_mark(pid, mark) {
            continue;
        }

        // By a descriptor, and looked at again, so that nobody is killed who got the number since.
        let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { continue };
        if has_mark(pid, mark) {
            any |= pidfd_send_signal(&process, Signal::KILL).is_ok();
        }
    }
    Ok(any)
}

fn has_mark(pid: Pid, mark: &str) -> bool {
    let path = format!("/proc/{}/environ", pid.as_raw_nonzero());
    let mut environment = Vec::new();
    let read = File::open(path)
        .and_then(|file| file.take(ENVIRONMENT_BYTES_MAX).read_to_end(&mut environment));
    read.is_ok() && environment.split(|byte| *byte == 0).any(|entry| entry == mark.as_bytes())
}

impl Kept {
    /// Reads to the end, and keeps the first bytes. Cancel-safe.
    async fn read(&mut self, stream: Option<impl AsyncRead + Unpin>) {
        let Some(mut stream) = stream else { return };
        let mut buffer = vec![0; READ_BYTES];
        loop {
            match stream.read(&mut buffer).await {
                Ok(0) | Err(_) => break,
                Ok(length) => {
                    let room = OUTPUT_BYTES_MAX - self.bytes.len();
                    self.bytes.extend_from_slice(&buffer[..length.min(room)]);
                    self.is_truncated |= length > room;
                }
            }
        }
        self.has_ended = true;
    }
}

impl From<Kept> for Captured {
    fn from(kept: Kept) -> Self {
        let text = String::from_utf8_lossy(&kept.bytes).into_owned();
        Self { text, truncated: kept.is_truncated }
    }
}

fn ending_of(status: ExitStatus) -> Ending {
    match (status.code(), status.signal()) {
        (Some(code), _) => Ending::Exited(code),
        (None, signal) => Ending::Killed { signal: signal.unwrap_or_default() },
    }
}
