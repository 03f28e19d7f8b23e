//! The outcome memory of a worker: what became of the calls of the last minutes.
//!
//! It makes a request that comes twice, by redelivery or by being sent twice, run once. It is
//! bounded in entries, bytes and time, and lives as long as its process. Where outcomes have to go
//! before their time, their keys stay: such a call is known to have run, and how it ended is not.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;
use toolbus_wire::{Envelope, Topic};

use super::{CallKey, Reply};
use crate::slot::Slot;

/// How long an outcome is remembered.
pub const OUTCOME_TTL: Duration = Duration::from_secs(600);
/// Most outcomes that are remembered.
pub(super) const ENTRIES_MAX: usize = 20_000;
/// Most bytes of outcomes that are remembered.
pub(crate) const BYTES_MAX: usize = 32 << 20;

/// Most calls whose outcomes had to go and that are remembered as known: ten minutes at 5,000 a
/// second.
const KNOWN_MAX: usize = 3_000_000;
/// What they take at most: 8 bytes each and one of the hash table's, of which almost half may be
/// slack.
pub(crate) const KNOWN_BYTES_MAX: usize = KNOWN_MAX * 18;
/// In how many parts they are forgotten.
const KNOWN_PARTS: usize = 10;

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
    /// The same calls by what their requests are known by elsewhere.
    by_request: HashMap<u64, CallKey>,
    hasher: RandomState,
    /// Outcomes in the order in which they were remembered.
    done: VecDeque<(Instant, CallKey)>,
    bytes: usize,
    known: KnownCalls,
}

/// Calls whose outcomes had to go, in parts of some time each, oldest first.
#[derive(Default)]
struct KnownCalls {
    parts: VecDeque<KnownPart>,
}

/// Fingerprints of calls, of which it is enough that two are hardly ever alike.
struct KnownPart {
    /// When the last of them may be forgotten.
    until: Instant,
    fingerprints: HashSet<u64>,
}

impl KnownCalls {
    fn contains(&self, key: CallKey) -> bool {
        let fingerprint = key.fingerprint();
        self.parts.iter().any(|part| part.fingerprints.contains(&fingerprint))
    }

    /// Remembers a call that ended at `at`.
    fn insert(&mut self, key: CallKey, at: Instant) {
        let until = at + OUTCOME_TTL;
        let part_time = OUTCOME_TTL / KNOWN_PARTS as u32;
        let is_full = |part: &KnownPart| part.fingerprints.len() >= KNOWN_MAX / KNOWN_PARTS;
        let fits = |part: &KnownPart| until <= part.until + part_time && !is_full(part);

        if !self.parts.back().is_some_and(fits) {
            if self.parts.len() > KNOWN_PARTS {
                self.parts.pop_front();
            }
            self.parts.push_back(KnownPart { until, fingerprints: HashSet::new() });
        }
        if let Some(part) = self.parts.back_mut() {
            part.fingerprints.insert(key.fingerprint());
        }
    }

    fn forget_old(&mut self, now: Instant) {
        let part_time = OUTCOME_TTL / KNOWN_PARTS as u32;
        while self.parts.front().is_some_and(|part| now >= part.until + part_time) {
            self.parts.pop_front();
        }
    }
}

enum CallEntry {
    Running(JoinedRun),
    Done { answer: Answer, request: u64 },
}

/// A reply, and what it was sent with.
#[derive(Clone)]
pub(super) struct Answer {
    pub(super) reply: Reply,
    /// Where it was sent.
    pub(super) to: Topic,
    pub(super) correlation_id: Option<String>,
}

/// A call that somebody asks for by the names of its request.
pub(super) enum KnownCall {
    /// It runs at this moment.
    Running,
    /// It has ended and was answered.
    Answered(Answer),
}

/// What the memory knows of a call.
pub(super) enum Recalled {
    /// It ended with this.
    Done(Reply),
    /// It runs at this moment.
    Running(JoinedRun),
    /// That it ended in the last minutes; its outcome had to go.
    Forgotten,
    /// Nothing. Whoever recalled it is to run the call now.
    New(Place),
}

impl OutcomeMemory {
    /// Whether the call runs, or its outcome is remembered.
    pub(super) fn knows(&self, key: CallKey) -> bool {
        let mut table = self.table.lock();
        table.forget_old(Instant::now());
        table.entries.contains_key(&key) || table.known.contains(key)
    }

    /// What is known of the call; when it is nothing, its place is taken, for a run in this slot.
    pub(super) fn recall(&self, key: CallKey, request: &Envelope, slot: &Slot) -> Recalled {
        let mut table = self.table.lock();
        table.forget_old(Instant::now());

        match table.entries.get(&key) {
            Some(CallEntry::Done { answer, .. }) => Recalled::Done(answer.reply.clone()),
            Some(CallEntry::Running(run)) => Recalled::Running(run.clone()),
            None if table.known.contains(key) => Recalled::Forgotten,
            None => Recalled::New(self.place_of(&mut table, key, request, slot)),
        }
    }

    /// Takes the place of a call, for a run in this slot.
    pub(super) fn reserve(&self, key: CallKey, request: &Envelope, slot: &Slot) -> Place {
        self.place_of(&mut self.table.lock(), key, request, slot)
    }

    /// The call of a request, by its source and its correlation id, where it runs or its outcome is
    /// remembered.
    pub(super) fn find(&self, source: &str, correlation_id: &str) -> Option<KnownCall> {
        let mut table = self.table.lock();
        table.forget_old(Instant::now());
        let request = table.hasher.hash_one((source, correlation_id));

        match table.entries.get(table.by_request.get(&request)?)? {
            CallEntry::Done { answer, .. } => Some(KnownCall::Answered(answer.clone())),
            // One that is only waited for here runs elsewhere, or nowhere.
            CallEntry::Running(run) => run.slot.has_request().then_some(KnownCall::Running),
        }
    }

    fn place_of(
        &self,
        table: &mut OutcomeTable,
        key: CallKey,
        request: &Envelope,
        slot: &Slot,
    ) -> Place {
        let pending = Arc::new(PendingOutcome::default());
        let run = JoinedRun { outcome: Arc::clone(&pending), slot: slot.clone() };
        let request = table.hasher.hash_one((&*request.source, correlation_id_of(request)));
        table.by_request.insert(request, key);
        table.entries.insert(key, CallEntry::Running(run));
        Place { memory: self.clone(), key, request, outcome: Some(pending) }
    }
}

/// What ties a request to its reply. Requests of strangers may have nothing but their own id.
pub(super) fn correlation_id_of(request: &Envelope) -> &str {
    request.correlation_id.as_deref().unwrap_or(&request.message_id)
}

impl OutcomeTable {
    fn remember(&mut self, key: CallKey, request: u64, answer: Answer, now: Instant) {
        self.bytes += REMEMBERED_BYTES + answer.reply.body.len();
        self.entries.insert(key, CallEntry::Done { answer, request });
        self.done.push_back((now, key));
        while self.done.len() > ENTRIES_MAX || (self.bytes > BYTES_MAX && self.done.len() > 1) {
            if let Some((at, key)) = self.forget_oldest() {
                self.known.insert(key, at);
            }
        }
    }

    fn forget_old(&mut self, now: Instant) {
        while self.done.front().is_some_and(|(at, _)| now - *at >= OUTCOME_TTL) {
            self.forget_oldest();
        }
        self.known.forget_old(now);
    }

    fn forget_oldest(&mut self) -> Option<(Instant, CallKey)> {
        let (at, key) = self.done.pop_front()?;
        if let Some(CallEntry::Done { answer, request }) = self.entries.remove(&key) {
            self.bytes -= REMEMBERED_BYTES + answer.reply.body.len();
            self.forget_request(request, key);
        }
        Some((at, key))
    }

    /// Forgets what a call is known by elsewhere, unless that is another call's by now.
    fn forget_request(&mut self, request: u64, key: CallKey) {
        if self.by_request.get(&request) == Some(&key) {
            self.by_request.remove(&request);
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
    request: u64,
    /// Taken out when the run has ended.
    outcome: Option<Arc<PendingOutcome>>,
}

impl Place {
    /// Remembers the outcome, for everybody who asks from now on or waits already.
    pub(super) fn remember(mut self, answer: Answer) {
        let reply = answer.reply.clone();
        self.memory.table.lock().remember(self.key, self.request, answer, Instant::now());
        if let Some(outcome) = self.outcome.take() {
            outcome.end(RunOutcome::Reply(reply));
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(outcome) = self.outcome.take() {
            let mut table = self.memory.table.lock();
            table.entries.remove(&self.key);
            table.forget_request(self.request, self.key);
            drop(table);
            outcome.end(RunOutcome::Lost);
        }
    }
}

#[cfg(test)]
mod tests;
