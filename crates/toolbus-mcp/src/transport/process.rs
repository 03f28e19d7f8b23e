//! The whole life of a child process: started in a process group of its own, watched, asked to end,
//! killed with its group when it does not, and always reaped.
//!
//! The child is a supervisor with the server below it, or, where there is no supervisor, the server
//! itself. A supervisor is asked to end and given the time to end everything below it; it is killed
//! only when it does not do that, and what is left of its group is killed when it was killed
//! itself.
//!
//! Invariant: a [`ServerProcess`] that is dropped is ended. The work is done by a task of the
//! tracker that the process was started with, so that waiting for the tracker waits for every
//! child; and where that task itself is dropped, with its runtime, the group is killed on the spot,
//! or its supervisor asked to do that.

use std::ffi::{OsStr, OsString};
use std::io;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid,
};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::config::Launch;
use crate::eraser::Eraser;
use crate::supervisor::{self, Supervisor};
use crate::transport::sandbox;

mod stderr_log;

/// How long a child has to end by itself once its stdin is closed.
const END_OF_INPUT_GRACE: Duration = Duration::from_millis(500);
/// How long it has after SIGTERM, before SIGKILL.
const TERMINATE_GRACE: Duration = Duration::from_secs(2);
/// How much longer a supervisor has: it gives every process below it the same time, and kills them
/// then.
const SUPERVISOR_GRACE: Duration = Duration::from_secs(3);
/// How long the kernel may take to reap a killed process.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);
/// How often a child is polled where the system does not signal ended ones.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// How long its pipes are still read after the end of a child: a process that left the group may
/// hold them open for ever.
const PIPES_GRACE: Duration = Duration::from_millis(100);

/// A running child. Dropping it ends the child.
pub(crate) struct ServerProcess {
    id: u32,
    monitor: Arc<ChildMonitor>,
    _stop: DropGuard,
}

/// The state of a child, for its observers.
#[derive(Default)]
pub(crate) struct ChildMonitor {
    stop: CancellationToken,
    /// Fires when the child was reaped and its pipes have had their time.
    reaped: CancellationToken,
    status: Mutex<Option<ExitStatus>>,
    last_words: Mutex<String>,
}

/// The two pipes that carry the protocol.
pub(crate) struct ChildPipes {
    pub(crate) stdin: ChildStdin,
    pub(crate) stdout: ChildStdout,
}

/// The handles for the start of a child.
pub(crate) struct SpawnDeps<'a> {
    pub(crate) server: &'a str,
    pub(crate) environment: &'a [(OsString, OsString)],
    pub(crate) eraser: Eraser,
    pub(crate) tracker: &'a TaskTracker,
    pub(crate) supervisor: Option<&'a Supervisor>,
    /// True if the command is bubblewrap, which starts the server.
    pub(crate) is_behind_bubblewrap: bool,
}

impl ServerProcess {
    /// Starts the command, with its own environment on top of the one that all children have.
    pub(crate) fn start(launch: &Launch, deps: SpawnDeps<'_>) -> io::Result<(Self, ChildPipes)> {
        let mut child = build_command(launch, &deps)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()?;

        let id = child.id().ok_or_else(|| io::Error::other("the child ended at once"))?;
        let group = ProcessGroup { id, is_supervised: deps.supervisor.is_some(), ended: false };
        let pipe = || io::Error::other("a pipe of the child is missing");
        let pipes = ChildPipes {
            stdin: child.stdin.take().ok_or_else(pipe)?,
            stdout: child.stdout.take().ok_or_else(pipe)?,
        };

        let stderr = child.stderr.take().ok_or_else(pipe)?;

        let monitor = Arc::new(ChildMonitor::default());
        let logger = stderr_log::StderrLogger::new(deps.server, deps.eraser, Arc::clone(&monitor));
        deps.tracker.spawn(logger.run(stderr));
        let read_status: fn(ExitStatus) -> ExitStatus = match deps.is_behind_bubblewrap {
            true => sandbox::status_of_server,
            false => std::convert::identity,
        };
        deps.tracker.spawn(watch_child(child, group, Arc::clone(&monitor), read_status));

        let stop = monitor.stop.clone().drop_guard();
        Ok((Self { id, monitor, _stop: stop }, pipes))
    }

    /// Its process id, which is its group's too.
    pub(crate) fn id(&self) -> u32 {
        self.id
    }

    /// The monitor of the child.
    pub(crate) fn monitor(&self) -> Arc<ChildMonitor> {
        Arc::clone(&self.monitor)
    }
}

impl ChildMonitor {
    /// Tells the child to end.
    pub(crate) fn stop(&self) {
        self.stop.cancel();
    }

    /// Waits until the child was reaped.
    pub(crate) async fn wait_reaped(&self) {
        self.reaped.cancelled().await;
    }

    /// Its exit status in words, once it has ended and where that says something about it.
    pub(crate) fn exit_text(&self) -> Option<String> {
        self.status.lock().map(|status| status.to_string())
    }

    /// Why the server was not started, where its supervisor has reported that.
    pub(crate) fn why_not_started(&self) -> Option<io::Error> {
        let status = (*self.status.lock())?;
        supervisor::why_not_started(status, &self.last_words.lock())
    }

    /// The last line that it wrote to stderr, secrets erased, at most a few hundred bytes.
    pub(crate) fn last_words(&self) -> Option<String> {
        Some(self.last_words.lock().clone()).filter(|words| !words.is_empty())
    }
}

/// The command that starts the server, or its supervisor.
fn build_command(launch: &Launch, deps: &SpawnDeps<'_>) -> Command {
    let basic = deps.environment.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()));
    let own = launch.environment.iter();
    let own = own.map(|(name, value)| (OsStr::new(name), OsStr::new(value.expose())));
    let environment = basic.chain(own);

    let mut command = match deps.supervisor {
        Some(supervisor) => Command::from(supervisor.command(launch, environment)),
        None => {
            let mut command = Command::new(&launch.command);
            command.args(&launch.arguments).env_clear().envs(environment);
            command
        }
    };
    // A supervisor starts its server where it was started itself.
    if let Some(folder) = &launch.folder {
        command.current_dir(folder);
    }
    command
}

/// Waits for a child to end, or kills it, and reaps it. `read_status` converts the child's exit
/// status into the server's.
async fn watch_child(
    mut child: Child,
    mut group: ProcessGroup,
    monitor: Arc<ChildMonitor>,
    read_status: fn(ExitStatus) -> ExitStatus,
) {
    let end = tokio::select! {
        biased;
        () = group.wait_leader_ended() => ChildEnd::Unasked,
        () = monitor.stop.cancelled() => end_child(&group).await,
    };

    // Whatever is left in its group goes with it: of a supervisor that was killed, the server.
    group.kill();
    match timeout(KILL_TIMEOUT, child.wait()).await {
        Ok(Ok(status)) => {
            *monitor.status.lock() = end.informative_status(status).map(read_status);
        }
        Ok(Err(error)) => tracing::warn!(pid = group.id, %error, "reaping child failed"),
        Err(_) => tracing::warn!(pid = group.id, "killed child has not ended"),
    }

    tokio::time::sleep(PIPES_GRACE).await;
    monitor.reaped.cancel();
}

/// Ends a child that still runs: its stdin is closed already, then it is asked, then it is killed.
async fn end_child(group: &ProcessGroup) -> ChildEnd {
    if timeout(END_OF_INPUT_GRACE, group.wait_leader_ended()).await.is_ok() {
        return ChildEnd::AtEndOfInput;
    }

    group.terminate();
    let wait =
        if group.is_supervised { TERMINATE_GRACE + SUPERVISOR_GRACE } else { TERMINATE_GRACE };
    // Killing comes next, whether it has ended or not.
    if timeout(wait, group.wait_leader_ended()).await.is_err() && group.is_supervised {
        tracing::warn!(pid = group.id, "killing supervisor of MCP server that does not end");
    }
    ChildEnd::Signalled
}

/// What made a child end: its status says something about it only without a signal from here.
enum ChildEnd {
    Unasked,
    AtEndOfInput,
    Signalled,
}

impl ChildEnd {
    /// The status, where it says something about the child.
    fn informative_status(self, status: ExitStatus) -> Option<ExitStatus> {
        match self {
            Self::Unasked => Some(status),
            Self::AtEndOfInput => Some(status).filter(|status| !status.success()),
            Self::Signalled => None,
        }
    }
}

/// A process group that is ended at the latest when this is dropped.
///
/// Its leader is not reaped before the group was killed: until then its id is no other process's.
struct ProcessGroup {
    id: u32,
    /// Its leader is a supervisor.
    is_supervised: bool,
    ended: bool,
}

impl ProcessGroup {
    fn pid(&self) -> Option<Pid> {
        i32::try_from(self.id).ok().and_then(Pid::from_raw)
    }

    /// Waits until the leader has ended, without reaping it.
    async fn wait_leader_ended(&self) {
        let Some(pid) = self.pid() else { return };
        let mut children = signal(SignalKind::child()).ok();

        let ended = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        while let Ok(None) = waitid(WaitId::Pid(pid), ended) {
            match &mut children {
                Some(children) => drop(children.recv().await),
                None => tokio::time::sleep(POLL_INTERVAL).await,
            }
        }
    }

    /// Sends SIGTERM to the group, or to the supervisor, which passes it on.
    fn terminate(&self) {
        let Some(pid) = self.pid() else { return };
        // Fails when no process is left, which is what is wanted.
        let _ = if self.is_supervised {
            kill_process(pid, Signal::TERM)
        } else {
            kill_process_group(pid, Signal::TERM)
        };
    }

    fn kill(&mut self) {
        // Fails when no process is left in the group, which is what is wanted.
        let _ = self.pid().map(|pid| kill_process_group(pid, Signal::KILL));
        self.ended = true;
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        match (self.ended, self.is_supervised) {
            (true, _) => {}
            // Killed with its group, it would leave those that are not of the group.
            (false, true) => self.terminate(),
            (false, false) => self.kill(),
        }
    }
}
