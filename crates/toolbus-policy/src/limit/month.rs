//! Counts by the months of the calendar, in UTC. They are in memory: a process that starts again
//! counts from nothing.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;

use super::buckets::{BUCKETS_MAX, BucketKey};

const SECONDS_A_DAY: u64 = 24 * 60 * 60;

/// The counts of the current month.
#[derive(Default)]
pub(super) struct MonthCounts {
    counts: Mutex<Counts>,
}

#[derive(Default)]
struct Counts {
    month: Month,
    by_key: HashMap<BucketKey, u32>,
    /// The one that all share who have found no room.
    shared: u32,
}

/// A month, by its number since the year 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
struct Month(u64);

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
        let month = Month::of(since_epoch);
        let mut counts = self.counts.lock();
        if month > counts.month {
            *counts = Counts { month, ..Counts::default() };
        }

        let Counts { month, by_key, shared } = &mut *counts;
        let has_room = by_key.len() < BUCKETS_MAX || by_key.contains_key(&key);
        let count = if has_room { by_key.entry(key).or_default() } else { shared };
        if *count >= calls_max {
            return Err(month.wait_for_end(since_epoch));
        }
        *count += 1;
        Ok(())
    }
}

impl Month {
    /// The month of a time since 1970.
    ///
    /// By days since the first of March of the year 0: so the day that leap years have more is the
    /// last one of a year, and months before it have 153 days in every five.
    fn of(since_epoch: Duration) -> Self {
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
