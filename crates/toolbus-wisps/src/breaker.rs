//! The circuit breaker: no more wisps are started for an owner whose wisps keep failing.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::WispsConfig;
use crate::error::Error;

/// Most owners whose failures are remembered.
const OWNERS_MAX: usize = 1_000;

/// Counts failures of each owner.
#[derive(Debug)]
pub(crate) struct Breaker {
    failures_max: usize,
    interval: Duration,
    owners: Mutex<HashMap<String, VecDeque<Instant>>>,
}

impl Breaker {
    pub(crate) fn new(config: &WispsConfig) -> Self {
        Self {
            failures_max: config.failures_max,
            interval: config.failures_interval,
            owners: Mutex::default(),
        }
    }

    /// Whether wisps of this owner may be started now.
    pub(crate) fn check(&self, owner: &str) -> Result<(), Error> {
        let now = Instant::now();
        let mut owners = self.owners.lock();
        let Some(failures) = owners.get_mut(owner) else { return Ok(()) };
        self.forget_old(failures, now);
        let count = failures.len();
        if count < self.failures_max {
            return Ok(());
        }

        // As many have to be forgotten as are too many.
        let last_to_go = failures.get(count - self.failures_max);
        let retry_after = last_to_go.map_or(self.interval, |at| *at + self.interval - now);
        Err(Error::BreakerOpen {
            failures: count,
            minutes: self.interval.as_secs().div_ceil(60),
            retry_after,
        })
    }

    /// Counts wisps that have failed.
    pub(crate) fn count(&self, owner: &str, failed: usize) {
        if failed == 0 {
            return;
        }
        let now = Instant::now();
        let mut owners = self.owners.lock();
        if owners.len() >= OWNERS_MAX && !owners.contains_key(owner) {
            self.make_room(&mut owners, now);
        }

        let failures = owners.entry(owner.to_owned()).or_default();
        failures.extend(std::iter::repeat_n(now, failed.min(self.failures_max)));
        self.forget_old(failures, now);
        let too_many = failures.len().saturating_sub(self.failures_max);
        failures.drain(..too_many);
    }

    fn forget_old(&self, failures: &mut VecDeque<Instant>, now: Instant) {
        while failures.front().is_some_and(|at| now.duration_since(*at) >= self.interval) {
            failures.pop_front();
        }
    }

    /// Forgets owners without failures, or else the one whose last failure is the oldest.
    fn make_room(&self, owners: &mut HashMap<String, VecDeque<Instant>>, now: Instant) {
        owners.retain(|_, failures| {
            self.forget_old(failures, now);
            !failures.is_empty()
        });
        if owners.len() < OWNERS_MAX {
            return;
        }
        let oldest = owners.iter().min_by_key(|(_, failures)| failures.back().copied());
        if let Some(owner) = oldest.map(|(owner, _)| owner.clone()) {
            owners.remove(&owner);
        }
    }
}

#[cfg(test)]
mod tests;
