//! Starting a process with exactly the descriptors, limits and user that it is to have.
//!
//! `std`'s `Command` cannot hand over chosen descriptors or close the others, and its `fork`
//! copies the page tables of the whole service; this borrows the address space until `execve`, as
//! `posix_spawn` does, so that its cost does not grow with the service.
//!
//! Invariants: the child gets the descriptors of the plan and no other, an environment of its own,
//! default signal handling, a session of its own, and dies with the thread that started it. That is
//! why a [`ProcessSpawner`] owns the thread: it lives as long as its sandbox.

use std::ffi::{CString, c_char, c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use tokio::sync::oneshot;

use crate::cgroup::GroupHandle;

/// Most starts that wait for the thread, each a fraction of a millisecond. Runs are bounded below
/// it.
const JOBS_MAX: usize = 4096;
/// The child runs a few frames of this file on it.
const STACK_BYTES: usize = 64 << 10;
/// Descriptors are first moved above every target, so that none overwrites another.
const PARKED_FD_MIN: RawFd = 64;

/// What to spawn: program, descriptors, limits and user.
#[derive(Debug)]
pub(crate) struct SpawnPlan {
    /// The program's path, looked up nowhere.
    pub(crate) program: CString,
    /// Its arguments, the name it is called by first.
    pub(crate) arguments: Vec<CString>,
    /// Its whole environment, as `NAME=value`.
    pub(crate) environment: Vec<CString>,
    /// Descriptors to hand over, with the numbers they get.
    pub(crate) descriptors: Vec<(OwnedFd, RawFd)>,
    /// Resource limits, as the kernel's numbers and values.
    pub(crate) limits: Vec<(c_int, u64)>,
    /// The user and group id to become, when the service is root.
    pub(crate) become_id: Option<libc::uid_t>,
    /// Where to start.
    pub(crate) directory: CString,
    /// Control groups to start it in.
    pub(crate) group_handles: Vec<GroupHandle>,
}

/// A spawned process, which only the receiver of this waits for.
#[derive(Debug)]
pub(crate) struct StartedProcess {
    /// Its number, good until it has been waited for.
    pub(crate) pid: libc::pid_t,
    /// A descriptor that stands for it and for no later process of that number.
    pub(crate) pidfd: OwnedFd,
}

type SpawnJob = (SpawnPlan, oneshot::Sender<io::Result<StartedProcess>>);

/// A thread that starts processes. They die when it ends, which is when the last handle is gone.
#[derive(Debug, Clone)]
pub(crate) struct ProcessSpawner {
    jobs: SyncSender<SpawnJob>,
}

impl ProcessSpawner {
    /// Starts the thread and runs `prepare` on it first; its error ends the thread and is returned.
    pub(crate) async fn start<E: From<io::Error> + Send + 'static>(
        prepare: impl FnOnce() -> Result<(), E> + Send + 'static,
    ) -> Result<Self, E> {
        let (jobs, received) = sync_channel(JOBS_MAX);
        let (ready, prepared) = oneshot::channel();

        thread::Builder::new().name("sandbox-spawner".to_owned()).spawn(move || {
            let outcome = prepare();
            let is_ready = outcome.is_ok();
            if ready.send(outcome).is_ok() && is_ready {
                serve_jobs(&received);
            }
        })?;
        prepared.await.map_err(|_| io::Error::other("the spawning thread panicked"))??;

        Ok(Self { jobs })
    }

    /// Starts what `plan` says. The descriptors of the plan are closed on this side.
    pub(crate) async fn spawn(&self, plan: SpawnPlan) -> io::Result<StartedProcess> {
        let (reply, answer) = oneshot::channel();
        let gone = || io::Error::other("the spawning thread is gone");
        self.jobs.try_send((plan, reply)).map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }
}

fn serve_jobs(jobs: &Receiver<SpawnJob>) {
    while let Ok((plan, reply)) = jobs.recv() {
        let group_handles = &plan.group_handles;
        let entered = group_handles.iter().try_for_each(GroupHandle::enter_group);
        let started = entered.and_then(|()| spawn_child(&plan));

        for handle in group_handles {
            // A thread that stays behind leaves with the next run; until then it is in the way of
            // nothing but the removal of the group, which is tried again.
            let _ = handle.leave_group();
        }

        drop(plan);

        if let Err(Ok(unwanted)) = reply.send(started) {
            kill_and_reap(unwanted.pid);
        }
    }
}

/// Kills and reaps a child whose requester is gone.
#[allow(unsafe_code)]
pub(crate) fn kill_and_reap(pid: libc::pid_t) {
    // SAFETY: the process is our child and has not been waited for, so the number is still its own;
    // a null status is allowed.
    unsafe {
        libc::kill(pid, libc::SIGKILL);
        libc::waitpid(pid, ptr::null_mut(), 0);
    }
}

/// All that the child needs, made before it exists: it must not allocate.
struct PreparedChild<'a> {
    program: *const c_char,
    arguments: Vec<*const c_char>,
    environment: Vec<*const c_char>,
    directory: *const c_char,
    /// Each descriptor, where it is parked meanwhile, and its number in the child.
    descriptors: Vec<(RawFd, RawFd, RawFd)>,
    limits: &'a [(c_int, u64)],
    become_id: Option<libc::uid_t>,
    /// The step that failed and its error number, written by the child.
    failed: Option<(&'static str, c_int)>,
}

#[allow(unsafe_code)]
fn spawn_child(plan: &SpawnPlan) -> io::Result<StartedProcess> {
    let pointers = |strings: &[CString]| {
        strings.iter().map(|string| string.as_ptr()).chain([ptr::null()]).collect::<Vec<_>>()
    };
    let mut prepared = PreparedChild {
        program: plan.program.as_ptr(),
        arguments: pointers(&plan.arguments),
        environment: pointers(&plan.environment),
        directory: plan.directory.as_ptr(),
        descriptors: plan
            .descriptors
            .iter()
            .map(|(descriptor, target)| (descriptor.as_raw_fd(), -1, *target))
            .collect(),
        limits: &plan.limits,
        become_id: plan.become_id,
        failed: None,
    };

    let mut stack = vec![0_u8; STACK_BYTES];
    let mut pidfd: c_int = -1;

    // SAFETY: the child runs `run_child` on a stack of its own that outlives it, since this thread
    // stands still (`CLONE_VFORK`) until the child has called `execve` or `_exit`; `prepared` and
    // what it points to live as long. All signals are blocked meanwhile, so that no handler of this
    // process runs in the child on shared memory. The stack's end is aligned by hand. A child that
    // changes its user takes the right to be dumped from the memory it shares, so that is put back.
    let (pid, error) = unsafe {
        let end = stack.as_mut_ptr().add(STACK_BYTES);
        let end = end.sub(end.addr() % 16);
        let mut every_signal = std::mem::zeroed();
        let mut before = std::mem::zeroed();

        libc::sigfillset(&raw mut every_signal);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const every_signal, &raw mut before);

        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PIDFD | libc::SIGCHLD;
        let argument = (&raw mut prepared).cast::<c_void>();
        let dumpable = libc::prctl(libc::PR_GET_DUMPABLE);
        let pid = libc::clone(run_child, end.cast(), flags, argument, &raw mut pidfd);
        let error = io::Error::last_os_error();

        libc::prctl(libc::PR_SET_DUMPABLE, libc::c_long::from(dumpable), 0, 0, 0);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, ptr::null_mut());

        (pid, error)
    };

    if pid < 0 {
        return Err(error);
    }

    // SAFETY: the kernel opened the descriptor for us, and nobody else knows of it.
    let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
    let started = StartedProcess { pid, pidfd };
    match prepared.failed {
        None => Ok(started),
        Some((step, number)) => {
            kill_and_reap(pid);
            let source = io::Error::from_raw_os_error(number);
            Err(io::Error::new(source.kind(), format!("cannot start a process: {step}: {source}")))
        }
    }
}

#[allow(unsafe_code)]
extern "C" fn run_child(prepared: *mut c_void) -> c_int {
    // SAFETY: `spawn_child` passes a live `PreparedChild`, and its thread does not touch it until
    // this child has executed another program or ended.
    let prepared = unsafe { &mut *prepared.cast::<PreparedChild<'_>>() };
    let failed_step = become_program(prepared);
    prepared.failed = Some((failed_step, io::Error::last_os_error().raw_os_error().unwrap_or(0)));
    127
}

/// Turns the child into the planned program; returns the step that failed. Only system calls here
/// and below: the memory is the parent's, and locks in it may be held by threads that do not exist
/// here.
fn become_program(prepared: &mut PreparedChild<'_>) -> &'static str {
    let steps = [reset_inherited, install_descriptors, apply_limits, change_user, exec_program];
    for step in steps {
        if let Err(failed) = step(prepared) {
            return failed;
        }
    }
    "nothing"
}

/// Resets what is inherited: session, file mode mask and signal handlers.
#[allow(unsafe_code)]
fn reset_inherited(_: &mut PreparedChild<'_>) -> Result<(), &'static str> {
    // All zeroes is the kernel's own form of the default action. Called directly, because the C
    // library keeps two signals to itself. It fails for those that have no handlers.
    let default_action = [0_u64; 4];
    // SAFETY: concerns this process alone; the pointers are to a live value or null.
    unsafe {
        libc::umask(0o022);

        for signal in 1..=64 {
            libc::syscall(
                libc::SYS_rt_sigaction,
                signal,
                &raw const default_action,
                ptr::null_mut::<u64>(),
                size_of::<u64>(),
            );
        }

        check_result(libc::setsid().into(), "setsid")
    }
}

/// The planned descriptors and no other. Before the limits, which may be below the numbers that the
/// parent uses.
#[allow(unsafe_code)]
fn install_descriptors(prepared: &mut PreparedChild<'_>) -> Result<(), &'static str> {
    for (descriptor, parked, _) in &mut prepared.descriptors {
        // SAFETY: takes no pointers; so do the calls below.
        *parked = unsafe { libc::fcntl(*descriptor, libc::F_DUPFD_CLOEXEC, PARKED_FD_MIN) };
        check_result((*parked).into(), "fcntl")?;
    }

    let flags = libc::CLOSE_RANGE_CLOEXEC;

    // SAFETY: as above.
    check_result(
        unsafe { libc::syscall(libc::SYS_close_range, 0, u32::MAX, flags) },
        "close_range",
    )?;

    for (_, parked, target) in &prepared.descriptors {
        // SAFETY: as above.
        check_result(unsafe { libc::dup2(*parked, *target) }.into(), "dup2")?;
    }

    Ok(())
}

#[allow(unsafe_code)]
fn apply_limits(prepared: &mut PreparedChild<'_>) -> Result<(), &'static str> {
    for (resource, value) in prepared.limits {
        let limit = libc::rlimit64 { rlim_cur: *value, rlim_max: *value };
        let before = ptr::null_mut::<libc::rlimit64>();
        // SAFETY: concerns this process (0) alone; the pointers are to a live value and null.
        let answer =
            unsafe { libc::syscall(libc::SYS_prlimit64, 0, *resource, &raw const limit, before) };
        check_result(answer, "prlimit")?;
    }
    Ok(())
}

/// The user, and what is bound to it. Called directly, because the C library's wrappers would try
/// to do it for all threads of the parent.
#[allow(unsafe_code)]
fn change_user(prepared: &mut PreparedChild<'_>) -> Result<(), &'static str> {
    // SAFETY: concerns this process alone; the pointers are null or to constants.
    unsafe {
        prefer_for_oom_kill();

        if let Some(id) = prepared.become_id {
            check_result(
                libc::syscall(libc::SYS_setgroups, 0, ptr::null::<libc::gid_t>()),
                "setgroups",
            )?;
            check_result(libc::syscall(libc::SYS_setresgid, id, id, id), "setresgid")?;
            check_result(libc::syscall(libc::SYS_setresuid, id, id, id), "setresuid")?;
        }

        // A change of user would have taken it back.
        check_result(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL).into(), "prctl")
    }
}

#[allow(unsafe_code)]
fn exec_program(prepared: &mut PreparedChild<'_>) -> Result<(), &'static str> {
    // SAFETY: every pointer is to a live value of the parent, whose thread stands still.
    unsafe {
        check_result(libc::chdir(prepared.directory).into(), "chdir")?;
        let mut no_signal = std::mem::zeroed();
        libc::sigemptyset(&raw mut no_signal);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const no_signal, ptr::null_mut());
        libc::execve(prepared.program, prepared.arguments.as_ptr(), prepared.environment.as_ptr());
    }
    Err("execve")
}

fn check_result(answer: libc::c_long, step: &'static str) -> Result<(), &'static str> {
    if answer < 0 { Err(step) } else { Ok(()) }
}

/// Makes the kernel's OOM killer prefer this process when the machine runs out of memory. Best
/// effort: without `/proc` only this preference is lost.
///
/// # Safety
/// Called in the child, before it changes its user.
#[allow(unsafe_code)]
unsafe fn prefer_for_oom_kill() {
    // SAFETY: paths and texts are constants, the descriptor is our own.
    unsafe {
        let file =
            libc::open(c"/proc/self/oom_score_adj".as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        if file >= 0 {
            libc::write(file, c"1000".as_ptr().cast(), 4);
            libc::close(file);
        }
    }
}

#[cfg(test)]
mod tests;
