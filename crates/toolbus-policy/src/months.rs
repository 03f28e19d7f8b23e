//! What limits by the month have counted, for whoever keeps it beyond the process.
//!
//! Calls are counted in memory. From time to time what is new is taken, added to what is kept, and
//! the sum is given back: so several processes share one count, each of which is behind the others
//! by as long as that takes.

use std::time::Duration;

use crate::LivePolicy;
use crate::limit::month::{Month, Unsaved};

/// Calls of one count that are not kept yet.
#[derive(Debug, Clone)]
pub struct UnsavedCalls {
    limit: String,
    unsaved: Unsaved,
}

impl UnsavedCalls {
    /// The name of the limit.
    #[must_use]
    pub fn limit(&self) -> &str {
        &self.limit
    }

    /// What the count is of, as a text that no other count of the limit has.
    #[must_use]
    pub fn key(&self) -> String {
        self.unsaved.key.text()
    }

    /// The number of the month, since the year 0.
    #[must_use]
    pub fn month(&self) -> u64 {
        self.unsaved.month.number()
    }

    /// How many there are.
    #[must_use]
    pub fn calls(&self) -> u32 {
        self.unsaved.calls
    }
}

/// The number of the month of this time since 1970, in UTC.
#[must_use]
pub fn month_of(since_epoch: Duration) -> u64 {
    Month::of(since_epoch).number()
}

impl LivePolicy {
    /// Whether the book has a limit by the month.
    #[must_use]
    pub fn has_month_limits(&self) -> bool {
        self.book().limits.iter().any(|limit| limit.month_counts().is_some())
    }

    /// Takes the calls that were counted since the last time. Each is to be handed to
    /// [`saved`](LivePolicy::saved) or [`not_saved`](LivePolicy::not_saved).
    #[must_use]
    pub fn take_unsaved(&self) -> Vec<UnsavedCalls> {
        let book = self.book();
        let counts = book.limits.iter().filter_map(|limit| Some((limit, limit.month_counts()?)));
        let unsaved = counts.flat_map(|(limit, counts)| {
            let of_limit = move |unsaved| UnsavedCalls { limit: limit.name().to_owned(), unsaved };
            counts.take_unsaved().into_iter().map(of_limit)
        });
        unsaved.collect()
    }

    /// These are kept, and with what was kept before they are so many.
    pub fn saved(&self, calls: &UnsavedCalls, total: u32) {
        self.with_limit(&calls.limit, |counts| counts.saved(&calls.unsaved, total));
    }

    /// These could not be kept.
    pub fn not_saved(&self, calls: &UnsavedCalls) {
        self.with_limit(&calls.limit, |counts| counts.give_back(&calls.unsaved));
    }

    /// So many calls of this limit and key were counted in this month before. Those of a key that
    /// has been counted here are known better.
    pub fn restore(&self, limit: &str, key: &str, month: u64, calls: u32) {
        self.with_limit(limit, |counts| {
            counts.restore(Month::of_number(month), key.to_owned(), calls);
        });
    }

    fn with_limit(&self, name: &str, work: impl FnOnce(&crate::limit::month::MonthCounts)) {
        let book = self.book();
        let limit = book.limits.iter().find(|limit| limit.name() == name);
        if let Some(counts) = limit.and_then(|limit| limit.month_counts()) {
            work(counts);
        }
    }
}

#[cfg(test)]
mod tests;
