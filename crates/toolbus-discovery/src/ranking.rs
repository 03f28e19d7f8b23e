//! Ranking: from what is known of a tool to its score.
//!
//! The score is 0.40 × similarity + 0.25 × popularity + 0.20 × user history + 0.15 × performance,
//! each from 0 to 1, times the boosts. Tools are ordered by that product; what is reported is 1 at
//! most.

use std::time::Duration;

use crate::ledger::Totals as _;
use crate::request::FactorScores;
use crate::statistics::Statistics;

/// What a tool has of which nothing is known yet.
pub(crate) const NEUTRAL: f64 = 0.5;

const SIMILARITY_WEIGHT: f64 = 0.40;
const POPULARITY_WEIGHT: f64 = 0.25;
const USER_HISTORY_WEIGHT: f64 = 0.20;
const PERFORMANCE_WEIGHT: f64 = 0.15;

/// What each successful use adds to popularity, and all of them together at most.
const POPULARITY_STEP: f64 = 0.02;
const POPULARITY_STEPS_MAX: f64 = 0.30;
/// What each error takes from performance, and all of them together at most.
const PERFORMANCE_STEP: f64 = 0.05;
const PERFORMANCE_STEPS_MAX: f64 = 0.50;
/// What each use again adds to the history of a user, and all of them together at most.
const USER_HISTORY_STEP: f64 = 0.10;
const USER_HISTORY_STEPS_MAX: f64 = 0.50;

/// How much the success of calls says of a tool that was used lately.
const RECENT_USE_FACTOR: f64 = 1.2;
/// How long ago a use is recent: less than this.
const RECENT_USE_INTERVAL: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// How slow a tool is whose speed is worth nothing, in milliseconds.
const SLOWEST_MS: f64 = 5_000.0;

const SAME_SERVER_BOOST: f64 = 1.15;
const CERTIFIED_BOOST: f64 = 1.25;
const AFTER_HOURS_BOOST: f64 = 1.2;
const WORKING_HOURS_BOOST: f64 = 1.1;

/// What a caller has done with a tool.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct UserHistory {
    /// How often it has succeeded.
    pub(crate) successes: u64,
    /// How often it has failed.
    pub(crate) failures: u64,
    /// How long ago the last use was.
    pub(crate) last_used: Option<Duration>,
}

/// What boosts a tool has now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Boosts {
    /// The caller's last tool was of the same server.
    pub(crate) is_of_same_server: bool,
    /// The operator has it certified.
    pub(crate) is_certified: bool,
    /// It is 17:00 or later, and it is asynchronous.
    pub(crate) is_asynchronous_after_hours: bool,
    /// It is before 17:00, and it is fast.
    pub(crate) is_fast_in_hours: bool,
}

/// The score of a tool.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Score {
    pub(crate) factors: FactorScores,
    /// What tools are ordered by; it may be more than 1.
    pub(crate) product: f64,
}

impl Score {
    pub(crate) fn of(factors: FactorScores) -> Self {
        let sum = SIMILARITY_WEIGHT * factors.similarity
            + POPULARITY_WEIGHT * factors.popularity
            + USER_HISTORY_WEIGHT * factors.user_history
            + PERFORMANCE_WEIGHT * factors.performance;
        Self { factors, product: sum * factors.boost }
    }

    /// What is reported: from 0 to 1.
    pub(crate) fn reported(&self) -> f64 {
        clamp(self.product)
    }
}

/// How near a tool is to the query; what is no number counts as nothing.
pub(crate) fn similarity(cosine: f32) -> f64 {
    clamp(f64::from(cosine))
}

/// How much a tool is used: `percentile` is its place among all tools that the caller may use.
pub(crate) fn popularity(statistics: &Statistics, percentile: f64) -> f64 {
    // Calls that did not reach it say nothing of how much it is used.
    if statistics.runs() == 0 {
        return NEUTRAL;
    }
    let known = (percentile + 0.1 * statistics.success_rate()).min(1.0);
    let learned = (POPULARITY_STEP * statistics.weight()).min(POPULARITY_STEPS_MAX);
    clamp(known + learned)
}

/// How well a tool has served the caller.
pub(crate) fn user_history(history: &UserHistory) -> f64 {
    let uses = history.successes + history.failures;
    let Some(ago) = history.last_used.filter(|_| uses > 0) else { return 0.0 };
    let recency = if ago < RECENT_USE_INTERVAL { RECENT_USE_FACTOR } else { 1.0 };
    let known = (history.successes as f64 / uses as f64 * recency).min(1.0);

    let again = history.successes.saturating_sub(1) as f64;
    let learned = (USER_HISTORY_STEP * again).min(USER_HISTORY_STEPS_MAX);
    clamp(known + learned)
}

/// How fast and how reliable a tool is. One that cannot be reached now is up at no time.
pub(crate) fn performance(statistics: &Statistics, is_away: bool) -> f64 {
    if statistics.is_empty() {
        return if is_away { NEUTRAL / 2.0 } else { NEUTRAL };
    }
    let uptime = if is_away { 0.0 } else { statistics.uptime() };
    let speed = statistics.p99_ms().map_or(NEUTRAL, |p99| (1.0 - p99 / SLOWEST_MS).max(0.0));
    let known = performance_of(speed, statistics.error_rate(), uptime);

    let learned = (PERFORMANCE_STEP * statistics.errors() as f64).min(PERFORMANCE_STEPS_MAX);
    clamp(known - learned)
}

fn performance_of(speed: f64, error_rate: f64, uptime: f64) -> f64 {
    (speed + (1.0 - error_rate) * uptime) / 2.0
}

impl Boosts {
    /// What the sum of the factors is multiplied by.
    pub(crate) fn product(self) -> f64 {
        let boosts = [
            (self.is_of_same_server, SAME_SERVER_BOOST),
            (self.is_certified, CERTIFIED_BOOST),
            (self.is_asynchronous_after_hours, AFTER_HOURS_BOOST),
            (self.is_fast_in_hours, WORKING_HOURS_BOOST),
        ];
        boosts.iter().filter(|(holds, _)| *holds).map(|(_, boost)| boost).product()
    }
}

fn clamp(value: f64) -> f64 {
    if value.is_nan() { 0.0 } else { value.clamp(0.0, 1.0) }
}

#[cfg(test)]
mod tests;
