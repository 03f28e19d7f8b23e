//! How much of a bridge one server may take. Each kind of request has places of its own on each
//! server, fewer than the bridge has; whoever finds none is told at once that the server is busy. So
//! a server that never answers keeps only its own callers waiting.

use tokio::sync::{Semaphore, SemaphorePermit, TryAcquireError};

use super::call::Budget;
use super::*;

/// Prompts, resources and completions that are asked of one server at a time.
pub(crate) const LOOKUPS_PER_SERVER_MAX: u16 = 32;
/// Subscriptions of resources of one server that hold at a time.
pub(crate) const SUBSCRIPTIONS_PER_SERVER_MAX: u16 = 128;

/// The places for requests of one kind.
pub(super) struct Places {
    free: Semaphore,
    count: usize,
}

impl Places {
    pub(super) fn new(count: impl Into<usize>) -> Self {
        let count = count.into();
        Self { free: Semaphore::new(count), count }
    }

    /// Gives none any more.
    pub(super) fn close(&self) {
        self.free.close();
    }

    pub(super) fn are_closed(&self) -> bool {
        self.free.is_closed()
    }
}

impl Server {
    /// One of these places, until it is dropped.
    pub(super) fn place<'a>(
        &self,
        places: &'a Places,
        call: &Call,
        budget: Budget,
    ) -> Result<SemaphorePermit<'a>, CallError> {
        places.free.try_acquire().map_err(|error| match error {
            TryAcquireError::NoPermits => {
                CallError::Busy { server: self.name(), running: places.count }
            }
            TryAcquireError::Closed => self.error(call, closed(), budget),
        })
    }
}
