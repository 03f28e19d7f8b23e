//! Resource limits (rlimits) of each process of a script.

use std::thread;
use std::time::Duration;

use crate::config::Limits;

/// Main threads get what they get everywhere else; Python relies on it for deep recursion.
const STACK_BYTES: u64 = 8 << 20;
/// Beyond what the wall clock allows, so that it never decides in the clock's place.
const CPU_SLACK_SECONDS: u64 = 10;

/// Limits as the kernel's numbers and values. That of processes is set inside the sandbox, where
/// the kernel counts only the sandbox's own.
///
/// The processor time ends a script even when this service is stopped and cannot: it is the wall
/// time on every processor.
pub(crate) fn rlimits_of_script(limits: &Limits, timeout: Duration) -> Vec<(libc::c_int, u64)> {
    let processors = thread::available_parallelism().map_or(1, |count| count.get() as u64);
    let cpu = (timeout.as_secs() + 1).saturating_mul(processors) + CPU_SLACK_SECONDS;

    // The numbers' type differs between C libraries.
    #[allow(clippy::unnecessary_cast)]
    [
        (libc::RLIMIT_CORE, 0),
        (libc::RLIMIT_NOFILE, u64::from(limits.open_files)),
        (libc::RLIMIT_FSIZE, limits.file_bytes),
        (libc::RLIMIT_AS, limits.address_space_bytes),
        (libc::RLIMIT_STACK, STACK_BYTES),
        (libc::RLIMIT_CPU, cpu),
    ]
    .map(|(resource, value)| (resource as libc::c_int, value))
    .to_vec()
}
