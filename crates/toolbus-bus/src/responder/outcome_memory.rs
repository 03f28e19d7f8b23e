//! The outcome memory of a worker: what became of the calls of the last minutes.
//!
//! It makes a request that comes twice, by redelivery or by being sent twice, run once. It is
//! bounded in entries, bytes and time, and lives as long as its process.

use std::collections::{HashMap, VecDeque, hash_map};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::{CallKey, Reply};
use crate::slot::Slot;

/// How long an outcome is remembered.
pub const OUTCOME_TTL: Duration = Duration::from_secs(600);
/// Most outcomes that are remembered.
pub(super) const ENTRIES_MAX: usize = 20_000;
/// Most bytes of outcomes that are remembered.
pub(super) const BYTES_MAX: usize = 64 << 20;

/// What a remembered outcome weighs beside its body, in bytes.
pub const REMEMBERED_BYTES: usize = 256;

/// The memory. Clones are the same memory.
#[derive(Clone, Default)]
pub(super) struct OutcomeMemory {
    table: Arc<Mutex<OutcomeTable>>,
}

#[derive(Default)]
struct OutcomeTable {
    entries: HashMap<CallKey, CallEntry>,
    /// Outcomes in the order in which they were remembered.
    done: VecDeque<(Instant, CallKey)>,
    bytes: usize,
}

enum CallEntry {
    Running(JoinedRun),
    Done(Reply),
}

/// What the memory knows of a call.
pub(super) enum Recalled {
    /// It ended with this.
    Done(Reply),
    /// It runs at this moment.
    Running(JoinedRun),
    /// Nothing. Whoever recalled it is to run the call now.
    New(Place),
}

impl OutcomeMemory {
    /// Whether the call runs, or its outcome is remembered.
    pub(super) fn knows(&self, key: CallKey) -> bool {
        let mut table = self.table.lock();
        table.forget_old(Instant::now());
        table.entries.contains_key(&key)
    }

    /// What is known of the call; when it is nothing, its place is taken, for a run in this slot.
    pub(super) fn recall(&self, key: CallKey, slot: &Slot) -> Recalled {
        let mut table = self.table.lock();
        table.forget_old(Instant::now());

        match table.entries.entry(key) {
            hash_map::Entry::Occupied(known) => match known.get() {
                CallEntry::Done(reply) => Recalled::Done(reply.clone()),
                CallEntry::Running(run) => Recalled::Running(run.clone()),
            },
            hash_map::Entry::Vacant(place) => {
                let pending = Arc::new(PendingOutcome::default());
                let run = JoinedRun { outcome: Arc::clone(&pending), slot: slot.clone() };
                place.insert(CallEntry::Running(run));
                Recalled::New(Place { memory: self.clone(), key, outcome: Some(pending) })
            }
        }
    }
}

impl OutcomeTable {
    fn remember(&mut self, key: CallKey, reply: Reply, now: Instant) {
        self.bytes += REMEMBERED_BYTES + reply.body.len();
        self.entries.insert(key, CallEntry::Done(reply));
        self.done.push_back((now, key));
        while self.done.len() > ENTRIES_MAX || (self.bytes > BYTES_MAX && self.done.len() > 1) {
            self.forget_oldest();
        }
    }

    fn forget_old(&mut self, now: Instant) {
        while self.done.front().is_some_and(|(at, _)| now - *at >= OUTCOME_TTL) {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        let Some((_, key)) = self.done.pop_front() else { return };
        if let Some(CallEntry::Done(reply)) = self.entries.remove(&key) {
            self.bytes -= REMEMBERED_BYTES + reply.body.len();
        }
    }
}

/// The outcome of a run, once it has one.
#[derive(Default)]
struct PendingOutcome {
    outcome: Mutex<RunOutcome>,
    ended: Notify,
}

#[derive(Clone, Default)]
enum RunOutcome {
    #[default]
    Open,
    /// The run was dropped.
    Lost,
    Reply(Reply),
}

impl PendingOutcome {
    fn end(&self, outcome: RunOutcome) {
        *self.outcome.lock() = outcome;
        self.ended.notify_waiters();
    }
}

/// A run of the same call that is under way.
#[derive(Clone)]
pub(super) struct JoinedRun {
    outcome: Arc<PendingOutcome>,
    slot: Slot,
}

impl JoinedRun {
    /// The slot that the run has.
    pub(super) fn slot(&self) -> &Slot {
        &self.slot
    }

    /// How it ends; `None` when it was dropped without an outcome.
    pub(super) async fn outcome(self) -> Option<Reply> {
        // Listening begins here, before the look, or an end between the two would be missed.
        let ended = self.outcome.ended.notified();
        let outcome = self.outcome.outcome.lock().clone();
        let outcome = match outcome {
            RunOutcome::Open => {
                ended.await;
                self.outcome.outcome.lock().clone()
            }
            outcome => outcome,
        };

        match outcome {
            RunOutcome::Reply(reply) => Some(reply),
            RunOutcome::Lost | RunOutcome::Open => None,
        }
    }
}

/// The place of a call that runs. Dropped without an outcome, the call is forgotten.
pub(super) struct Place {
    memory: OutcomeMemory,
    key: CallKey,
    /// Taken out when the run has ended.
    outcome: Option<Arc<PendingOutcome>>,
}

impl Place {
    /// Remembers the outcome, for everybody who asks from now on or waits already.
    pub(super) fn remember(mut self, reply: Reply) {
        self.memory.table.lock().remember(self.key, reply.clone(), Instant::now());
        if let Some(outcome) = self.outcome.take() {
            outcome.end(RunOutcome::Reply(reply));
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(outcome) = self.outcome.take() {
            self.memory.table.lock().entries.remove(&self.key);
            outcome.end(RunOutcome::Lost);
        }
    }
}

#[cfg(test)]
mod tests;
