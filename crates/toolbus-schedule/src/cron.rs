//! Cron expressions as Cronos reads them: five fields, or six with the seconds first.
//!
//! Unlike in Vixie's cron, the day of the month and the day of the week must both match. What
//! becomes of times that a change of the clock leaves out or repeats is said in [`next`].

mod next;
mod parse;

use std::fmt;
use std::str::FromStr;

/// Longest expression, in bytes.
pub const CRON_BYTES_MAX: usize = 256;

/// When something happens, again and again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CronExpression {
    text: String,
    /// Each a set of bits, of which the lowest is 0.
    seconds: u64,
    minutes: u64,
    hours: u64,
    months: u64,
    month_days: MonthDays,
    weekdays: Weekdays,
    /// Whether second, minute or hour has `*`, a range or a step: it happens periodically, and not
    /// so many times a day.
    is_interval: bool,
}

/// Days by their number in the month.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MonthDays {
    /// Those of this set.
    Set(u64),
    /// The weekday that is nearest to this day, in the same month.
    NearestWeekday(u8),
    /// So many days before the last.
    BeforeLast(u8),
    /// The weekday that is nearest to that, in the same month.
    WeekdayBeforeLast(u8),
}

/// Days by their place in the week. Sunday is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Weekdays {
    /// Those of this set.
    Set(u64),
    /// The last of its kind in the month.
    Last(u8),
    /// The one of this number in the month, from 1 on.
    Nth(u8, u8),
}

/// Why a text is no cron expression.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CronError {
    /// It is too long.
    #[error("it has {0} bytes, and may have {CRON_BYTES_MAX}")]
    TooLong(usize),
    /// It has too few fields, or too many.
    #[error(
        "it has {0} fields; expected are 5 (minute, hour, day of month, month, day of week), or 6 \
         with the second first"
    )]
    Fields(usize),
    /// It begins with `@` and is none that is known.
    #[error("there is no macro of this name; known are {}", parse::macro_names())]
    Macro,
    /// A field cannot be read.
    #[error("the {field} '{text}' cannot be read: {problem}")]
    Field {
        /// Which one.
        field: &'static str,
        /// What it is.
        text: String,
        /// What is wrong with it.
        problem: String,
    },
}

impl CronExpression {
    /// The expression as it was written, with single blanks between its fields.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl FromStr for CronExpression {
    type Err = CronError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse::parse(text)
    }
}

impl fmt::Display for CronExpression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests;
