//! Waiting longer after each failure in a row, and never in step with others.

use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

/// The first wait.
const FIRST_BACKOFF: Duration = Duration::from_millis(100);
/// The longest wait, before the jitter.
const BACKOFF_MAX: Duration = Duration::from_secs(5);
/// How long a connection must hold for its end to count as the first failure again.
const STABLE_GRACE: Duration = Duration::from_secs(10);

/// Waits of 0.1 s, doubling to 5 s, each with up to a quarter more or less, so that a fleet that
/// lost its broker does not come back in one moment.
///
/// Where there are several to try, only the wait after a round that failed with each of them is
/// longer than the first.
#[derive(Debug)]
pub(crate) struct Backoff {
    failures: u32,
    failures_per_round: u32,
}

impl Default for Backoff {
    fn default() -> Self {
        Self::with_rounds_of(1)
    }
}

impl Backoff {
    /// For `count` to try in turn.
    pub(crate) fn with_rounds_of(count: usize) -> Self {
        let failures_per_round = u32::try_from(count).unwrap_or(u32::MAX).max(1);
        Self { failures: 0, failures_per_round }
    }

    /// How long to wait after one more failure.
    pub(crate) fn next(&mut self) -> Duration {
        self.failures = self.failures.saturating_add(1);
        let is_round_over = self.failures.is_multiple_of(self.failures_per_round);
        let doublings = if is_round_over { self.failures / self.failures_per_round - 1 } else { 0 };
        let wait = FIRST_BACKOFF.saturating_mul(2_u32.saturating_pow(doublings)).min(BACKOFF_MAX);
        wait.mul_f64(0.75 + 0.5 * random_fraction())
    }

    /// Notes how long something worked before it failed.
    pub(crate) fn note_uptime(&mut self, time: Duration) {
        if time >= STABLE_GRACE {
            self.failures = 0;
        }
    }
}

/// A number below `count`, which must not be 0.
pub(crate) fn random_below(count: usize) -> usize {
    let bits = RandomState::new().hash_one(());
    usize::try_from(bits >> 32).unwrap_or_default() % count
}

/// A number from 0 to 1. The standard library gives each of its hashers a new seed, which is random
/// enough to spread reconnects and saves a dependency.
fn random_fraction() -> f64 {
    let bits = RandomState::new().hash_one(());
    f64::from(u32::try_from(bits >> 32).unwrap_or(u32::MAX)) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests;
