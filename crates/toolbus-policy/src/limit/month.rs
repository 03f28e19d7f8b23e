//! Counts by the months of the calendar, in UTC. They are in memory; what is to outlive the process
//! is taken from here and given back by [`crate::months`].

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;

use super::buckets::{BUCKETS_MAX, BucketKey};

const SECONDS_A_DAY: u64 = 24 * 60 * 60;

/// The counts of the current month.
#[derive(Default)]
pub(crate) struct MonthCounts {
    counts: Mutex<Counts>,
}

#[derive(Default)]
struct Counts {
    month: Month,
    by_key: HashMap<BucketKey, Count>,
    /// What was counted elsewhere or before, by the texts of keys that have not been seen here.
    restored: HashMap<String, u32>,
    /// The one that all share who have found no room.
    shared: Count,
}

#[derive(Debug, Clone, Copy, Default)]
struct Count {
    /// All that is known of, those below included.
    calls: u32,
    /// Those that nobody has taken from here.
    unsaved: u32,
}

/// A month, by its number since the year 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Month(u64);

/// Calls that were counted here and are kept nowhere else yet.
#[derive(Debug, Clone)]
pub(crate) struct Unsaved {
    pub(crate) month: Month,
    pub(crate) key: BucketKey,
    pub(crate) calls: u32,
}

impl MonthCounts {
    /// Counts a call, or says how long it is until the month ends. A clock that goes back to an
    /// earlier month frees nobody.
    pub(super) fn charge(
        &self,
        key: BucketKey,
        calls_max: u32,
        now: SystemTime,
    ) -> Result<(), Duration> {
        let since_epoch = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let mut counts = self.counts.lock();
        counts.turn_to(Month::of(since_epoch));

        let Counts { month, by_key, restored, shared } = &mut *counts;
        let has_room = by_key.len() < BUCKETS_MAX || by_key.contains_key(&key);
        let count = if has_room {
            by_key.entry(key).or_insert_with_key(|key| {
                let calls = restored.remove(&key.text()).unwrap_or_default();
                Count { calls, unsaved: 0 }
            })
        } else {
            shared
        };
        if count.calls >= calls_max {
            return Err(month.wait_for_end(since_epoch));
        }
        count.calls += 1;
        count.unsaved += 1;
        Ok(())
    }

    /// Takes what was counted since the last time, but for the count that many share.
    pub(crate) fn take_unsaved(&self) -> Vec<Unsaved> {
        let mut counts = self.counts.lock();
        let month = counts.month;
        let changed = counts.by_key.iter_mut().filter(|(_, count)| count.unsaved > 0);
        let take = |(key, count): (&BucketKey, &mut Count)| {
            let calls = std::mem::take(&mut count.unsaved);
            Unsaved { month, key: key.clone(), calls }
        };
        changed.map(take).collect()
    }

    /// What was taken is kept, and with what others have counted it is so many.
    pub(crate) fn saved(&self, taken: &Unsaved, total: u32) {
        self.with_count(taken, |count| count.calls = total.saturating_add(count.unsaved));
    }

    /// What was taken could not be kept, and is to be taken again.
    pub(crate) fn give_back(&self, taken: &Unsaved) {
        self.with_count(taken, |count| count.unsaved = count.unsaved.saturating_add(taken.calls));
    }

    /// So many were counted elsewhere or before.
    pub(crate) fn restore(&self, month: Month, key: String, calls: u32) {
        let mut counts = self.counts.lock();
        counts.turn_to(month);
        let is_known = counts.by_key.keys().any(|known| known.text() == key);
        if month == counts.month && !is_known && counts.restored.len() < BUCKETS_MAX {
            counts.restored.insert(key, calls);
        }
    }

    fn with_count(&self, taken: &Unsaved, change: impl FnOnce(&mut Count)) {
        let mut counts = self.counts.lock();
        if taken.month == counts.month
            && let Some(count) = counts.by_key.get_mut(&taken.key)
        {
            change(count);
        }
    }
}

impl Counts {
    /// Begins to count anew where that is a later month.
    fn turn_to(&mut self, month: Month) {
        if month > self.month {
            *self = Self { month, ..Self::default() };
        }
    }
}

impl Month {
    /// Its number.
    pub(crate) fn number(self) -> u64 {
        self.0
    }

    /// The month of this number.
    pub(crate) fn of_number(number: u64) -> Self {
        Self(number)
    }

    /// The month of a time since 1970.
    ///
    /// By days since the first of March of the year 0: so the day that leap years have more is the
    /// last one of a year, and months before it have 153 days in every five.
    pub(crate) fn of(since_epoch: Duration) -> Self {
        const DAYS_BEFORE_1970: u64 = 719_468;
        const DAYS_IN_400_YEARS: u64 = 146_097;

        let day = since_epoch.as_secs() / SECONDS_A_DAY + DAYS_BEFORE_1970;
        let day_of_era = day % DAYS_IN_400_YEARS;
        let leap_days = day_of_era / 1_460 - day_of_era / 36_524 + day_of_era / 146_096;
        let year_of_era = (day_of_era - leap_days) / 365;
        let first_of_year = 365 * year_of_era + year_of_era / 4 - year_of_era / 100;
        let month_from_march = (5 * (day_of_era - first_of_year) + 2) / 153;

        let year = day / DAYS_IN_400_YEARS * 400 + year_of_era;
        Self(year * 12 + month_from_march + 2)
    }

    /// How long it is until another month begins. A clock that went back is in an earlier month,
    /// and is waited for no longer than two of them.
    fn wait_for_end(self, now: Duration) -> Duration {
        const DAYS_MAX: u64 = 62;

        let today = now.as_secs() / SECONDS_A_DAY;
        let midnights = (today + 1..=today + DAYS_MAX).map(|day| day * SECONDS_A_DAY);
        let mut ends = midnights.map(Duration::from_secs).filter(|end| Self::of(*end) > self);
        let end = ends.next().unwrap_or(now + Duration::from_secs(DAYS_MAX * SECONDS_A_DAY));
        end.saturating_sub(now)
    }
}

#[cfg(test)]
mod tests;
