//! Statistics of tools: counts that add up, whoever has counted them, and what follows from them.

use crate::ledger::Totals;

/// Upper bounds of how long calls took, in milliseconds; the last bucket has no bound.
pub(crate) const BUCKET_BOUNDS_MS: [u32; BUCKETS - 1] = [
    1, 2, 5, 10, 20, 50, 100, 200, 350, 500, 750, 1_000, 1_500, 2_000, 3_000, 4_000, 5_000, 7_500,
    10_000, 15_000, 30_000, 60_000, 120_000,
];
/// How many buckets there are.
pub(crate) const BUCKETS: usize = 24;
/// Longest time that is told apart from longer ones, in milliseconds.
const LONGEST_MS: f64 = 300_000.0;

/// One use in full, as it is counted.
pub(crate) const WEIGHT_UNIT: u64 = 1_000_000;
/// So many uses of one principal count in full; each that follows counts less.
const FULL_USES: u64 = 5;

/// What is counted of a tool. Every count adds up.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Statistics {
    /// Calls that succeeded.
    pub(crate) successes: u64,
    /// Calls that failed by the tool.
    pub(crate) failures: u64,
    /// Calls that took too long.
    pub(crate) timeouts: u64,
    /// Calls whose provider was not there.
    pub(crate) unavailable: u64,
    /// Successful calls, those of one principal with less and less weight, in [`WEIGHT_UNIT`]s.
    pub(crate) weight: u64,
    /// How long calls took.
    pub(crate) durations: [u64; BUCKETS],
    /// When the tool was used last, in milliseconds of Unix time.
    pub(crate) last_used_ms: i64,
}

/// What a use counts of a principal who has used the tool so often already.
pub(crate) fn use_weight(uses_before: u64) -> u64 {
    match uses_before.checked_sub(FULL_USES) {
        None => WEIGHT_UNIT,
        Some(more) => WEIGHT_UNIT / (more + 2),
    }
}

impl Statistics {
    /// Counts a call that took so long.
    pub(crate) fn add_duration(&mut self, ms: u64) {
        let bucket = BUCKET_BOUNDS_MS.iter().position(|bound| ms <= u64::from(*bound));
        self.durations[bucket.unwrap_or(BUCKETS - 1)] += 1;
    }

    /// Calls that say something of the tool.
    pub(crate) fn runs(&self) -> u64 {
        self.successes + self.errors()
    }

    /// Calls that failed, of those that ran.
    pub(crate) fn errors(&self) -> u64 {
        self.failures + self.timeouts
    }

    pub(crate) fn success_rate(&self) -> f64 {
        rate(self.successes, self.runs()).unwrap_or_default()
    }

    pub(crate) fn error_rate(&self) -> f64 {
        rate(self.errors(), self.runs()).unwrap_or_default()
    }

    /// How many of the calls found the provider there.
    pub(crate) fn uptime(&self) -> f64 {
        rate(self.runs(), self.runs() + self.unavailable).unwrap_or(1.0)
    }

    /// Successful uses, as they count.
    pub(crate) fn weight(&self) -> f64 {
        self.weight as f64 / WEIGHT_UNIT as f64
    }

    pub(crate) fn p50_ms(&self) -> Option<f64> {
        self.percentile_ms(0.50)
    }

    pub(crate) fn p99_ms(&self) -> Option<f64> {
        self.percentile_ms(0.99)
    }

    /// How long calls took at most, but for the slowest; within a bucket it is interpolated.
    fn percentile_ms(&self, share: f64) -> Option<f64> {
        let all: u64 = self.durations.iter().sum();
        let wanted = share * all as f64;
        let mut below = 0;
        for (bucket, count) in self.durations.iter().enumerate().filter(|(_, count)| **count > 0) {
            if (below + count) as f64 >= wanted {
                let lower = bucket.checked_sub(1).map_or(0.0, |at| f64::from(BUCKET_BOUNDS_MS[at]));
                let upper = BUCKET_BOUNDS_MS.get(bucket).map_or(LONGEST_MS, |ms| f64::from(*ms));
                let within = (wanted - below as f64) / *count as f64;
                return Some(lower + (upper - lower) * within.clamp(0.0, 1.0));
            }
            below += count;
        }
        None
    }
}

impl Totals for Statistics {
    fn add(&mut self, other: &Self) {
        self.successes += other.successes;
        self.failures += other.failures;
        self.timeouts += other.timeouts;
        self.unavailable += other.unavailable;
        self.weight += other.weight;
        self.last_used_ms = self.last_used_ms.max(other.last_used_ms);
        self.durations.iter_mut().zip(other.durations).for_each(|(own, more)| *own += more);
    }

    fn is_empty(&self) -> bool {
        self.runs() + self.unavailable == 0
    }

    fn rank(&self) -> (u64, i64) {
        (self.weight, self.last_used_ms)
    }
}

fn rate(part: u64, all: u64) -> Option<f64> {
    (all > 0).then(|| part as f64 / all as f64)
}

#[cfg(test)]
mod tests;
