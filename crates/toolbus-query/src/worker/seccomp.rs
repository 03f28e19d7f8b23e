//! The system calls that a worker may make, as a filter for the kernel.
//!
//! A list of what is allowed: unlike a script, the worker is our own program, and needs to read,
//! write, allocate and end. Whatever else it tries fails with `EPERM`: opening files, sockets,
//! starting processes and threads, executing, looking into other processes. Reading and writing is
//! for its three descriptors only, so that one which was left open to it is of no use.

use std::io;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: TargetArch = TargetArch::x86_64;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: TargetArch = TargetArch::aarch64;

/// Calls that are allowed whatever their arguments.
const ALLOWED: &[libc::c_long] = &[
    // Memory.
    libc::SYS_brk,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    // What a process does for itself.
    libc::SYS_futex,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    libc::SYS_sched_yield,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_getrandom,
    libc::SYS_exit,
    libc::SYS_exit_group,
    // Time, where the kernel does not have it without a call.
    libc::SYS_clock_gettime,
    libc::SYS_gettimeofday,
];

const STDIN: u64 = 0;
const STDOUT: u64 = 1;
const STDERR: u64 = 2;
/// The descriptor of a mapping without a file.
const NO_FILE: u64 = 0xffff_ffff;

/// Applies the filter to all threads, for good.
pub(super) fn apply() -> io::Result<()> {
    seccompiler::apply_filter_all_threads(&program()?).map_err(io::Error::other)
}

fn program() -> io::Result<BpfProgram> {
    let filter = filter().map_err(io::Error::other)?;
    filter.try_into().map_err(io::Error::other)
}

fn filter() -> Result<SeccompFilter, seccompiler::BackendError> {
    let when = |conditions: Vec<SeccompCondition>| SeccompRule::new(conditions);
    let not_executable = |argument| {
        let flag = u64::from(libc::PROT_EXEC.unsigned_abs());
        condition(argument, SeccompCmpOp::MaskedEq(flag), 0)
    };
    let descriptor = |number| when(vec![condition(0, SeccompCmpOp::Eq, number)?]);
    let own = u64::from(std::process::id());

    let mut rules: Vec<(libc::c_long, Vec<SeccompRule>)> =
        ALLOWED.iter().map(|call| (*call, Vec::new())).collect();
    rules.push((libc::SYS_read, vec![descriptor(STDIN)?]));
    rules.push((libc::SYS_pread64, vec![descriptor(STDIN)?]));
    for call in [libc::SYS_write, libc::SYS_writev] {
        rules.push((call, vec![descriptor(STDOUT)?, descriptor(STDERR)?]));
    }

    let mapping = vec![condition(4, SeccompCmpOp::Eq, NO_FILE)?, not_executable(2)?];
    rules.push((libc::SYS_mmap, vec![when(mapping)?]));
    rules.push((libc::SYS_mprotect, vec![when(vec![not_executable(2)?])?]));
    // An abort is a signal to oneself.
    rules.push((libc::SYS_tgkill, vec![descriptor(own)?]));

    let refused = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    SeccompFilter::new(rules.into_iter().collect(), refused, SeccompAction::Allow, ARCHITECTURE)
}

/// The kernel looks at the lower half of these arguments only, so the filter does the same.
fn condition(
    argument: u8,
    operator: SeccompCmpOp,
    value: u64,
) -> Result<SeccompCondition, seccompiler::BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)
}

#[cfg(test)]
mod tests;
