//! What the judge is given.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::record::{CallRecord, EffectRecord};

/// All that is known of a run.
#[derive(Debug, Clone, Default)]
pub struct Evidence {
    /// The callers' ledgers, one for each process.
    pub callers: Vec<CallerEvidence>,
    /// The effects' ledger.
    pub effects: Vec<EffectRecord>,
    /// The workers that were killed: from before the signal until they were gone.
    pub killed_workers: BTreeMap<String, Span>,
    /// The queues that had messages at the end.
    pub queues: Vec<QueueRest>,
    /// How long processes took to stop that were asked to.
    pub stops: Vec<StopEvidence>,
    /// The most memory of each process.
    pub memory: Vec<MemoryPeak>,
}

/// A caller's ledger, and what was done to it.
#[derive(Debug, Clone, Default)]
pub struct CallerEvidence {
    /// The process.
    pub name: String,
    /// Its ledger.
    pub records: Vec<CallRecord>,
    /// Whether it was killed; then it has been told nothing of what it had under way.
    pub was_killed: bool,
    /// When it stood still.
    pub pauses: Vec<Span>,
}

/// A span of time, in Unix milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Its beginning.
    pub from_ms: u64,
    /// Its end.
    pub to_ms: u64,
}

impl Span {
    /// How much of it is after this moment.
    pub(super) fn overlap_ms(self, at_ms: u64) -> u64 {
        self.to_ms.saturating_sub(self.from_ms.max(at_ms))
    }
}

/// A queue with messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueRest {
    /// Its name.
    pub name: String,
    /// How many.
    pub messages: u64,
    /// Whether it is for dead letters.
    pub is_dead_letters: bool,
}

/// How long a process took to stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StopEvidence {
    /// The process.
    pub process: String,
    /// How long it took.
    pub took: Duration,
    /// How long it may take.
    pub limit: Duration,
}

/// The most memory that a process has had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryPeak {
    /// The process.
    pub process: String,
    /// That much, resident.
    pub peak_mib: u64,
    /// How much the chart gives it.
    pub limit_mib: u64,
}
