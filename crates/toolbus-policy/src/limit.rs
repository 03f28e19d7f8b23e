//! Rate limits: the gate that counts calls, and refuses those that are too many.
//!
//! Each limit has a count for each value of what it counts by, at most [`BUCKETS_MAX`] of them, for
//! names are chosen by callers. Counts that have run out are forgotten to make room, since a new
//! one would be the same. Where there is no room left, all further values share one count: so a
//! flood of names takes the room of newcomers, and frees nobody who is counted.

mod buckets;
pub(crate) mod month;

use std::num::NonZeroU32;
use std::time::{Duration, SystemTime};

use governor::clock::Clock as _;
use governor::middleware::NoOpMiddleware;
use governor::{Quota, RateLimiter};
use serde_json::json;
use toolbus_tools::CallError;
use toolbus_tools::gate::{Gate, Passage, Verdict};
use toolbus_tools::policy::PolicyRequest;
use toolbus_wire::ErrorCode;

use crate::live::LivePolicy;
use crate::settings::{CountedBy, LimitSettings, Period};
use buckets::{BucketKey, Buckets, TokioClock, TokioInstant};
use month::MonthCounts;

pub use buckets::BUCKETS_MAX;

/// Refuses calls that a limit of the policy's book has no room for. It stands behind the schema, so
/// only calls count that could run. Of several limits, those before the one that refuses a call
/// have counted it.
#[derive(Debug, Clone)]
pub struct RateLimit {
    policy: LivePolicy,
}

/// One limit, and what was counted.
#[derive(Debug)]
pub(crate) struct Limit {
    settings: LimitSettings,
    counter: Counter,
}

enum Counter {
    /// Calls come back evenly.
    Rate(Box<Rate>),
    /// Calls come back when the month ends.
    Month(MonthCounts),
}

/// A limit whose calls come back evenly.
struct Rate {
    limiter: RateLimiter<BucketKey, Buckets, TokioClock, NoOpMiddleware<TokioInstant>>,
    /// Those that the limiter has.
    buckets: Buckets,
}

impl RateLimit {
    pub(crate) fn new(policy: LivePolicy) -> Self {
        Self { policy }
    }
}

impl Gate for RateLimit {
    fn name(&self) -> &'static str {
        "rate limit"
    }

    fn check<'a>(&'a self, passage: &'a mut Passage) -> Verdict<'a> {
        let book = self.policy.book();
        if book.limits.is_empty() {
            return Verdict::Now(Ok(()));
        }

        let request = PolicyRequest { scope: &passage.call.scope, subject: &passage.subject };
        let counting = book.limit_matcher.matching(&request);
        let counted = counting.iter().try_for_each(|limit| book.limits[limit].charge(&request));
        Verdict::Now(counted)
    }
}

impl Limit {
    pub(crate) fn new(settings: &LimitSettings) -> Self {
        let counter = match length(settings.per) {
            Some(length) => Counter::Rate(Box::new(Rate::new(settings.calls, length))),
            None => Counter::Month(MonthCounts::default()),
        };
        Self { settings: settings.clone(), counter }
    }

    pub(crate) fn name(&self) -> &str {
        &self.settings.name
    }

    /// What an operator wrote.
    pub(crate) fn settings(&self) -> &LimitSettings {
        &self.settings
    }

    /// Its counts, where it is one by the month.
    pub(crate) fn month_counts(&self) -> Option<&MonthCounts> {
        match &self.counter {
            Counter::Rate(_) => None,
            Counter::Month(counts) => Some(counts),
        }
    }

    /// Whether another one counts the same calls in the same way.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.settings == other.settings
    }

    /// Counts a call, or refuses it and says how long to wait.
    fn charge(&self, request: &PolicyRequest<'_>) -> Result<(), CallError> {
        let key = BucketKey::of(request, &self.settings.by);
        let wait = match &self.counter {
            Counter::Rate(rate) => rate.charge(&key),
            Counter::Month(counts) => {
                counts.charge(key, self.settings.calls.get(), SystemTime::now())
            }
        };
        match wait {
            Ok(()) => Ok(()),
            Err(wait) => Err(self.refusal(wait)),
        }
    }

    fn refusal(&self, wait: Duration) -> CallError {
        let LimitSettings { name, calls, per, by, .. } = &self.settings;
        let per = match per {
            Period::Second => "a second",
            Period::Minute => "a minute",
            Period::Hour => "an hour",
            Period::Day => "a day",
            Period::Month => "a month",
        };
        let by: Vec<&str> = by.iter().map(|by| by.as_str()).collect();
        let by =
            if by.is_empty() { "all".to_owned() } else { format!("each {}", by.join(" and ")) };
        let seconds = wait.as_millis().div_ceil(1_000);
        let what = format!(
            "the limit '{name}' of {calls} calls {per} for {by} is reached; there is room again in \
             {seconds} s"
        );
        let details = json!({"limit": name, "calls": calls, "per": self.settings.per});
        CallError::new(ErrorCode::RateLimited, what).with_retry_after(wait).with_details(details)
    }
}

impl Rate {
    fn new(calls: NonZeroU32, length: Duration) -> Self {
        let interval = length / calls.get();
        let quota = Quota::with_period(interval)
            .expect("a second has room for every number of calls that may be set")
            .allow_burst(calls);
        let buckets = Buckets::default();
        Self { limiter: RateLimiter::new(quota, buckets.clone(), TokioClock), buckets }
    }

    /// Counts a call, or says how long it is until there is room.
    fn charge(&self, key: &BucketKey) -> Result<(), Duration> {
        let now = TokioClock.now();
        if self.buckets.wants_sweep(key, now) {
            self.limiter.retain_recent();
        }
        self.limiter.check_key(key).map_err(|not_until| not_until.wait_time_from(now))
    }
}

impl std::fmt::Debug for Counter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Rate(_) => "Rate",
            Self::Month(_) => "Month",
        })
    }
}

impl CountedBy {
    fn as_str(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Principal => "principal",
            Self::Agent => "agent",
            Self::Session => "session",
        }
    }
}

/// How long a period is; `None` where that depends on the calendar.
fn length(period: Period) -> Option<Duration> {
    const SECONDS_A_DAY: u64 = 24 * 60 * 60;
    Some(Duration::from_secs(match period {
        Period::Second => 1,
        Period::Minute => 60,
        Period::Hour => 60 * 60,
        Period::Day => SECONDS_A_DAY,
        Period::Month => return None,
    }))
}

#[cfg(test)]
mod tests;
