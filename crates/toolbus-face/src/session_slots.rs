//! Room for the sessions of one path.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::limits::SESSIONS_MAX;

/// Counts sessions that are about to begin, so that many at once do not all find the last room
/// free. Clones count together.
#[derive(Clone, Default)]
pub(crate) struct SessionSlots {
    starting: Arc<AtomicUsize>,
}

/// Room for one session, until it is among the open ones.
pub(crate) struct SessionSlot {
    starting: Arc<AtomicUsize>,
}

impl SessionSlots {
    /// Room for one more session beside the `open` ones; `None` when there is none.
    pub(crate) fn try_reserve(&self, open: usize) -> Option<SessionSlot> {
        let slot = SessionSlot { starting: Arc::clone(&self.starting) };
        let starting = self.starting.fetch_add(1, Ordering::AcqRel);
        (open + starting < SESSIONS_MAX).then_some(slot)
    }
}

impl Drop for SessionSlot {
    fn drop(&mut self) {
        self.starting.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests;
