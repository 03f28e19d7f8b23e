//! What is to be done about a task or an occurrence at a moment. Nothing here waits, reads a clock
//! or writes.

use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;

use crate::CronExpression;
use crate::occurrence::{Cause, OccurrenceState};
use crate::task::RUN_ALL_MAX;

/// How late an occurrence may be begun and still be on time.
const LATE_GRACE: Duration = Duration::from_secs(60);
/// How far a clock may go back without anything being due again. One that goes back further was
/// wrong before.
const CLOCK_STEP_GRACE: Duration = Duration::from_secs(24 * 60 * 60);
/// Most fires that are counted.
pub(crate) const COUNTED_MAX: u64 = 10_000;

/// What becomes of fires that were missed because nobody was there to run them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MissedRule {
    /// They are not run.
    Skip,
    /// The last one is run, in place of all of them.
    RunOnce,
    /// They are run one after the other.
    RunAll {
        /// Most of them, of which the last ones are run: at most [`RUN_ALL_MAX`].
        max: u32,
    },
}

/// A task as far as time goes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Armed<'a> {
    pub(crate) cron: &'a CronExpression,
    pub(crate) zone: &'a TimeZone,
    pub(crate) run_once: bool,
    pub(crate) missed: MissedRule,
    /// The first time that is not accounted for.
    pub(crate) next_ms: Option<i64>,
    /// The last time that is.
    pub(crate) accounted_ms: Option<i64>,
}

/// What is to be done about a task that has no open occurrence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Decision {
    Nothing,
    /// It fires at another time than it is armed for: the zone is another, or the clock was set.
    Rearm {
        next_ms: Option<i64>,
    },
    Fire(Firing),
}

/// A task whose time has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Firing {
    /// What is run, the earliest first.
    pub(crate) runs: Vec<i64>,
    /// What is not.
    pub(crate) missed: Option<Span>,
    pub(crate) accounted_ms: i64,
    pub(crate) next_ms: Option<i64>,
    /// Whether the task is over without a run.
    pub(crate) ends_task: bool,
}

/// Times of a task that follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) first_ms: i64,
    pub(crate) last_ms: i64,
    /// How many: of more than are counted, as many.
    pub(crate) fires: u64,
}

/// Times that went by while a task ran, and the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Overrun {
    pub(crate) skipped: Span,
    pub(crate) next_ms: Option<i64>,
}

/// An occurrence that another process has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Left {
    pub(crate) state: OccurrenceState,
    pub(crate) cause: Cause,
    pub(crate) due_ms: i64,
    /// Whether it waits to be tried again.
    pub(crate) is_retried: bool,
    /// Whether its task has no later one.
    pub(crate) is_newest: bool,
}

/// What becomes of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Recovered {
    /// It is run now.
    Keep,
    Missed,
    Lost,
}

/// What becomes of an occurrence whose run was put off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PutOff {
    Retry { attempts: u32 },
    GiveUp,
}

impl MissedRule {
    /// Every name that there is.
    pub const NAMES: [&str; 3] = ["skip", "run_once", "run_all"];
    /// How many are run where nobody says.
    pub const RUN_ALL_DEFAULT: u32 = 10;

    /// The one of this name; `skip` for any other.
    #[must_use]
    pub fn of(name: &str, max: u32) -> Self {
        match name {
            "run_once" => Self::RunOnce,
            "run_all" => Self::RunAll { max: max.min(RUN_ALL_MAX) },
            _ => Self::Skip,
        }
    }

    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Skip => "skip",
            Self::RunOnce => "run_once",
            Self::RunAll { .. } => "run_all",
        }
    }

    /// Most missed fires that are run.
    pub(crate) fn max(self) -> u32 {
        match self {
            Self::Skip => 0,
            Self::RunOnce => 1,
            Self::RunAll { max } => max.min(RUN_ALL_MAX),
        }
    }
}

impl Armed<'_> {
    pub(crate) fn decide(self, now_ms: i64) -> Decision {
        match self.next_ms {
            Some(next_ms) if next_ms <= now_ms => Decision::Fire(self.fire(next_ms, now_ms)),
            // It has fired.
            None if self.run_once => Decision::Nothing,
            next_ms => match self.next_from(now_ms) {
                expected if expected == next_ms => Decision::Nothing,
                next_ms => Decision::Rearm { next_ms },
            },
        }
    }

    /// What to fire of all that is due.
    fn fire(self, first_ms: i64, now_ms: i64) -> Firing {
        let last_ms = self.last_until(first_ms, now_ms);
        let is_on_time = now_ms.saturating_sub(last_ms) <= ms(LATE_GRACE);
        let mut runs_max = self.missed.max().max(is_on_time.into());
        if self.run_once {
            runs_max = runs_max.min(1);
        }

        let mut runs = Vec::new();
        let mut missed_until = Some(last_ms);
        for _ in 0..runs_max {
            let Some(due_ms) = missed_until else { break };
            runs.push(due_ms);
            let before = due_ms - 1;
            missed_until = (before >= first_ms).then(|| self.last_until(first_ms, before));
        }
        runs.reverse();
        let missed = missed_until.map(|last_ms| self.span(first_ms, last_ms));

        let ends = self.run_once;
        Firing {
            next_ms: if ends { None } else { self.next_after(now_ms.max(last_ms)) },
            ends_task: ends && runs.is_empty(),
            accounted_ms: last_ms,
            missed,
            runs,
        }
    }

    /// What went by while it ran, where something did. Of a task that runs once it is the one time
    /// that it has, and is not skipped.
    pub(crate) fn overrun(self, now_ms: i64) -> Option<Overrun> {
        let first_ms = self.next_ms.filter(|next_ms| *next_ms <= now_ms && !self.run_once)?;
        let last_ms = self.last_until(first_ms, now_ms);
        let next_ms = self.next_after(now_ms.max(last_ms));
        Some(Overrun { skipped: self.span(first_ms, last_ms), next_ms })
    }

    /// The next time to arm it for. What is accounted for does not come again, unless the clock was
    /// far ahead then.
    fn next_from(self, now_ms: i64) -> Option<i64> {
        let is_ahead = |at: &i64| (0..=ms(CLOCK_STEP_GRACE)).contains(&at.saturating_sub(now_ms));
        self.next_after(self.accounted_ms.filter(is_ahead).unwrap_or(now_ms))
    }

    fn next_after(self, after_ms: i64) -> Option<i64> {
        next_ms(self.cron, after_ms, self.zone)
    }

    /// The last of its times until this one. `first_ms` is one of them.
    fn last_until(self, first_ms: i64, until_ms: i64) -> i64 {
        let (mut found, mut high) = (first_ms, until_ms);
        // Halves what is left, so it ends.
        while self.next_after(found).is_some_and(|next_ms| next_ms <= until_ms) {
            let middle = found + (high - found) / 2;
            match self.next_after(middle) {
                Some(next_ms) if next_ms <= until_ms => found = next_ms,
                _ => high = middle,
            }
        }
        found
    }

    fn span(self, first_ms: i64, last_ms: i64) -> Span {
        let (mut at, mut fires) = (first_ms, 1);
        while at < last_ms && fires < COUNTED_MAX {
            let Some(next_ms) = self.next_after(at).filter(|next_ms| *next_ms <= last_ms) else {
                break;
            };
            (at, fires) = (next_ms, fires + 1);
        }
        Span { first_ms, last_ms, fires }
    }
}

impl Left {
    /// What becomes of it, now that its process is gone.
    pub(crate) fn recover(self, rule: MissedRule, now_ms: i64) -> Recovered {
        if self.state != OccurrenceState::Fired {
            return Recovered::Lost;
        }
        let is_on_time = now_ms.saturating_sub(self.due_ms) <= ms(LATE_GRACE);
        let is_kept = match rule {
            _ if self.cause == Cause::Asked || self.is_retried => true,
            _ if is_on_time && self.is_newest => true,
            MissedRule::Skip => false,
            MissedRule::RunOnce => self.is_newest,
            MissedRule::RunAll { .. } => true,
        };
        if is_kept { Recovered::Keep } else { Recovered::Missed }
    }
}

impl PutOff {
    /// What becomes of an occurrence that was put off so often before.
    pub(crate) fn after(attempts: u32, retries_max: u32) -> Self {
        match attempts < retries_max {
            true => Self::Retry { attempts: attempts + 1 },
            false => Self::GiveUp,
        }
    }
}

/// The next time after this one, in milliseconds.
pub(crate) fn next_ms(cron: &CronExpression, after_ms: i64, zone: &TimeZone) -> Option<i64> {
    let after = Timestamp::from_millisecond(after_ms).ok()?;
    Some(cron.next(after, zone)?.as_millisecond())
}

pub(crate) fn ms(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
