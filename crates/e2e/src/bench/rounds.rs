//! Rounds of a measurement, and what is told of them.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// What several rounds of one measurement gave: a number for each round, and the tail of those that
/// are percentiles.
#[derive(Debug, Clone, Default)]
pub struct Rounds {
    values: Vec<f64>,
    tails: Vec<Tail>,
}

#[derive(Debug, Clone, Copy)]
struct Tail {
    p90: f64,
    p99: f64,
}

impl Rounds {
    /// No rounds yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a round that gave one number.
    pub fn add(&mut self, value: f64) {
        self.values.push(value);
    }

    /// Adds a round of latencies: its median counts, and its tail is kept beside it.
    pub fn add_latencies(&mut self, latencies: Latencies, unit: Duration) {
        let sorted = latencies.sorted();
        let at = |share: f64| percentile(&sorted, share).as_secs_f64() / unit.as_secs_f64();
        self.values.push(at(0.5));
        self.tails.push(Tail { p90: at(0.9), p99: at(0.99) });
    }

    /// How many rounds there were.
    #[must_use]
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there was no round.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The median over the rounds. Not a number when there was none.
    #[must_use]
    pub fn median(&self) -> f64 {
        median(self.values.iter().copied())
    }

    /// The smallest and the largest round.
    #[must_use]
    pub fn spread(&self) -> (f64, f64) {
        let fold = |pick: fn(f64, f64) -> f64| self.values.iter().copied().fold(f64::NAN, pick);
        (fold(f64::min), fold(f64::max))
    }

    /// Medians over the rounds of p90 and p99; `None` when the rounds were no latencies.
    #[must_use]
    pub fn tail(&self) -> Option<(f64, f64)> {
        let of = |pick: fn(&Tail) -> f64| median(self.tails.iter().map(pick));
        (!self.tails.is_empty()).then(|| (of(|tail| tail.p90), of(|tail| tail.p99)))
    }

    /// This measurement over another one, round by round. What happened to the machine in a round
    /// happened to both.
    #[must_use]
    pub fn over(&self, peer: &Self) -> Self {
        self.pairwise(peer, |ours, theirs| ours / theirs)
    }

    /// This measurement and another one after it, round by round.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        self.pairwise(other, |ours, theirs| ours + theirs)
    }

    /// How much more this measurement gave than another one, round by round.
    #[must_use]
    pub fn above(&self, peer: &Self) -> Self {
        self.pairwise(peer, |ours, theirs| ours - theirs)
    }

    fn pairwise(&self, peer: &Self, combine: fn(f64, f64) -> f64) -> Self {
        let pairs = self.values.iter().zip(&peer.values);
        Self {
            values: pairs.map(|(ours, theirs)| combine(*ours, *theirs)).collect(),
            tails: Vec::new(),
        }
    }
}

/// How long each operation of a round took.
#[derive(Debug, Clone, Default)]
pub struct Latencies(Vec<Duration>);

impl Latencies {
    /// Room for as many as a round has.
    #[must_use]
    pub fn with_capacity(count: usize) -> Self {
        Self(Vec::with_capacity(count))
    }

    /// Adds one.
    pub fn add(&mut self, took: Duration) {
        self.0.push(took);
    }

    /// Adds those of another.
    pub fn append(&mut self, mut other: Self) {
        self.0.append(&mut other.0);
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The smallest that at least this share of all do not exceed.
    #[must_use]
    pub fn percentile(&self, share: f64) -> Duration {
        percentile(&self.clone().sorted(), share)
    }

    fn sorted(mut self) -> Vec<Duration> {
        self.0.sort_unstable();
        self.0
    }
}

/// The time that this process has spent on processors so far, in all its threads. Unlike the clock
/// on the wall it does not go on while others use the machine.
#[must_use]
pub fn process_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    // Neither is ever negative, and there are fewer than 10^9 nanoseconds.
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        count if count % 2 == 1 => values[count / 2],
        count => f64::midpoint(values[count / 2 - 1], values[count / 2]),
    }
}

/// The nearest rank: the smallest value that at least this share of all do not exceed.
fn percentile(sorted: &[Duration], share: f64) -> Duration {
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests;
