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
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// How long to wait after one more failure.
    pub(crate) fn next(&mut self) -> Duration {
        let wait =
            FIRST_BACKOFF.saturating_mul(2_u32.saturating_pow(self.failures)).min(BACKOFF_MAX);
        self.failures = self.failures.saturating_add(1);
        wait.mul_f64(0.75 + 0.5 * random_fraction())
    }

    /// Notes how long something worked before it failed.
    pub(crate) fn note_uptime(&mut self, time: Duration) {
        if time >= STABLE_GRACE {
            self.failures = 0;
        }
    }
}

/// A number from 0 to 1. The standard library gives each of its hashers a new seed, which is random
/// enough to spread reconnects and saves a dependency.
fn random_fraction() -> f64 {
    let bits = RandomState::new().hash_one(());
    f64::from(u32::try_from(bits >> 32).unwrap_or(u32::MAX)) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests;
