//! The processes below a supervisor: they are terminated, killed and reaped here.
//!
//! Signals go to two kinds of addressees only, both of which cannot be another process by the time
//! they arrive: the supervisor's own process group, and its own children, whose ids are theirs
//! until they are reaped, which is done here alone. That is enough to reach every process: the
//! supervisor is a subreaper, so an orphaned process becomes its child, whatever sessions and
//! groups it made. Where a server is in a process namespace, the first process of that has the
//! orphans: its children are addressed by descriptors.

use std::collections::HashSet;
use std::fs;
use std::io;

use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, WaitStatus, getpid, kill_current_process_group,
    kill_process, pidfd_open, pidfd_send_signal, wait,
};

/// The processes below a supervisor.
pub(super) struct ProcessTree {
    server: Pid,
    status: Option<WaitStatus>,
    /// No process is left.
    empty: bool,
    /// Children that were sent SIGTERM.
    terminated: HashSet<Pid>,
    group_terminated: bool,
}

impl ProcessTree {
    pub(super) fn new(server: Pid) -> Self {
        Self {
            server,
            status: None,
            empty: false,
            terminated: HashSet::new(),
            group_terminated: false,
        }
    }

    /// Reaps every child that has ended.
    pub(super) fn reap_children(&mut self) {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => {
                    self.terminated.remove(&pid);
                    if pid == self.server && self.status.is_none() {
                        self.status = Some(status);
                    }
                }
                Ok(None) => return,
                Err(Errno::INTR) => {}
                // There are no children at all.
                Err(_) => {
                    self.empty = true;
                    return;
                }
            }
        }
    }

    /// How the server ended, once it did.
    pub(super) fn status(&self) -> Option<WaitStatus> {
        self.status
    }

    /// Whether no process is left.
    pub(super) fn is_empty(&self) -> bool {
        self.empty
    }

    /// Sends SIGTERM to every process that was not sent it yet: to the group once, and to each
    /// child that is not of the group, also to those that become children only now.
    pub(super) fn terminate(&mut self) {
        if !self.group_terminated {
            self.group_terminated = true;
            // This process is sent it too, and has a handler for it.
            let _ = kill_current_process_group(Signal::TERM);
        }

        let group = rustix::process::getpgrp();
        for child in list_children() {
            let is_of_the_group = rustix::process::getpgid(Some(child)) == Ok(group);
            if !is_of_the_group && self.terminated.insert(child) {
                let _ = kill_process(child, Signal::TERM);
            }
            if is_first_of_namespace(child) {
                self.terminate_children_of(child, group);
            }
        }
    }

    /// Sends SIGTERM to the children of the first process of a namespace that are outside of the
    /// group and have not received it yet. The first process itself ends with its last child, or is
    /// killed.
    fn terminate_children_of(&mut self, first: Pid, group: Pid) {
        let path = format!("/proc/{}/task", first.as_raw_nonzero());
        let list = || read_child_list(&path).unwrap_or_default();

        for child in list() {
            let Ok(descriptor) = pidfd_open(child, PidfdFlags::empty()) else { continue };
            // Before the descriptor was open, the id could have become that of another process.
            let is_it = list().contains(&child);
            let is_of_the_group = rustix::process::getpgid(Some(child)) == Ok(group);
            if is_it && !is_of_the_group && self.terminated.insert(child) {
                let _ = pidfd_send_signal(&descriptor, Signal::TERM);
            }
        }
    }

    /// Kills every child. Their children become ours then, so it is repeated until none is left.
    pub(super) fn kill(&self) {
        for child in list_children() {
            // Fails for a child that changed its user, and then there is nothing to be done.
            let _ = kill_process(child, Signal::KILL);
        }
    }
}

/// The children of this process.
///
/// The kernel's own list may leave one out while another ends. The caller repeats this until there
/// are none, which is known from the reaping.
fn list_children() -> Vec<Pid> {
    read_child_list("/proc/self/task").unwrap_or_else(|_| scan_for_children())
}

/// Returns true if a process is the first process of a nested process namespace.
fn is_first_of_namespace(process: Pid) -> bool {
    let path = format!("/proc/{}/status", process.as_raw_nonzero());
    let status = fs::read_to_string(path).unwrap_or_default();
    let ids = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    // Ids of the process: first in our namespace, then in each nested one.
    ids.is_some_and(|ids| ids.split_ascii_whitespace().skip(1).last() == Some("1"))
}

/// Reads the kernel's list of the children of a process from the folder of its threads.
fn read_child_list(threads: &str) -> io::Result<Vec<Pid>> {
    let mut children = Vec::new();
    for thread in fs::read_dir(threads)? {
        let text = fs::read_to_string(thread?.path().join("children"))?;
        children.extend(text.split_ascii_whitespace().filter_map(parse_pid));
    }
    Ok(children)
}

/// Scans all processes for children, for kernels that do not list them.
fn scan_for_children() -> Vec<Pid> {
    let own = getpid().as_raw_nonzero().to_string();
    let is_child = |stat: &str| {
        // The name before it is in parentheses and may hold anything.
        let fields = stat.rsplit_once(')').map(|(_, fields)| fields.split_ascii_whitespace());
        fields.and_then(|mut fields| fields.nth(1)) == Some(&*own)
    };

    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes
        .filter_map(|process| parse_pid(process.file_name().to_str()?))
        .filter(|pid| {
            let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
            stat.is_ok_and(|stat| is_child(&stat))
        })
        .collect()
}

fn parse_pid(text: &str) -> Option<Pid> {
    Pid::from_raw(text.parse().ok()?)
}

#[cfg(test)]
mod tests;
