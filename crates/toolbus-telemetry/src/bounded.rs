//! Attribute values whose number is bounded.

use std::collections::HashSet;
use std::sync::Arc;

use opentelemetry::StringValue;
use parking_lot::RwLock;

/// What stands for every value past the bound.
pub const OTHER: &str = "other";
/// Longest value that is taken, in bytes; names of agents, servers and tools are far shorter.
const VALUE_BYTES_MAX: usize = 128;

/// Values of one attribute that come from outside: the first `max` of them are told apart, the rest
/// are [`OTHER`].
///
/// A value is kept for as long as this is, so giving one that is known copies no text.
#[derive(Debug)]
pub struct Bounded {
    max: usize,
    known: RwLock<HashSet<Arc<str>>>,
}

impl Bounded {
    /// Tells this many values apart.
    #[must_use]
    pub fn new(max: usize) -> Self {
        Self { max, known: RwLock::default() }
    }

    /// The value, or [`OTHER`] when there are too many or it is too long.
    #[must_use]
    pub fn value(&self, text: &str) -> StringValue {
        if let Some(known) = self.known.read().get(text) {
            return Arc::clone(known).into();
        }
        if text.len() > VALUE_BYTES_MAX {
            return OTHER.into();
        }

        let mut all = self.known.write();
        if let Some(known) = all.get(text) {
            return Arc::clone(known).into();
        }
        if all.len() >= self.max {
            return OTHER.into();
        }

        let new: Arc<str> = text.into();
        all.insert(Arc::clone(&new));
        new.into()
    }
}

#[cfg(test)]
mod tests;
