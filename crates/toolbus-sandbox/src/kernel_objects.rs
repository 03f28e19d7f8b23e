//! How many files and file locks a script may hold. The kernel keeps memory for each, which no
//! memory limit counts on every machine: locks are charged to nobody.

use std::fs::File;
use std::io::{BufRead as _, BufReader};

use toolbus_scripts::runner::KernelObject;

use crate::config::Limits;
use crate::memory_limit::writable_places;

/// Every how many looks locks are counted: the kernel stops all locking on the machine for it.
const LOCKS_LOOKS: u32 = 5;

/// Counts what one script holds.
#[derive(Debug)]
pub(crate) struct KernelObjectWatch {
    /// The first process of its namespace.
    first: libc::pid_t,
    files_max: u64,
    locks_max: usize,
    looks: u32,
}

impl KernelObjectWatch {
    pub(crate) fn new(first: libc::pid_t, limits: &Limits) -> Self {
        Self {
            first,
            files_max: u64::from(limits.files),
            locks_max: limits.file_locks as usize,
            looks: 0,
        }
    }

    /// What there is too much of, if anything. Reads files, so call it on a thread that may block.
    pub(crate) fn find_exceeded(&mut self) -> Option<KernelObject> {
        let files: u64 = writable_places(self.first).map(|place| place.files).sum();
        if files > self.files_max {
            return Some(KernelObject::Files);
        }

        self.looks = self.looks.wrapping_add(1);
        let is_due = self.looks.is_multiple_of(LOCKS_LOOKS);
        (is_due && count_locks(self.first, self.locks_max) > self.locks_max)
            .then_some(KernelObject::FileLocks)
    }
}

/// Counts the locks of the processes in a namespace, by its own `/proc`, until there are more than
/// `enough`. Locks of open files (`OFDLCK`) have no owner and show in every namespace; scripts get
/// none.
fn count_locks(first: libc::pid_t, enough: usize) -> usize {
    let Ok(file) = File::open(format!("/proc/{first}/root/proc/locks")) else { return 0 };
    let lines = BufReader::new(file).lines().map_while(Result::ok);
    lines.filter(|line| !line.contains("OFDLCK")).take(enough + 1).count()
}
