//! Everything below a supervisor: it is told to end, killed and reaped here.
//!
//! Signals go to two kinds of addressees only, both of which cannot be somebody else by the time
//! they arrive: the supervisor's own process group, and its own children, whose ids are theirs until
//! they are reaped, which is done here alone. That is enough to reach everyone: the supervisor is a
//! subreaper, so whoever loses its parent becomes its child, whatever sessions and groups it made.

use std::collections::HashSet;
use std::fs;
use std::io;

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getpid, kill_current_process_group, kill_process, wait,
};

/// The processes below a supervisor.
pub(super) struct Family {
    server: Pid,
    status: Option<WaitStatus>,
    /// There is nobody left.
    empty: bool,
    /// Children that were told to end.
    told: HashSet<Pid>,
    group_told: bool,
}

impl Family {
    pub(super) fn new(server: Pid) -> Self {
        Self { server, status: None, empty: false, told: HashSet::new(), group_told: false }
    }

    /// Reaps whoever has ended.
    pub(super) fn reap(&mut self) {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => {
                    self.told.remove(&pid);
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

    /// Whether nobody is left.
    pub(super) fn is_empty(&self) -> bool {
        self.empty
    }

    /// Tells everyone to end who was not told yet: the group once, and each child that is not of
    /// the group, also those that become children only now.
    pub(super) fn terminate(&mut self) {
        if !self.group_told {
            self.group_told = true;
            // This process is told, too, and has a handler for that.
            let _ = kill_current_process_group(Signal::TERM);
        }
        let group = rustix::process::getpgrp();
        for child in children() {
            let is_of_the_group = rustix::process::getpgid(Some(child)) == Ok(group);
            if !is_of_the_group && self.told.insert(child) {
                let _ = kill_process(child, Signal::TERM);
            }
        }
    }

    /// Kills every child. Their children become ours then, so it is done until nobody is left.
    pub(super) fn kill(&self) {
        for child in children() {
            // Fails for who changed its user, and then there is nothing to be done.
            let _ = kill_process(child, Signal::KILL);
        }
    }
}

/// The children of this process.
///
/// The kernel's own list may leave one out while another ends. Whoever asks does so again until
/// there are none, and that is known from the reaping.
fn children() -> Vec<Pid> {
    listed().unwrap_or_else(|_| looked_for())
}

fn listed() -> io::Result<Vec<Pid>> {
    let mut children = Vec::new();
    for thread in fs::read_dir("/proc/self/task")? {
        let text = fs::read_to_string(thread?.path().join("children"))?;
        children.extend(text.split_ascii_whitespace().filter_map(parse));
    }
    Ok(children)
}

/// For kernels that do not list them.
fn looked_for() -> Vec<Pid> {
    let own = getpid().as_raw_nonzero().to_string();
    let is_child = |stat: &str| {
        // The name before it is in parentheses and may hold anything.
        let fields = stat.rsplit_once(')').map(|(_, fields)| fields.split_ascii_whitespace());
        fields.and_then(|mut fields| fields.nth(1)) == Some(&*own)
    };
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes
        .filter_map(|process| parse(process.file_name().to_str()?))
        .filter(|pid| {
            let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
            stat.is_ok_and(|stat| is_child(&stat))
        })
        .collect()
}

fn parse(text: &str) -> Option<Pid> {
    Pid::from_raw(text.parse().ok()?)
}

#[cfg(test)]
mod tests;
