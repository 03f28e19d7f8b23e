//! The resources that one session is subscribed to, and those that it is about to be.

use std::collections::HashMap;

use parking_lot::Mutex;

/// Resources that one client may be subscribed to.
pub(crate) const RESOURCES_MAX: usize = 64;

/// Subscriptions by URI. `S` ends its subscription when it is dropped.
pub(crate) struct ResourceSet<S> {
    state: Mutex<ResourceSetState<S>>,
}

struct ResourceSetState<S> {
    active: HashMap<String, S>,
    /// Requests that were made and have no answer, by a number of their own.
    starting: HashMap<u64, String>,
    next_number: u64,
}

/// A subscription that was asked for. It is given up when this is dropped.
pub(crate) struct StartingSubscription<'a, S> {
    set: &'a ResourceSet<S>,
    number: u64,
}

/// The client has as many subscriptions as it may.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooMany;

impl<S> Default for ResourceSet<S> {
    fn default() -> Self {
        let state =
            ResourceSetState { active: HashMap::new(), starting: HashMap::new(), next_number: 0 };
        Self { state: Mutex::new(state) }
    }
}

impl<S> ResourceSet<S> {
    /// Makes room for a subscription; `None` where there is one of this URI.
    ///
    /// # Errors
    /// When there is no room.
    pub(crate) fn begin(&self, uri: &str) -> Result<Option<StartingSubscription<'_, S>>, TooMany> {
        let mut state = self.state.lock();
        if state.active.contains_key(uri) {
            return Ok(None);
        }
        if state.active.len() + state.starting.len() >= RESOURCES_MAX {
            return Err(TooMany);
        }

        let number = state.next_number;
        state.next_number += 1;
        state.starting.insert(number, uri.to_owned());
        Ok(Some(StartingSubscription { set: self, number }))
    }

    /// Ends the subscription of this URI, and what is on its way to be one.
    pub(crate) fn remove(&self, uri: &str) {
        let mut state = self.state.lock();
        let ended = state.active.remove(uri);
        state.starting.retain(|_, starting| starting != uri);
        drop(state);

        drop(ended);
    }
}

impl<S> StartingSubscription<'_, S> {
    /// Keeps the subscription, unless the client has unsubscribed since it asked.
    pub(crate) fn finish(self, subscription: S) {
        let mut state = self.set.state.lock();
        let replaced = match state.starting.remove(&self.number) {
            Some(uri) => state.active.insert(uri, subscription),
            None => Some(subscription),
        };
        drop(state);

        drop(replaced);
    }
}

impl<S> Drop for StartingSubscription<'_, S> {
    fn drop(&mut self) {
        self.set.state.lock().starting.remove(&self.number);
    }
}

#[cfg(test)]
mod tests;
