//! How often something is tried again for an agent.

use std::collections::HashMap;

use toolbus_tools::id::RunId;

/// Counts the retries of each agent of a run. Whoever ends an agent resets it, which forgets it.
#[derive(Debug)]
pub struct RetryPolicy {
    retries_max: u32,
    used: HashMap<RunId, u32>,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self::new(3)
    }
}

impl RetryPolicy {
    /// So many retries for each agent.
    #[must_use]
    pub fn new(retries_max: u32) -> Self {
        Self { retries_max, used: HashMap::new() }
    }

    /// Whether to try again; that it will is counted.
    pub fn try_again(&mut self, agent: &RunId) -> bool {
        if self.retries_max == 0 {
            return false;
        }

        let used = self.used.entry(agent.clone()).or_default();
        let may = *used < self.retries_max;
        if may {
            *used += 1;
        }
        may
    }

    /// Has an agent start over.
    pub fn reset(&mut self, agent: &RunId) {
        self.used.remove(agent);
    }
}

#[cfg(test)]
mod tests;
