//! A child process that is waited for exactly once, and killed when its handle is dropped.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;
use std::time::Duration;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::spawn::{StartedProcess, kill_and_reap};

/// The wait status of a process, as `waitpid` returns it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WaitStatus(pub(crate) i32);

impl WaitStatus {
    /// The exit code, when it ended by itself.
    pub(crate) fn exit_code(self) -> Option<i32> {
        libc::WIFEXITED(self.0).then(|| libc::WEXITSTATUS(self.0))
    }

    /// The signal that ended it, when one did.
    pub(crate) fn signal(self) -> Option<i32> {
        libc::WIFSIGNALED(self.0).then(|| libc::WTERMSIG(self.0))
    }
}

/// Resource usage of a process and all children that it waited for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ProcessUsage {
    /// User and system time.
    pub(crate) cpu: Duration,
    /// Resident memory of the largest one, in bytes.
    pub(crate) memory_largest: u64,
}

/// A descriptor that stands for a process, ours or another's.
#[derive(Debug)]
pub(crate) struct PidFd(AsyncFd<OwnedFd>);

impl PidFd {
    #[allow(unsafe_code)]
    pub(crate) fn new(descriptor: OwnedFd) -> io::Result<Self> {
        // SAFETY: an `OwnedFd` always gives the same descriptor, and it stays open until it is
        // dropped with the registration.
        let registered = unsafe { AsyncFd::register_with_interest(descriptor, Interest::READABLE) };
        registered.map(Self).map_err(io::Error::from)
    }

    /// Opens the process of that number, which the caller knows to be alive or not yet waited for.
    #[allow(unsafe_code)]
    pub(crate) fn open(pid: libc::pid_t) -> io::Result<Self> {
        // SAFETY: the call takes no pointers; the answer is checked and owned by nobody else.
        let descriptor = unsafe {
            let answer = libc::syscall(libc::SYS_pidfd_open, pid, 0);
            if answer < 0 {
                return Err(io::Error::last_os_error());
            }

            OwnedFd::from_raw_fd(i32::try_from(answer).expect("a descriptor is a small number"))
        };
        Self::new(descriptor)
    }

    /// Sends SIGKILL. A process that has exited already is not an error.
    #[allow(unsafe_code)]
    pub(crate) fn kill(&self) {
        let descriptor = self.0.get_ref().as_raw_fd();
        // SAFETY: the descriptor is open; a null siginfo is allowed.
        unsafe {
            libc::syscall(
                libc::SYS_pidfd_send_signal,
                descriptor,
                libc::SIGKILL,
                ptr::null::<libc::siginfo_t>(),
                0,
            );
        }
    }

    /// Waits until it has ended, which for the first process of a namespace means that every other
    /// process of it has ended, too. Cancel-safe.
    pub(crate) async fn wait_ended(&self) -> io::Result<()> {
        self.0.readable().await.map(|_| ())
    }

    /// The same without a runtime, for at most `limit`.
    #[allow(unsafe_code)]
    fn wait_ended_within(&self, limit: Duration) -> bool {
        let mut poll =
            libc::pollfd { fd: self.0.get_ref().as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let limit_ms = i32::try_from(limit.as_millis()).unwrap_or(i32::MAX);
        // SAFETY: one live pollfd.
        unsafe { libc::poll(&raw mut poll, 1, limit_ms) > 0 }
    }
}

/// A child process of this service.
#[derive(Debug)]
pub(crate) struct ChildProcess {
    pid: libc::pid_t,
    pidfd: PidFd,
    exit: Option<(WaitStatus, ProcessUsage)>,
}

impl ChildProcess {
    pub(crate) fn new(started: StartedProcess) -> io::Result<Self> {
        let pidfd = PidFd::new(started.pidfd).inspect_err(|_| kill_and_reap(started.pid))?;
        Ok(Self { pid: started.pid, pidfd, exit: None })
    }

    pub(crate) fn pid(&self) -> libc::pid_t {
        self.pid
    }

    pub(crate) fn kill(&self) {
        if self.exit.is_none() {
            self.pidfd.kill();
        }
    }

    /// Waits for its end and reaps it. Cancel-safe, and the same answer when called again.
    pub(crate) async fn wait(&mut self) -> io::Result<(WaitStatus, ProcessUsage)> {
        if self.exit.is_none() {
            self.pidfd.wait_ended().await?;
            self.exit = Some(reap_child(self.pid)?);
        }
        self.exit.ok_or_else(|| io::Error::other("a process that ended has no status"))
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        if self.exit.is_none() {
            self.pidfd.kill();
            // A killed process is gone within milliseconds; the bound is for a kernel that hangs.
            if self.pidfd.wait_ended_within(Duration::from_secs(2)) {
                let _ = reap_child(self.pid);
            }
        }
    }
}

#[allow(unsafe_code)]
fn reap_child(pid: libc::pid_t) -> io::Result<(WaitStatus, ProcessUsage)> {
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();

    // SAFETY: both point to live values of the right type; all zeroes is a valid `rusage`.
    let usage = unsafe {
        if libc::wait4(pid, &raw mut status, libc::WNOHANG, usage.as_mut_ptr()) != pid {
            return Err(io::Error::last_os_error());
        }
        usage.assume_init()
    };

    let duration = |time: libc::timeval| {
        Duration::from_secs(time.tv_sec.unsigned_abs())
            + Duration::from_micros(time.tv_usec.unsigned_abs())
    };
    let usage = ProcessUsage {
        cpu: duration(usage.ru_utime) + duration(usage.ru_stime),
        memory_largest: usage.ru_maxrss.unsigned_abs() << 10,
    };

    Ok((WaitStatus(status), usage))
}
