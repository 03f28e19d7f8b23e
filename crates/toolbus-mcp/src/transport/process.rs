//! A child process, its whole life: started in a process group of its own, watched, told to end,
//! killed with its group when it does not, and always reaped.
//!
//! Invariant: whoever drops a [`Process`] ends it. The work is done by a task of the tracker that
//! the process was started with, so that waiting for the tracker waits for every child; and where
//! that task itself is dropped, with its runtime, the group is killed on the spot.

use std::ffi::OsString;
use std::io;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::config::Launch;
use crate::eraser::Eraser;

mod stderr;

/// How long a child has to end by itself once its stdin is closed.
const END_OF_INPUT_WAIT: Duration = Duration::from_millis(500);
/// How long it has after SIGTERM, before SIGKILL.
const TERMINATE_WAIT: Duration = Duration::from_secs(2);
/// How long the kernel may take to reap a killed process.
const KILL_WAIT: Duration = Duration::from_secs(5);
/// How often a child is looked at where the system does not tell of ended ones.
const POLL_PAUSE: Duration = Duration::from_millis(100);
/// How long its pipes are still read after the end of a child: a process that left the group may
/// hold them open for ever.
const PIPES_WAIT: Duration = Duration::from_millis(100);

/// A running child. Dropping it ends the child.
pub(crate) struct Process {
    id: u32,
    watch: Arc<Watch>,
    _stop: DropGuard,
}

/// What others may see of a child.
#[derive(Default)]
pub(crate) struct Watch {
    stop: CancellationToken,
    /// Fires when the child was reaped and its pipes have had their time.
    gone: CancellationToken,
    status: Mutex<Option<ExitStatus>>,
    last_words: Mutex<String>,
}

/// The two pipes that carry the protocol.
pub(crate) struct Pipes {
    pub(crate) stdin: ChildStdin,
    pub(crate) stdout: ChildStdout,
}

/// Who the child is and who looks after it.
pub(crate) struct Care<'a> {
    pub(crate) server: &'a str,
    pub(crate) environment: &'a [(OsString, OsString)],
    pub(crate) eraser: Eraser,
    pub(crate) tracker: &'a TaskTracker,
}

impl Process {
    /// Starts the command with the care's environment and its own on top.
    pub(crate) fn start(launch: &Launch, care: Care<'_>) -> io::Result<(Self, Pipes)> {
        let own = launch.environment.iter().map(|(name, value)| (name, value.expose()));
        let mut child = Command::new(&launch.command)
            .args(&launch.arguments)
            .env_clear()
            .envs(care.environment.iter().map(|(name, value)| (name, value)))
            .envs(own)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let id = child.id().ok_or_else(|| io::Error::other("the child ended at once"))?;
        let pipe = || io::Error::other("a pipe of the child is missing");
        let pipes = Pipes {
            stdin: child.stdin.take().ok_or_else(pipe)?,
            stdout: child.stdout.take().ok_or_else(pipe)?,
        };
        let stderr = child.stderr.take().ok_or_else(pipe)?;
        let watch = Arc::new(Watch::default());
        let listener = stderr::Listener::new(care.server, care.eraser, Arc::clone(&watch));
        care.tracker.spawn(listener.listen(stderr));
        care.tracker.spawn(supervise(child, Group::new(id), Arc::clone(&watch)));
        let stop = watch.stop.clone().drop_guard();
        Ok((Self { id, watch, _stop: stop }, pipes))
    }

    /// Its process id, which is its group's too.
    pub(crate) fn id(&self) -> u32 {
        self.id
    }

    /// What is to be seen of it.
    pub(crate) fn watch(&self) -> Arc<Watch> {
        Arc::clone(&self.watch)
    }
}

impl Watch {
    /// Tells the child to end.
    pub(crate) fn stop(&self) {
        self.stop.cancel();
    }

    /// Waits until the child was reaped.
    pub(crate) async fn gone(&self) {
        self.gone.cancelled().await;
    }

    /// How it ended, in words, once it did and where that says something about it.
    pub(crate) fn ending(&self) -> Option<String> {
        self.status.lock().map(|status| status.to_string())
    }

    /// The last line that it wrote to stderr, secrets erased, at most a few hundred bytes.
    pub(crate) fn last_words(&self) -> Option<String> {
        Some(self.last_words.lock().clone()).filter(|words| !words.is_empty())
    }
}

async fn supervise(mut child: Child, mut group: Group, watch: Arc<Watch>) {
    let by_itself = tokio::select! {
        biased;
        () = group.leader_ended() => ByItself::Yes,
        () = watch.stop.cancelled() => end(&group).await,
    };
    // Whatever the child started in its group goes with it.
    group.kill();
    match timeout(KILL_WAIT, child.wait()).await {
        Ok(Ok(status)) => *watch.status.lock() = by_itself.then_tell(status),
        Ok(Err(error)) => tracing::warn!(pid = group.id, %error, "a child was not reaped"),
        Err(_) => tracing::warn!(pid = group.id, "a child does not die"),
    }
    tokio::time::sleep(PIPES_WAIT).await;
    watch.gone.cancel();
}

/// Ends a child that still runs: its stdin is closed already, then it is asked, then it is killed.
async fn end(group: &Group) -> ByItself {
    if timeout(END_OF_INPUT_WAIT, group.leader_ended()).await.is_ok() {
        return ByItself::AtTheEndOfInput;
    }
    group.signal(Signal::TERM);
    // Killing comes next, whether it has ended or not.
    let _ = timeout(TERMINATE_WAIT, group.leader_ended()).await;
    ByItself::No
}

/// Whether a child ended without a signal of ours: its status says something about it only then.
enum ByItself {
    Yes,
    AtTheEndOfInput,
    No,
}

impl ByItself {
    fn then_tell(self, status: ExitStatus) -> Option<ExitStatus> {
        match self {
            Self::Yes => Some(status),
            Self::AtTheEndOfInput => Some(status).filter(|status| !status.success()),
            Self::No => None,
        }
    }
}

/// A process group that is killed at the latest when this is dropped.
///
/// Its leader is not reaped before the group was killed: until then its id is nobody else's.
struct Group {
    id: u32,
    killed: bool,
}

impl Group {
    fn new(id: u32) -> Self {
        Self { id, killed: false }
    }

    fn pid(&self) -> Option<Pid> {
        i32::try_from(self.id).ok().and_then(Pid::from_raw)
    }

    /// Waits until the leader has ended, without reaping it.
    async fn leader_ended(&self) {
        let Some(pid) = self.pid() else { return };
        let mut children = signal(SignalKind::child()).ok();
        let ended = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        while let Ok(None) = waitid(WaitId::Pid(pid), ended) {
            match &mut children {
                Some(children) => drop(children.recv().await),
                None => tokio::time::sleep(POLL_PAUSE).await,
            }
        }
    }

    fn signal(&self, signal: Signal) {
        // Fails when nobody is left in the group, which is what is wanted.
        let _ = self.pid().map(|pid| kill_process_group(pid, signal));
    }

    fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.killed = true;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.killed {
            self.kill();
        }
    }
}
