//! How many requests wait at a time. A client that does not read keeps its own places at most, and
//! those no longer than its request may wait.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::Instant;

/// The places of requests that wait.
pub(super) struct Places {
    all_max: usize,
    client_max: usize,
    taken: Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    next: u64,
    is_closed: bool,
    by_number: HashMap<u64, Waiting>,
}

struct Waiting {
    caller: String,
    until: Instant,
}

/// A place, until it is dropped.
pub(super) struct Place {
    places: Arc<Places>,
    number: u64,
}

/// Why there is no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoPlace {
    #[error("the agent is about to stop")]
    Stopping,
    #[error("{0} requests of this client wait for tasks, and that is the limit")]
    OfClient(usize),
    #[error("{0} requests wait for tasks, and that is the limit")]
    OfAll(usize),
}

impl Places {
    pub(super) fn new(all_max: usize, client_max: usize) -> Self {
        Self { all_max, client_max, taken: Mutex::default() }
    }

    /// Gives nobody a place any more.
    pub(super) fn close(&self) {
        self.taken.lock().is_closed = true;
    }

    pub(super) fn is_closed(&self) -> bool {
        self.taken.lock().is_closed
    }

    /// A place until then, whether it is given back or not.
    pub(super) fn take(self: &Arc<Self>, caller: &str, until: Instant) -> Result<Place, NoPlace> {
        let now = Instant::now();
        let mut taken = self.taken.lock();
        if taken.is_closed {
            return Err(NoPlace::Stopping);
        }
        taken.by_number.retain(|_, waiting| waiting.until > now);
        let of_client = taken.by_number.values().filter(|waiting| waiting.caller == caller).count();
        if of_client >= self.client_max {
            return Err(NoPlace::OfClient(self.client_max));
        }
        if taken.by_number.len() >= self.all_max {
            return Err(NoPlace::OfAll(self.all_max));
        }

        let number = taken.next;
        taken.next += 1;
        taken.by_number.insert(number, Waiting { caller: caller.to_owned(), until });
        Ok(Place { places: Arc::clone(self), number })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.taken.lock().by_number.remove(&self.number);
    }
}

#[cfg(test)]
mod tests;
