//! Cancel messages: they reach the call that runs, or the one that has yet to come.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How long a cancel message waits for its call: a worker that was busy may be handed the request
/// after the message that cancels it.
const REMEMBERED_FOR: Duration = Duration::from_secs(60);
/// Most cancel messages that wait for their call.
const EARLY_MAX: usize = 1_024;

#[derive(Default)]
pub(super) struct Cancels {
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    /// Calls of one name may be several at a time; the numbers tell them apart.
    running: HashMap<Name, Vec<(u64, CancellationToken)>>,
    started: u64,
    early: VecDeque<(Instant, Name)>,
}

/// Who asked, and the call's id.
type Name = (Box<str>, Box<str>);

impl Cancels {
    /// Cancels every call of this name that runs; if none does, the next one to come.
    pub(super) fn cancel(&self, source: &str, call_id: &str) {
        let mut table = self.table.lock();
        let name = (source.into(), call_id.into());
        if let Some(tokens) = table.running.get(&name) {
            tokens.iter().for_each(|(_, token)| token.cancel());
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
    pub(super) fn running(self: &Arc<Self>, source: &str, call_id: &str) -> Running {
        let name: Name = (source.into(), call_id.into());
        let token = CancellationToken::new();
        let mut table = self.table.lock();
        if !table.early.is_empty() {
            table.forget_old(Instant::now());
            if let Some(at) = table.early.iter().position(|(_, early)| *early == name) {
                table.early.remove(at);
                token.cancel();
            }
        }
        table.started += 1;
        let number = table.started;
        table.running.entry(name.clone()).or_default().push((number, token.clone()));
        Running { cancels: Arc::clone(self), name, number, token }
    }
}

impl Table {
    fn forget_old(&mut self, now: Instant) {
        while self.early.front().is_some_and(|(at, _)| now - *at >= REMEMBERED_FOR) {
            self.early.pop_front();
        }
    }
}

/// A call that runs.
pub(super) struct Running {
    cancels: Arc<Cancels>,
    name: Name,
    number: u64,
    token: CancellationToken,
}

impl Running {
    pub(super) fn token(&self) -> &CancellationToken {
        &self.token
    }
}

impl Drop for Running {
    /// The call has ended, or was dropped with its worker: what it may have left behind is told, too.
    fn drop(&mut self) {
        self.token.cancel();
        let mut table = self.cancels.table.lock();
        if let Some(tokens) = table.running.get_mut(&self.name) {
            tokens.retain(|(number, _)| *number != self.number);
            if tokens.is_empty() {
                table.running.remove(&self.name);
            }
        }
    }
}

#[cfg(test)]
mod tests;
