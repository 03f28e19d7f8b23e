//! The bound on sessions of one path, also while they start.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::limits::SESSIONS_MAX;

/// Counts sessions that are starting, so that many at once do not all take the last free place.
/// Clones count together.
#[derive(Clone, Default)]
pub(crate) struct SessionLimit {
    starting: Arc<AtomicUsize>,
}

/// The place of one session, until it is among the open ones.
pub(crate) struct SessionReservation {
    starting: Arc<AtomicUsize>,
}

impl SessionLimit {
    /// Reserves a place for one more session beside the `open` ones; `None` when there is none.
    pub(crate) fn try_reserve(&self, open: usize) -> Option<SessionReservation> {
        let reservation = SessionReservation { starting: Arc::clone(&self.starting) };
        let starting = self.starting.fetch_add(1, Ordering::AcqRel);
        (open + starting < SESSIONS_MAX).then_some(reservation)
    }
}

impl Drop for SessionReservation {
    fn drop(&mut self) {
        self.starting.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests;
