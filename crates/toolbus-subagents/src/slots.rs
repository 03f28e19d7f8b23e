//! Who of the subagents of a session has a slot, and who waits for one.
//!
//! It is worked out anew from the rows each time: so it is the same for every process, and a
//! process that is killed leaves no slot taken.

use toolbus_policy::spawn::{Priority, SpawnLimits, SpawnRefused, SpawnTracker};
use toolbus_tools::id::RunId;

/// How many times the active ones there may be, with those that are paused.
const OPEN_FACTOR_MAX: usize = 4;

/// A subagent that has not ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SlotRow {
    pub(crate) id: String,
    pub(crate) priority: Priority,
    pub(crate) is_paused: bool,
}

/// The slots of a session.
pub(crate) struct Slots {
    tracker: SpawnTracker,
    limits: SpawnLimits,
    open: usize,
    active: Vec<(RunId, String)>,
    paused: Vec<SlotRow>,
}

impl Slots {
    /// Of these rows, from the oldest to the latest.
    pub(crate) fn new(rows: Vec<SlotRow>, concurrent_max: usize) -> Self {
        // The agent itself has a slot, too.
        let agents_max = concurrent_max.saturating_add(1);
        let limits = SpawnLimits { agents_max, may_pause: true };
        let (open, tracker) = (rows.len(), SpawnTracker::new(limits));
        let mut slots = Self { tracker, limits, open, active: Vec::new(), paused: Vec::new() };
        for row in rows {
            if row.is_paused {
                slots.paused.push(row);
            } else {
                slots.enter(row.id, row.priority);
            }
        }
        slots
    }

    /// Gives a slot to one that has it already, or for which there is one.
    fn enter(&mut self, id: String, priority: Priority) {
        let run = RunId::random();
        // Where there are more than there may be, whoever was there first has the slots.
        if !self.is_full() && self.tracker.acquire(run.clone(), priority).is_ok() {
            self.active.push((run, id));
        }
    }

    fn is_full(&self) -> bool {
        self.tracker.active() >= self.limits.agents_max
    }

    /// Lets those go on for which there is a slot: the most important first, of several the oldest.
    pub(crate) fn resume(&mut self) -> Vec<String> {
        // It is stable, so the oldest stays first.
        self.paused.sort_by_key(|row| std::cmp::Reverse(row.priority));
        let mut resumed = Vec::new();
        while !self.is_full() && !self.paused.is_empty() {
            let row = self.paused.remove(0);
            resumed.push(row.id.clone());
            self.enter(row.id, row.priority);
        }
        resumed
    }

    /// Takes a slot for one more, and says who is paused for it.
    pub(crate) fn admit(&mut self, priority: Priority) -> Result<Option<String>, SpawnRefused> {
        let (active, agents_max) = (self.tracker.active(), self.limits.agents_max);
        if self.open >= agents_max.saturating_sub(1).saturating_mul(OPEN_FACTOR_MAX) {
            return Err(SpawnRefused { active, agents_max });
        }
        let spawned = self.tracker.acquire(RunId::random(), priority)?;
        let is_victim = |(run, _): &&(RunId, String)| Some(run) == spawned.paused.as_ref();
        Ok(self.active.iter().find(is_victim).map(|(_, id)| id.clone()))
    }
}

/// The priority of this number; one that is not known is normal.
pub(crate) fn priority_of(number: i64) -> Priority {
    let known = [Priority::Background, Priority::Low, Priority::High, Priority::Critical];
    known.into_iter().find(|known| *known as i64 == number).unwrap_or_default()
}

#[cfg(test)]
mod tests;
