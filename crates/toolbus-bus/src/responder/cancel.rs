//! Cancel messages: they reach the call that runs, or the one that has yet to come.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use toolbus_wire::message::tool::ID_BYTES_MAX;

/// How long a cancel message waits for its call: a worker that was busy may be handed the request
/// after the message that cancels it.
const EARLY_CANCEL_TTL: Duration = Duration::from_secs(60);
/// Most cancel messages that wait for their call.
const EARLY_MAX: usize = 1_024;
/// Longest source of a call that is waited for, in bytes: a caller's name is shorter.
const SOURCE_BYTES_MAX: usize = 1_024;

#[derive(Default)]
pub(super) struct Cancels {
    table: Mutex<CancelTable>,
}

#[derive(Default)]
struct CancelTable {
    /// By number, because calls of one name may be several at a time. There are no more of them
    /// than run at once, so a cancel message, which is rare, looks at them all.
    running: HashMap<u64, (Arc<CallName>, CancellationToken)>,
    started: u64,
    early: VecDeque<(Instant, CallName)>,
}

/// The name of a call: the source of its request, and the call's id.
#[derive(PartialEq, Eq)]
pub(super) struct CallName {
    pub(super) source: Box<str>,
    pub(super) call_id: Box<str>,
}

impl CallName {
    fn new(source: &str, call_id: &str) -> Self {
        Self { source: source.into(), call_id: call_id.into() }
    }

    /// Whether it is short enough to be kept for a call that may never come.
    fn may_be_kept(&self) -> bool {
        self.source.len() <= SOURCE_BYTES_MAX && self.call_id.len() <= ID_BYTES_MAX
    }
}

impl Cancels {
    /// Cancels every call of this name that runs; if none does, the next one to come.
    pub(super) fn cancel(&self, source: &str, call_id: &str) {
        let name = CallName::new(source, call_id);
        let mut table = self.table.lock();
        let mut reached = false;

        for (_, token) in table.running.values().filter(|(running, _)| **running == name) {
            token.cancel();
            reached = true;
        }

        if reached || !name.may_be_kept() {
            return;
        }

        let now = Instant::now();
        table.forget_old(now);

        if table.early.len() >= EARLY_MAX {
            table.early.pop_front();
        }

        table.early.push_back((now, name));
    }

    /// Registers a call that runs from now on.
    pub(super) fn register(self: &Arc<Self>, source: &str, call_id: &str) -> Running {
        let name = Arc::new(CallName::new(source, call_id));
        let token = CancellationToken::new();
        let mut table = self.table.lock();

        if !table.early.is_empty() {
            table.forget_old(Instant::now());
            if let Some(at) = table.early.iter().position(|(_, early)| *early == *name) {
                table.early.remove(at);
                token.cancel();
            }
        }

        table.started += 1;
        let number = table.started;
        table.running.insert(number, (Arc::clone(&name), token.clone()));
        drop(table);

        Running { cancels: Arc::clone(self), name, number, token }
    }
}

impl CancelTable {
    fn forget_old(&mut self, now: Instant) {
        while self.early.front().is_some_and(|(at, _)| now - *at >= EARLY_CANCEL_TTL) {
            self.early.pop_front();
        }
    }
}

/// A call that runs.
pub(super) struct Running {
    cancels: Arc<Cancels>,
    name: Arc<CallName>,
    number: u64,
    token: CancellationToken,
}

impl Running {
    pub(super) fn name(&self) -> &Arc<CallName> {
        &self.name
    }

    pub(super) fn token(&self) -> &CancellationToken {
        &self.token
    }
}

impl Drop for Running {
    /// The call has ended, or was dropped with its worker: what it may have left behind is
    /// cancelled, too.
    fn drop(&mut self) {
        self.token.cancel();
        self.cancels.table.lock().running.remove(&self.number);
    }
}

#[cfg(test)]
mod tests;
