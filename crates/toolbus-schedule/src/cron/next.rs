//! The next time that an expression matches.
//!
//! - A time that the clock leaves out when it is set forward happens at the first moment after it.
//! - Of a time that is repeated when the clock is set back, an expression with an interval in its
//!   second, minute or hour matches both; any other only the first.

use jiff::civil::{Date, DateTime, date};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{SignedDuration, Timestamp};

use super::{CronExpression, MonthDays, Weekdays};

/// Months that are searched. The rarest date that there is, a 29 February on a given day of the
/// week, comes again after 40 years at most.
const MONTHS_MAX: usize = 12 * 50;
/// Most seconds of a time that is repeated, one after the other.
const REPEATED_MAX: usize = 24 * 60 * 60;
/// Changes of a zone that are looked through for one of its offset.
const CHANGES_MAX: usize = 8;
const SECOND: SignedDuration = SignedDuration::from_secs(1);
const SATURDAY: u8 = 6;
const SUNDAY: u8 = 0;

/// A time that is repeated, since the clock is set back at its end.
struct Overlap {
    start: DateTime,
    end: DateTime,
}

impl CronExpression {
    /// The first time after this one that matches, by the clocks of a zone. `None` where there is
    /// none, such as of a 30 February.
    #[must_use]
    pub fn next(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let offset = zone.to_offset(after);
        let local = offset.to_datetime(after);
        let local = local.date().at(local.hour(), local.minute(), local.second(), 0);
        let mut from = local.checked_add(SECOND).ok()?;

        // What follows in a time that will be repeated may come before it by the clock.
        if let AmbiguousOffset::Fold { before, after: later } =
            zone.to_ambiguous_timestamp(local).offset()
            && before == offset
        {
            let Overlap { start, end } = overlap_after(after, zone)?;
            if let Some(found) = self.next_local(from).filter(|found| *found < end) {
                return before.to_timestamp(found).ok();
            }
            let again = self.next_local(start).filter(|found| self.is_interval && *found < end);
            if let Some(found) = again {
                return later.to_timestamp(found).ok();
            }
        }

        for _ in 0..REPEATED_MAX {
            let found = self.next_local(from)?;
            let at = match zone.to_ambiguous_timestamp(found).offset() {
                AmbiguousOffset::Unambiguous { offset } => offset.to_timestamp(found).ok()?,
                AmbiguousOffset::Gap { before, .. } => {
                    end_of_gap(before.to_timestamp(found).ok()?, zone)
                }
                AmbiguousOffset::Fold { before, after: later } => {
                    let first = before.to_timestamp(found).ok()?;
                    if first <= after && self.is_interval {
                        later.to_timestamp(found).ok()?
                    } else {
                        first
                    }
                }
            };
            if at > after {
                return Some(at);
            }
            from = found.checked_add(SECOND).ok()?;
        }
        None
    }

    /// The first local time that matches, from this one on.
    fn next_local(&self, from: DateTime) -> Option<DateTime> {
        let (mut year, mut month) = (from.year(), from.month());
        let mut first_day = from.day();
        let mut time = [from.hour(), from.minute(), from.second()];
        for _ in 0..MONTHS_MAX {
            let mut days = self.days_of(date(year, month, 1)) >> first_day << first_day;
            if days.trailing_zeros() == u32::from(first_day.unsigned_abs()) {
                if let Some([hour, minute, second]) = self.next_time(time) {
                    return Some(date(year, month, first_day).at(hour, minute, second, 0));
                }
                days &= days - 1;
            }
            if days != 0 {
                let [hour, minute, second] = self.next_time([0; 3])?;
                let day = i8::try_from(days.trailing_zeros()).ok()?;
                return Some(date(year, month, day).at(hour, minute, second, 0));
            }

            (year, month) = if month == 12 { (year.checked_add(1)?, 1) } else { (year, month + 1) };
            if year > DateTime::MAX.year() {
                return None;
            }
            (first_day, time) = (1, [0; 3]);
        }
        None
    }

    /// The first time of a day that matches, from this one on: hour, minute and second.
    fn next_time(&self, from: [i8; 3]) -> Option<[i8; 3]> {
        let [hour, minute, second] = from;
        let (first_minute, first_second) =
            (first_from(self.minutes, 0)?, first_from(self.seconds, 0)?);
        if has(self.hours, hour) {
            if has(self.minutes, minute)
                && let Some(second) = first_from(self.seconds, second)
            {
                return Some([hour, minute, second]);
            }
            if let Some(minute) = first_from(self.minutes, minute + 1) {
                return Some([hour, minute, first_second]);
            }
        }
        Some([first_from(self.hours, hour + 1)?, first_minute, first_second])
    }

    /// The days that match of the month that begins with this one.
    fn days_of(&self, first: Date) -> u64 {
        if !has(self.months, first.month()) {
            return 0;
        }
        let month = Month {
            last: first.days_in_month().unsigned_abs(),
            first_weekday: first.weekday().to_sunday_zero_offset().unsigned_abs(),
        };
        month.days(self.month_days) & month.weekdays(self.weekdays)
    }
}

/// What days of the week a month has.
#[derive(Debug, Clone, Copy)]
struct Month {
    last: u8,
    /// The day of the week of its first day.
    first_weekday: u8,
}

impl Month {
    fn weekday(self, day: u8) -> u8 {
        (self.first_weekday + day - 1) % 7
    }

    fn days(self, days: MonthDays) -> u64 {
        let before_last = |days: u8| self.last.checked_sub(days).filter(|day| *day > 0);
        let only = |day: Option<u8>| day.map_or(0, |day| 1 << day);
        match days {
            MonthDays::Set(set) => set & self.all(),
            MonthDays::NearestWeekday(day) => {
                only(Some(day).filter(|day| *day <= self.last).map(|day| self.nearest_weekday(day)))
            }
            MonthDays::BeforeLast(days) => only(before_last(days)),
            MonthDays::WeekdayBeforeLast(days) => {
                only(before_last(days).map(|day| self.nearest_weekday(day)))
            }
        }
    }

    fn all(self) -> u64 {
        (1 << (self.last + 1)) - 2
    }

    /// The nearest day from Monday to Friday within the month.
    fn nearest_weekday(self, day: u8) -> u8 {
        match self.weekday(day) {
            SATURDAY if day == 1 => day + 2,
            SATURDAY => day - 1,
            SUNDAY if day == self.last => day - 2,
            SUNDAY => day + 1,
            _ => day,
        }
    }

    fn weekdays(self, weekdays: Weekdays) -> u64 {
        let days = (1..=self.last).filter(|day| {
            let weekday = self.weekday(*day);
            match weekdays {
                Weekdays::Set(set) => set & 1 << weekday != 0,
                Weekdays::Last(wanted) => weekday == wanted && day + 7 > self.last,
                Weekdays::Nth(wanted, number) => weekday == wanted && (day - 1) / 7 + 1 == number,
            }
        });
        days.fold(0, |set, day| set | 1 << day)
    }
}

fn has(set: u64, value: i8) -> bool {
    set & 1 << value != 0
}

/// The lowest value of a set from this one on.
fn first_from(set: u64, value: i8) -> Option<i8> {
    let rest = set >> value << value;
    (rest != 0).then(|| i8::try_from(rest.trailing_zeros()).ok())?
}

/// The overlap that a time is in for the first time.
fn overlap_after(at: Timestamp, zone: &TimeZone) -> Option<Overlap> {
    let offset = zone.to_offset(at);
    let mut changes = zone.following(at).take(CHANGES_MAX);
    let change = changes.find(|change| change.offset() != offset)?;
    let start = change.offset().to_datetime(change.timestamp());
    Some(Overlap { start, end: offset.to_datetime(change.timestamp()) })
}

/// The moment at which the clock was set forward, of a time within the gap as if it had not been.
fn end_of_gap(within: Timestamp, zone: &TimeZone) -> Timestamp {
    let until = within.checked_add(SECOND).unwrap_or(within);
    zone.preceding(until).next().map_or(within, |change| change.timestamp())
}
