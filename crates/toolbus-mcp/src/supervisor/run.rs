//! The life of a supervisor, in one thread: it starts the server, waits for one of the ends there
//! are, and sees to it that nobody is left.
//!
//! | what happens | what it does |
//! |---|---|
//! | the server ends | kills what is left below it |
//! | the server's standard input is closed, or the process it belongs to is gone | gives the server a moment to end by itself, then tells everyone to end |
//! | SIGTERM, SIGINT, SIGHUP | tells everyone to end, gives them a moment, then kills |
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

use super::family::Family;
use super::{NOT_STARTED, NOT_STARTED_CODE, VARIABLE_PREFIX};

/// What it is called where names have fifteen letters at most.
const NAME_IN_LISTS: &CStr = c"toolbus-mcp-sup";
/// How long a server has to end by itself once its input is closed. Longer than who closes it
/// waits before it sends SIGTERM: this is for when it does not come to that.
const END_OF_INPUT_WAIT: Duration = Duration::from_secs(1);
/// How long everyone has after SIGTERM, before SIGKILL.
pub(crate) const TERMINATE_WAIT: Duration = Duration::from_secs(2);
/// How often it looks again while somebody is to end: who loses its parent comes without a word.
const LOOK_PAUSE: Duration = Duration::from_millis(20);
/// How often it looks again for those that cannot be killed, or not yet.
const LONG_PAUSE: Duration = Duration::from_secs(1);
/// How long killing goes on before it is done at the longer pauses.
const KILL_EAGERLY: Duration = Duration::from_secs(5);

/// What it is told by.
struct Ears {
    /// Readable after SIGTERM and the like.
    asked: UnixStream,
    /// Readable after SIGCHLD.
    children: UnixStream,
    /// Readable when the process it belongs to is gone, where the kernel has such descriptors.
    owner: Option<OwnedFd>,
}

#[derive(Default)]
struct Heard {
    asked: bool,
    input_ended: bool,
}

#[derive(Clone, Copy)]
enum Phase {
    Running,
    /// The server may end by itself until then.
    InputEnded(Instant),
    /// Everyone was told to end, and may until then.
    Terminating(Instant),
    /// Everyone is being killed since then.
    Killing(Instant),
}

/// Is a supervisor until nobody is left, with the arguments after the mark.
pub(super) fn run(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    match start(arguments) {
        Ok((family, ears)) => end_as(supervise(family, ears)),
        Err(error) => {
            let number = error.raw_os_error().unwrap_or_default();
            // Whoever closed our standard error does not want to know.
            let _ = writeln!(io::stderr(), "{NOT_STARTED}{number}");
            ExitCode::from(NOT_STARTED_CODE)
        }
    }
}

fn start(mut arguments: impl Iterator<Item = OsString>) -> io::Result<(Family, Ears)> {
    let owner = arguments.next().and_then(|owner| owner.to_str()?.parse().ok());
    let owner = owner.and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidInput)?;
    let command = arguments.next().ok_or(io::ErrorKind::InvalidInput)?;
    // What lists of processes call it; the rest works without.
    let _ = set_name(NAME_IN_LISTS);
    if getpgrp() != getpid() {
        setpgid(None, None)?;
    }
    set_child_subreaper(Some(getpid()))?;
    // Before there is a child to be told of.
    let ears = Ears {
        asked: signals(&[SIGTERM, SIGINT, SIGHUP])?,
        children: signals(&[SIGCHLD])?,
        // On a kernel without, the end of the input has to do.
        owner: pidfd_open(owner, PidfdFlags::empty()).ok(),
    };
    if getppid() != Some(owner) {
        // It is gone already, and its number may be somebody else's.
        return Err(io::ErrorKind::NotConnected.into());
    }
    let server = Command::new(command).args(arguments).env_clear().envs(environment()).spawn()?;
    // As long as they are held here too, nobody sees the server close them. That is no reason not
    // to look after a server that has started.
    if let Ok(nothing) = File::options().write(true).open("/dev/null") {
        let _ = dup2_stdout(&nothing);
        let _ = dup2_stderr(&nothing);
    }
    Ok((Family::new(Pid::from_child(&server)), ears))
}

/// A stream that is readable after any of these signals.
fn signals(signals: &[i32]) -> io::Result<UnixStream> {
    let (heard, told) = UnixStream::pair()?;
    heard.set_nonblocking(true)?;
    for signal in signals {
        pipe::register(*signal, told.try_clone()?)?;
    }
    Ok(heard)
}

/// The server's environment out of our own.
fn environment() -> impl Iterator<Item = (OsString, OsString)> {
    std::env::vars_os().filter_map(|(name, value)| {
        let name = name.as_bytes().strip_prefix(VARIABLE_PREFIX.as_bytes())?;
        Some((OsStr::from_bytes(name).to_owned(), value))
    })
}

fn supervise(mut family: Family, mut ears: Ears) -> Option<WaitStatus> {
    let mut phase = Phase::Running;
    let mut heard = Heard::default();
    loop {
        family.reap();
        if family.is_empty() {
            return family.status();
        }
        phase = phase.next(&heard, family.status().is_some());
        match phase {
            Phase::Running | Phase::InputEnded(_) => {}
            Phase::Terminating(_) => family.terminate(),
            Phase::Killing(_) => family.kill(),
        }
        ears.listen(phase.pause(), &mut heard);
    }
}

impl Phase {
    fn next(self, heard: &Heard, server_ended: bool) -> Self {
        let now = Instant::now();
        match self {
            Self::Running | Self::InputEnded(_) if server_ended => Self::Killing(now),
            Self::Running | Self::InputEnded(_) if heard.asked => {
                Self::Terminating(now + TERMINATE_WAIT)
            }
            Self::Running if heard.input_ended => Self::InputEnded(now + END_OF_INPUT_WAIT),
            Self::InputEnded(until) if until <= now => Self::Terminating(now + TERMINATE_WAIT),
            Self::Terminating(until) if until <= now => Self::Killing(now),
            unchanged => unchanged,
        }
    }

    /// How long nothing has to be looked at; for ever when it is not said.
    fn pause(self) -> Option<Duration> {
        match self {
            Self::Running => None,
            Self::InputEnded(until) => Some(until.saturating_duration_since(Instant::now())),
            Self::Terminating(_) => Some(LOOK_PAUSE),
            Self::Killing(since) if since.elapsed() < KILL_EAGERLY => Some(LOOK_PAUSE),
            Self::Killing(_) => Some(LONG_PAUSE),
        }
    }
}

impl Ears {
    /// Waits until there is something to be heard, or the pause is over.
    fn listen(&mut self, pause: Option<Duration>, heard: &mut Heard) {
        let stdin = io::stdin();
        let mut awaited = vec![
            PollFd::new(&self.asked, PollFlags::IN),
            PollFd::new(&self.children, PollFlags::IN),
        ];
        // Once it was heard it would be heard for ever.
        if !heard.input_ended {
            // The end of the input is told without being asked for, and its bytes are not ours.
            awaited.push(PollFd::from_borrowed_fd(stdin.as_fd(), PollFlags::empty()));
            awaited.extend(self.owner.as_ref().map(|owner| PollFd::new(owner, PollFlags::IN)));
        }
        let pause = pause.and_then(|pause| Timespec::try_from(pause).ok());
        // Interrupted by a signal, it is called again.
        if poll(&mut awaited, pause.as_ref()).is_err() {
            return;
        }
        let told = |awaited: &PollFd<'_>| !awaited.revents().is_empty();
        heard.asked |= told(&awaited[0]);
        heard.input_ended |= awaited[2..].iter().any(told);
        drop(awaited);
        empty(&mut self.asked);
        empty(&mut self.children);
    }
}

fn empty(stream: &mut UnixStream) {
    let mut bytes = [0; 64];
    while stream.read(&mut bytes).is_ok_and(|length| length == bytes.len()) {}
}

/// Ends this process as the server ended.
fn end_as(status: Option<WaitStatus>) -> ExitCode {
    let Some(status) = status else { return ExitCode::FAILURE };
    if let Some(signal) = status.terminating_signal() {
        // What there is to be seen of the server's end, the server has left.
        let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
        // Fails for signals that have no name only.
        let _ = emulate_default_handler(signal);
        return ExitCode::from(u8::try_from(128 + signal).unwrap_or(u8::MAX));
    }
    ExitCode::from(status.exit_status().and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}
