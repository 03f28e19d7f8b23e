//! Targets: how fast and how reliable a tool ought to be, and which tools are not.

use std::collections::HashSet;

use toolbus_tools::id::ToolId;

use crate::statistics::Statistics;

/// So many calls say whether a tool misses a target.
pub(crate) const RUNS_MIN: u64 = 20;

const P50_MS_MAX: f64 = 500.0;
const P99_MS_MAX: f64 = 2_000.0;
const ERROR_RATE_MAX: f64 = 0.01;
const UPTIME_MIN: f64 = 0.999;
const SUCCESS_RATE_MIN: f64 = 0.95;

/// What a tool ought to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Target {
    /// Half of its calls take less than 500 ms.
    P50,
    /// All but one in a hundred take less than 2,000 ms.
    P99,
    /// Less than 1 % of its calls fail.
    ErrorRate,
    /// Its provider is there for at least 99.9 % of the calls.
    Uptime,
    /// More than 95 % of its calls succeed.
    SuccessRate,
}

/// A target that a tool misses.
#[derive(Debug, Clone, PartialEq)]
pub struct TargetMiss {
    /// The tool.
    pub tool: ToolId,
    /// The target.
    pub target: Target,
    /// What was measured: milliseconds, or a rate from 0 to 1.
    pub measured: f64,
}

impl Target {
    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::P50 => "p50",
            Self::P99 => "p99",
            Self::ErrorRate => "error rate",
            Self::Uptime => "uptime",
            Self::SuccessRate => "success rate",
        }
    }
}

/// The targets that a tool misses, where enough is known of it.
pub(crate) fn misses(tool: &ToolId, statistics: &Statistics) -> Vec<TargetMiss> {
    let runs = statistics.runs();
    if runs + statistics.unavailable < RUNS_MIN {
        return Vec::new();
    }
    let mut missed = Vec::new();
    let mut check = |target: Target, measured: f64, is_missed: bool| {
        if is_missed {
            missed.push(TargetMiss { tool: tool.clone(), target, measured });
        }
    };

    if runs >= RUNS_MIN {
        let (p50, p99) = (statistics.p50_ms(), statistics.p99_ms());
        check(Target::P50, p50.unwrap_or_default(), p50.is_some_and(|ms| ms >= P50_MS_MAX));
        check(Target::P99, p99.unwrap_or_default(), p99.is_some_and(|ms| ms >= P99_MS_MAX));
        let (errors, successes) = (statistics.error_rate(), statistics.success_rate());
        check(Target::ErrorRate, errors, errors >= ERROR_RATE_MAX);
        check(Target::SuccessRate, successes, successes <= SUCCESS_RATE_MIN);
    }
    let uptime = statistics.uptime();
    check(Target::Uptime, uptime, uptime < UPTIME_MIN);
    missed
}

/// Reports each miss once, for as long as it lasts.
#[derive(Default)]
pub(crate) struct MissReporter {
    reported: HashSet<(ToolId, Target)>,
}

impl MissReporter {
    /// Writes a log message of every miss that is new, and says how many those are.
    pub(crate) fn report(&mut self, missed: Vec<TargetMiss>) -> usize {
        let mut now = HashSet::with_capacity(missed.len());
        let mut new = 0;
        for miss in missed {
            let key = (miss.tool.clone(), miss.target);
            if !self.reported.contains(&key) {
                new += 1;
                tracing::warn!(
                    tool = miss.tool.as_str(),
                    target_name = miss.target.as_str(),
                    measured = miss.measured,
                    "tool misses a target"
                );
            }
            now.insert(key);
        }
        self.reported = now;
        new
    }
}

#[cfg(test)]
mod tests;
