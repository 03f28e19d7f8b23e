//! A child process, its whole life: started in a process group of its own, watched, told to end,
//! killed with its group when it does not, and always reaped.
//!
//! The child is a supervisor with the server below it, or, where there is no supervisor, the server
//! itself. A supervisor is asked to end and given the time to end everything below it; it is killed
//! only when it does not do that, and what is left of its group is killed when it was killed itself.
//!
//! Invariant: whoever drops a [`Process`] ends it. The work is done by a task of the tracker that
//! the process was started with, so that waiting for the tracker waits for every child; and where
//! that task itself is dropped, with its runtime, the group is killed on the spot, or its supervisor
//! told to do that.

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

mod stderr;

/// How long a child has to end by itself once its stdin is closed.
const END_OF_INPUT_WAIT: Duration = Duration::from_millis(500);
/// How long it has after SIGTERM, before SIGKILL.
const TERMINATE_WAIT: Duration = Duration::from_secs(2);
/// How much longer a supervisor has, which gives everyone below it the same time and kills them
/// then.
const SUPERVISOR_WAIT: Duration = Duration::from_secs(3);
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
    pub(crate) supervisor: Option<&'a Supervisor>,
}

impl Process {
    /// Starts the command with the care's environment and its own on top.
    pub(crate) fn start(launch: &Launch, care: Care<'_>) -> io::Result<(Self, Pipes)> {
        let mut child = command(launch, &care)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()?;
        let id = child.id().ok_or_else(|| io::Error::other("the child ended at once"))?;
        let group = Group { id, is_supervised: care.supervisor.is_some(), ended: false };
        let pipe = || io::Error::other("a pipe of the child is missing");
        let pipes = Pipes {
            stdin: child.stdin.take().ok_or_else(pipe)?,
            stdout: child.stdout.take().ok_or_else(pipe)?,
        };
        let stderr = child.stderr.take().ok_or_else(pipe)?;
        let watch = Arc::new(Watch::default());
        let listener = stderr::Listener::new(care.server, care.eraser, Arc::clone(&watch));
        care.tracker.spawn(listener.listen(stderr));
        care.tracker.spawn(supervise(child, group, Arc::clone(&watch)));
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

    /// Why the server was not started, where that was its supervisor's to find out.
    pub(crate) fn why_not_started(&self) -> Option<io::Error> {
        let status = (*self.status.lock())?;
        supervisor::why_not_started(status, &self.last_words.lock())
    }

    /// The last line that it wrote to stderr, secrets erased, at most a few hundred bytes.
    pub(crate) fn last_words(&self) -> Option<String> {
        Some(self.last_words.lock().clone()).filter(|words| !words.is_empty())
    }
}

fn command(launch: &Launch, care: &Care<'_>) -> Command {
    let basic = care.environment.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()));
    let own = launch.environment.iter();
    let own = own.map(|(name, value)| (OsStr::new(name), OsStr::new(value.expose())));
    let environment = basic.chain(own);
    match care.supervisor {
        Some(supervisor) => Command::from(supervisor.command(launch, environment)),
        None => {
            let mut command = Command::new(&launch.command);
            command.args(&launch.arguments).env_clear().envs(environment);
            command
        }
    }
}

async fn supervise(mut child: Child, mut group: Group, watch: Arc<Watch>) {
    let by_itself = tokio::select! {
        biased;
        () = group.leader_ended() => ByItself::Yes,
        () = watch.stop.cancelled() => end(&group).await,
    };
    // Whatever is left in its group goes with it: of a supervisor that was killed, the server.
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
    group.terminate();
    let wait = if group.is_supervised { TERMINATE_WAIT + SUPERVISOR_WAIT } else { TERMINATE_WAIT };
    // Killing comes next, whether it has ended or not.
    if timeout(wait, group.leader_ended()).await.is_err() && group.is_supervised {
        tracing::warn!(pid = group.id, "a supervisor of an MCP server does not end and is killed");
    }
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

/// A process group that is ended at the latest when this is dropped.
///
/// Its leader is not reaped before the group was killed: until then its id is nobody else's.
struct Group {
    id: u32,
    /// Its leader is a supervisor.
    is_supervised: bool,
    ended: bool,
}

impl Group {
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

    /// Asks everyone to end, or the supervisor to ask everyone.
    fn terminate(&self) {
        let Some(pid) = self.pid() else { return };
        // Fails when nobody is left, which is what is wanted.
        let _ = if self.is_supervised {
            kill_process(pid, Signal::TERM)
        } else {
            kill_process_group(pid, Signal::TERM)
        };
    }

    fn kill(&mut self) {
        // Fails when nobody is left in the group, which is what is wanted.
        let _ = self.pid().map(|pid| kill_process_group(pid, Signal::KILL));
        self.ended = true;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        match (self.ended, self.is_supervised) {
            (true, _) => {}
            // Killed with its group, it would leave those that are not of the group.
            (false, true) => self.terminate(),
            (false, false) => self.kill(),
        }
    }
}
