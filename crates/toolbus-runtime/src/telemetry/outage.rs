//! Which signals are not exported, and what is to be said of it: an outage is reported once,
//! however many signals it stops and however long it takes, and once more when it is over.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// A collector that comes and goes is warned about this often at most.
const WARNING_INTERVAL: Duration = Duration::from_secs(300);
/// Most causes whose last warning is remembered.
const CAUSES_MAX: usize = 16;

/// The outages of all signals.
#[derive(Debug, Default)]
pub(super) struct Outages(Mutex<OutageState>);

#[derive(Debug, Default)]
struct OutageState {
    /// Why each signal is not exported that is not.
    failing: BTreeMap<&'static str, String>,
    /// When each cause was warned about last.
    warned: HashMap<String, Instant>,
    /// Causes of outages that were reported and are not over.
    reported: HashSet<String>,
}

impl Outages {
    /// A request of a signal failed. Whether to warn: not when this signal, or another, is known to
    /// fail for the same cause.
    pub(super) fn record_failure(&self, signal: &'static str, cause: &str) -> bool {
        let mut state = self.0.lock();
        let is_known = state.failing.values().any(|known| known == cause);
        state.failing.insert(signal, cause.to_owned());
        let was_warned = |at: &Instant| at.elapsed() < WARNING_INTERVAL;

        if is_known || state.warned.get(cause).is_some_and(was_warned) {
            return false;
        }

        if state.warned.len() >= CAUSES_MAX {
            state.warned.clear();
        }

        state.warned.insert(cause.to_owned(), Instant::now());
        state.reported.insert(cause.to_owned())
    }

    /// A request of a signal went well. Whether to tell that an outage is over.
    pub(super) fn record_success(&self, signal: &'static str) -> bool {
        let mut state = self.0.lock();
        let Some(cause) = state.failing.remove(signal) else { return false };
        let is_over = !state.failing.values().any(|other| *other == cause);
        is_over && state.reported.remove(&cause)
    }
}

#[cfg(test)]
mod tests;
