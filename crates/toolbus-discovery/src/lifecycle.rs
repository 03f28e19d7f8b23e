//! The life of a tool: from its registration to disuse, which never takes it away.

use std::time::Duration;

/// How long nobody uses a tool that was used, before it is no longer recommended.
pub const UNUSED_INTERVAL: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// So many calls say whether a tool works at all.
const RUNS_MIN: u64 = 20;
/// A tool that succeeds less often than this is not recommended.
const SUCCESS_RATE_MIN: f64 = 0.5;

/// Where a tool is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Lifecycle {
    /// It is registered, and waits to be indexed.
    Registered,
    /// It can be found.
    Discoverable,
    /// It is used, and ranked by what is known of it.
    Optimized,
    /// It was used and is not any more, or fails more often than not. It is found all the same.
    NotRecommended,
}

/// What the state of a tool follows from.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct LifecycleFacts {
    /// Whether it is in the index.
    pub is_indexed: bool,
    /// How long ago it was used last. `None`: never, as far as is known.
    pub last_used: Option<Duration>,
    /// How many calls ran lately.
    pub runs: u64,
    /// How many of them succeeded, from 0 to 1.
    pub success_rate: f64,
}

impl Lifecycle {
    /// Every state.
    pub const ALL: [Self; 4] =
        [Self::Registered, Self::Discoverable, Self::Optimized, Self::NotRecommended];

    /// The state that follows from this.
    #[must_use]
    pub fn of(facts: &LifecycleFacts) -> Self {
        if !facts.is_indexed {
            return Self::Registered;
        }
        let Some(ago) = facts.last_used else { return Self::Discoverable };
        let fails = facts.runs >= RUNS_MIN && facts.success_rate < SUCCESS_RATE_MIN;
        if fails || ago >= UNUSED_INTERVAL { Self::NotRecommended } else { Self::Optimized }
    }

    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Registered => "registered",
            Self::Discoverable => "discoverable",
            Self::Optimized => "optimized",
            Self::NotRecommended => "available, not recommended",
        }
    }
}

#[cfg(test)]
mod tests;
