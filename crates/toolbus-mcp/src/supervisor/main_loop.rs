//! The main loop of a supervisor, in one thread: it starts the server, waits for a reason to end,
//! and makes sure that no process is left.
//!
//! | what happens | what it does |
//! |---|---|
//! | the server ends | kills what is left below it |
//! | the server's standard input is closed, or the process it belongs to is gone | gives the server a moment to end by itself, then sends SIGTERM to every process |
//! | SIGTERM, SIGINT, SIGHUP | sends SIGTERM to every process, gives them a moment, then kills |
//!
//! It copies nothing: the server has the very pipes that the supervisor was given. Of those the
//! supervisor keeps standard input alone, never to read, but to see when its other end is closed.

use std::ffi::{CStr, OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Resource, Rlimit, WaitStatus, getpgrp, getpid, getppid, pidfd_open,
    set_child_subreaper, setpgid, setrlimit,
};
use rustix::stdio::{dup2_stderr, dup2_stdout};
use rustix::thread::set_name;
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level::{emulate_default_handler, pipe};

use super::process_tree::ProcessTree;
use super::{NOT_STARTED, NOT_STARTED_CODE, VARIABLE_PREFIX};

/// The name of supervisors where names have fifteen letters at most.
const NAME_IN_LISTS: &CStr = c"toolbus-mcp-sup";
/// How long a server has to end by itself once its input is closed. Longer than the
/// owner, which closes it, waits before it sends SIGTERM: this is for when it does not come to
/// that.
const END_OF_INPUT_GRACE: Duration = Duration::from_secs(1);
/// How long every process has after SIGTERM, before SIGKILL.
pub(crate) const TERMINATE_GRACE: Duration = Duration::from_secs(2);
/// How often it looks again while processes are to end: orphaned ones come without a signal.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// How often it looks again for processes that cannot be killed, or not yet.
const LONG_LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// How long killing goes on before it is done at the longer interval.
const EAGER_KILL_TIMEOUT: Duration = Duration::from_secs(5);

/// The descriptors that wake the supervisor.
struct WakeSources {
    /// Readable after SIGTERM and the like.
    end_signals: UnixStream,
    /// Readable after SIGCHLD.
    child_signals: UnixStream,
    /// Readable when the process it belongs to is gone, where the kernel has such descriptors.
    owner: Option<OwnedFd>,
}

#[derive(Default)]
struct StopRequests {
    end_signal: bool,
    input_ended: bool,
}

#[derive(Clone, Copy)]
enum EndPhase {
    Running,
    /// The server may end by itself until then.
    InputEnded(Instant),
    /// Every process was sent SIGTERM, and may end by itself until then.
    Terminating(Instant),
    /// Every process is being killed since then.
    Killing(Instant),
}

/// Runs a supervisor until no process is left, with the arguments after the mark.
pub(super) fn run(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    match start(arguments) {
        Ok((tree, sources)) => exit_as(supervise_tree(tree, sources)),
        Err(error) => {
            let number = error.raw_os_error().unwrap_or_default();
            // Fails when standard error is closed, and then there is no one to report to.
            let _ = writeln!(io::stderr(), "{NOT_STARTED}{number}");
            ExitCode::from(NOT_STARTED_CODE)
        }
    }
}

fn start(mut arguments: impl Iterator<Item = OsString>) -> io::Result<(ProcessTree, WakeSources)> {
    let owner = arguments.next().and_then(|owner| owner.to_str()?.parse().ok());
    let owner = owner.and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidInput)?;
    let command = arguments.next().ok_or(io::ErrorKind::InvalidInput)?;

    // The name in lists of processes; the rest works without.
    let _ = set_name(NAME_IN_LISTS);
    if getpgrp() != getpid() {
        setpgid(None, None)?;
    }
    set_child_subreaper(Some(getpid()))?;

    // Before there is a child whose signal could be missed.
    let sources = WakeSources {
        end_signals: signal_stream(&[SIGTERM, SIGINT, SIGHUP])?,
        child_signals: signal_stream(&[SIGCHLD])?,
        // On a kernel without, the end of the input has to do.
        owner: pidfd_open(owner, PidfdFlags::empty()).ok(),
    };
    if getppid() != Some(owner) {
        // It is gone already, and its id may be another process's.
        return Err(io::ErrorKind::NotConnected.into());
    }

    let server =
        Command::new(command).args(arguments).env_clear().envs(server_environment()).spawn()?;
    // As long as they are open here too, no reader sees the server close them. That is no reason
    // not to look after a server that has started.
    if let Ok(nothing) = File::options().write(true).open("/dev/null") {
        let _ = dup2_stdout(&nothing);
        let _ = dup2_stderr(&nothing);
    }
    Ok((ProcessTree::new(Pid::from_child(&server)), sources))
}

/// A stream that is readable after any of these signals.
fn signal_stream(signals: &[i32]) -> io::Result<UnixStream> {
    let (reader, writer) = UnixStream::pair()?;
    reader.set_nonblocking(true)?;

    for signal in signals {
        pipe::register(*signal, writer.try_clone()?)?;
    }
    Ok(reader)
}

/// The server's environment out of our own.
fn server_environment() -> impl Iterator<Item = (OsString, OsString)> {
    std::env::vars_os().filter_map(|(name, value)| {
        let name = name.as_bytes().strip_prefix(VARIABLE_PREFIX.as_bytes())?;
        Some((OsStr::from_bytes(name).to_owned(), value))
    })
}

fn supervise_tree(mut tree: ProcessTree, mut sources: WakeSources) -> Option<WaitStatus> {
    let mut phase = EndPhase::Running;
    let mut requests = StopRequests::default();
    loop {
        tree.reap_children();
        if tree.is_empty() {
            return tree.status();
        }

        phase = phase.next(&requests, tree.status().is_some());
        match phase {
            EndPhase::Running | EndPhase::InputEnded(_) => {}
            EndPhase::Terminating(_) => tree.terminate(),
            EndPhase::Killing(_) => tree.kill(),
        }
        sources.wait(phase.look_interval(), &mut requests);
    }
}

impl EndPhase {
    fn next(self, requests: &StopRequests, server_ended: bool) -> Self {
        let now = Instant::now();
        match self {
            Self::Running | Self::InputEnded(_) if server_ended => Self::Killing(now),
            Self::Running | Self::InputEnded(_) if requests.end_signal => {
                Self::Terminating(now + TERMINATE_GRACE)
            }
            Self::Running if requests.input_ended => Self::InputEnded(now + END_OF_INPUT_GRACE),
            Self::InputEnded(until) if until <= now => Self::Terminating(now + TERMINATE_GRACE),
            Self::Terminating(until) if until <= now => Self::Killing(now),
            unchanged => unchanged,
        }
    }

    /// How long the supervisor may sleep until it looks again; for ever when `None`.
    fn look_interval(self) -> Option<Duration> {
        match self {
            Self::Running => None,
            Self::InputEnded(until) => Some(until.saturating_duration_since(Instant::now())),
            Self::Terminating(_) => Some(LOOK_INTERVAL),
            Self::Killing(since) if since.elapsed() < EAGER_KILL_TIMEOUT => Some(LOOK_INTERVAL),
            Self::Killing(_) => Some(LONG_LOOK_INTERVAL),
        }
    }
}

impl WakeSources {
    /// Waits until a source is readable, or the timeout is over.
    fn wait(&mut self, timeout: Option<Duration>, requests: &mut StopRequests) {
        let stdin = io::stdin();
        let mut awaited = vec![
            PollFd::new(&self.end_signals, PollFlags::IN),
            PollFd::new(&self.child_signals, PollFlags::IN),
        ];
        // Once it is readable it stays readable for ever.
        if !requests.input_ended {
            // The end of the input is reported without being polled for, and its bytes are the
            // server's.
            awaited.push(PollFd::from_borrowed_fd(stdin.as_fd(), PollFlags::empty()));
            awaited.extend(self.owner.as_ref().map(|owner| PollFd::new(owner, PollFlags::IN)));
        }

        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        // Interrupted by a signal, it is called again.
        if poll(&mut awaited, timeout.as_ref()).is_err() {
            return;
        }

        let is_ready = |awaited: &PollFd<'_>| !awaited.revents().is_empty();
        requests.end_signal |= is_ready(&awaited[0]);
        requests.input_ended |= awaited[2..].iter().any(is_ready);

        drop(awaited);
        drain_stream(&mut self.end_signals);
        drain_stream(&mut self.child_signals);
    }
}

/// Reads everything that is in a stream.
fn drain_stream(stream: &mut UnixStream) {
    let mut bytes = [0; 64];
    while stream.read(&mut bytes).is_ok_and(|length| length == bytes.len()) {}
}

/// Ends this process as the server ended.
fn exit_as(status: Option<WaitStatus>) -> ExitCode {
    let Some(status) = status else { return ExitCode::FAILURE };
    if let Some(signal) = status.terminating_signal() {
        // The server has left its own core dump, if any.
        let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
        // Fails for signals that have no name only.
        let _ = emulate_default_handler(signal);
        return ExitCode::from(u8::try_from(128 + signal).unwrap_or(u8::MAX));
    }
    ExitCode::from(status.exit_status().and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}
