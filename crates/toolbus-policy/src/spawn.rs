//! How many agents one run may have at a time, and who makes room for whom.
//!
//! The agent that a run begins with holds the first slot for good. An agent that is paused holds
//! none, so it is never paused a second time, and its end frees nothing.

use std::collections::BTreeMap;

use toolbus_tools::id::RunId;

/// What bounds the agents of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpawnLimits {
    /// How many may be active at a time, with the one that the run begins with.
    pub agents_max: usize,
    /// Whether an agent of high priority may have one of lower priority paused.
    pub may_pause: bool,
}

impl Default for SpawnLimits {
    fn default() -> Self {
        Self { agents_max: 50, may_pause: true }
    }
}

/// How much an agent matters, from the least to the most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Priority {
    /// Whenever there is nothing else.
    Background = 0,
    /// Less than others.
    Low = 1,
    /// As others.
    #[default]
    Normal = 2,
    /// More than others: it may take the slot of one that matters less.
    High = 4,
    /// More than all others.
    Critical = 8,
}

/// Counts the agents of one run.
#[derive(Debug)]
pub struct SpawnTracker {
    limits: SpawnLimits,
    agents: BTreeMap<u64, Agent>,
    next: u64,
}

#[derive(Debug)]
struct Agent {
    run: RunId,
    priority: Priority,
    is_paused: bool,
}

/// An agent may start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spawned {
    /// The one that is paused for it.
    pub paused: Option<RunId>,
}

/// An agent may not start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{active} agents are active of {agents_max}, and none of them makes room for this one")]
pub struct SpawnRefused {
    /// How many are active.
    pub active: usize,
    /// How many may be.
    pub agents_max: usize,
}

impl SpawnTracker {
    /// Of a run that has begun.
    #[must_use]
    pub fn new(limits: SpawnLimits) -> Self {
        Self { limits, agents: BTreeMap::new(), next: 0 }
    }

    /// How many agents are active, with the one that the run began with.
    #[must_use]
    pub fn active(&self) -> usize {
        1 + self.agents.values().filter(|agent| !agent.is_paused).count()
    }

    /// Takes a slot for an agent. Where all are taken, one of high or critical priority has the
    /// agent paused that matters least, of those that matter less than itself; of several, the
    /// latest. An agent that is there already keeps what it has.
    ///
    /// # Errors
    /// When there is no slot.
    pub fn acquire(&mut self, run: RunId, priority: Priority) -> Result<Spawned, SpawnRefused> {
        if self.find(&run).is_some() {
            return Ok(Spawned { paused: None });
        }

        let mut paused = None;
        if self.is_full() {
            let refused =
                SpawnRefused { active: self.active(), agents_max: self.limits.agents_max };
            let victim = self.choose_victim(priority).ok_or(refused)?;
            victim.is_paused = true;
            paused = Some(victim.run.clone());
        }

        self.agents.insert(self.next, Agent { run, priority, is_paused: false });
        self.next += 1;
        Ok(Spawned { paused })
    }

    /// Ends an agent. One that is paused frees no slot, and one that is not there nothing.
    pub fn release(&mut self, run: &RunId) {
        self.agents.retain(|_, agent| agent.run != *run);
    }

    /// Gives an agent another priority, and answers whether it is active then. Below normal it is
    /// paused where all slots are taken. From normal on it goes on, as soon as there is a slot for
    /// it. One that is not there is not active.
    pub fn reprioritize(&mut self, run: &RunId, priority: Priority) -> bool {
        let is_full = self.is_full();
        let Some(agent) = self.find(run) else { return false };

        agent.priority = priority;
        if priority < Priority::Normal {
            agent.is_paused |= is_full;
        } else if !is_full {
            agent.is_paused = false;
        }
        !agent.is_paused
    }

    /// Whether an agent is paused.
    #[must_use]
    pub fn is_paused(&self, run: &RunId) -> bool {
        self.agents.values().any(|agent| agent.run == *run && agent.is_paused)
    }

    fn is_full(&self) -> bool {
        self.active() >= self.limits.agents_max
    }

    fn find(&mut self, run: &RunId) -> Option<&mut Agent> {
        self.agents.values_mut().find(|agent| agent.run == *run)
    }

    fn choose_victim(&mut self, priority: Priority) -> Option<&mut Agent> {
        if !self.limits.may_pause || priority <= Priority::Normal {
            return None;
        }
        let active = self.agents.values_mut().rev().filter(|agent| !agent.is_paused);
        active.filter(|agent| agent.priority < priority).min_by_key(|agent| agent.priority)
    }
}

#[cfg(test)]
mod tests;
