//! The same by brute force: every moment is looked at, one after the other.

use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone};
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;

use crate::cron::CronExpression;

/// Moments that are looked at.
const MOMENTS: i64 = 10_000;
const ZONES: [&str; 10] = [
    "UTC",
    "America/New_York",
    "Europe/Berlin",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "Asia/Beirut",
    "Antarctica/Troll",
    "America/Caracas",
    "Asia/Kathmandu",
    "Africa/Casablanca",
];

#[derive(Debug, Clone)]
enum Values {
    All(Option<i8>),
    List(Vec<Part>),
}

#[derive(Debug, Clone)]
struct Part {
    low: i8,
    high: Option<i8>,
    step: Option<i8>,
}

#[derive(Debug, Clone)]
enum Days {
    Values(Values),
    BeforeLast(i8),
    WeekdayBeforeLast(i8),
    Nearest(i8),
}

#[derive(Debug, Clone)]
enum Weekdays {
    Values(Values),
    Last(i8),
    Nth(i8, i8),
}

#[derive(Debug, Clone)]
struct Expression {
    second: Option<Values>,
    minute: Values,
    hour: Values,
    days: Days,
    month: Values,
    weekdays: Weekdays,
}

impl Part {
    /// Walks from the low end to the high one, beyond the last value where it must.
    fn has(&self, value: i8, first: i8, last: i8, wraps_after: i8) -> bool {
        let high = self.high.unwrap_or(if self.step.is_some() { last } else { self.low });
        let walk: Vec<i8> = match self.low <= high {
            true => (self.low..=high).collect(),
            false => (self.low..=wraps_after).chain(first..=high).collect(),
        };
        walk.into_iter().step_by(self.step.unwrap_or(1).unsigned_abs().into()).any(|v| v == value)
    }
}

impl Values {
    fn has(&self, value: i8, first: i8, last: i8, wraps_after: i8) -> bool {
        match self {
            Self::All(step) => (value - first) % step.unwrap_or(1) == 0,
            Self::List(parts) => parts.iter().any(|p| p.has(value, first, last, wraps_after)),
        }
    }

    fn is_interval(&self) -> bool {
        match self {
            Self::All(_) => true,
            Self::List(parts) => parts.iter().any(|p| p.high.is_some() || p.step.is_some()),
        }
    }

    fn text(&self) -> String {
        let step = |step: Option<i8>| step.map(|step| format!("/{step}")).unwrap_or_default();
        match self {
            Self::All(all) => format!("*{}", step(*all)),
            Self::List(parts) => {
                let text = |part: &Part| {
                    let high = part.high.map(|high| format!("-{high}")).unwrap_or_default();
                    format!("{}{high}{}", part.low, step(part.step))
                };
                parts.iter().map(text).collect::<Vec<_>>().join(",")
            }
        }
    }
}

impl Expression {
    fn text(&self) -> String {
        let days = match &self.days {
            Days::Values(values) => values.text(),
            Days::BeforeLast(days) => format!("L-{days}"),
            Days::WeekdayBeforeLast(days) => format!("L-{days}W"),
            Days::Nearest(day) => format!("{day}W"),
        };
        let weekdays = match &self.weekdays {
            Weekdays::Values(values) => values.text(),
            Weekdays::Last(day) => format!("{day}L"),
            Weekdays::Nth(day, number) => format!("{day}#{number}"),
        };
        let second = self.second.as_ref().map(|second| second.text() + " ").unwrap_or_default();
        let (minute, hour, month) = (self.minute.text(), self.hour.text(), self.month.text());
        format!("{second}{minute} {hour} {days} {month} {weekdays}")
    }

    fn is_interval(&self) -> bool {
        let second = self.second.as_ref().is_some_and(Values::is_interval);
        second || self.minute.is_interval() || self.hour.is_interval()
    }

    fn matches(&self, at: DateTime) -> bool {
        let second = match &self.second {
            Some(second) => second.has(at.second(), 0, 59, 59),
            None => at.second() == 0,
        };
        second
            && self.minute.has(at.minute(), 0, 59, 59)
            && self.hour.has(at.hour(), 0, 23, 23)
            && self.month.has(at.month(), 1, 12, 12)
            && self.has_day(at)
            && self.has_weekday(at)
    }

    fn has_day(&self, at: DateTime) -> bool {
        let last = at.date().days_in_month();
        // The weekday that is nearest, by distance.
        let nearest = |day: i8| {
            let day_of = |day: i8| at.with().day(day).build().unwrap();
            let is_weekday = |day: &i8| day_of(*day).weekday().to_monday_zero_offset() < 5;
            (1..=last).filter(is_weekday).min_by_key(|other| (other - day).abs())
        };
        match &self.days {
            Days::Values(values) => values.has(at.day(), 1, 31, 31),
            Days::BeforeLast(days) => at.day() == last - days,
            Days::WeekdayBeforeLast(days) => last > *days && nearest(last - days) == Some(at.day()),
            Days::Nearest(day) => *day <= last && nearest(*day) == Some(at.day()),
        }
    }

    fn has_weekday(&self, at: DateTime) -> bool {
        let today = at.weekday().to_sunday_zero_offset();
        match &self.weekdays {
            Weekdays::Values(values) => {
                values.has(today, 0, 7, 6) || today == 0 && values.has(7, 0, 7, 6)
            }
            Weekdays::Last(day) => day % 7 == today && at.day() + 7 > at.date().days_in_month(),
            Weekdays::Nth(day, number) => {
                let earlier = (1..at.day()).filter(|d| (at.day() - d) % 7 == 0).count();
                day % 7 == today && earlier == usize::try_from(number - 1).unwrap()
            }
        }
    }
}

fn local(at: Timestamp, offset: Offset) -> DateTime {
    offset.to_datetime(at)
}

/// Whether the expression matches at this moment, by what the clocks show there and before.
fn happens(expression: &Expression, at: Timestamp, zone: &TimeZone, step: SignedDuration) -> bool {
    let offset = zone.to_offset(at);
    let before = zone.to_offset(at - SignedDuration::from_secs(1));
    if offset > before {
        // The clocks are set forward here.
        let mut left_out = local(at, before);
        while left_out < local(at, offset) {
            if expression.matches(left_out) {
                return true;
            }
            left_out += step;
        }
    }

    if !expression.matches(local(at, offset)) {
        return false;
    }
    // Whether they have shown it before.
    let earlier = zone.to_offset(at - SignedDuration::from_hours(3));
    let shift = SignedDuration::from_secs((earlier.seconds() - offset.seconds()).into());
    let is_repeated = earlier > offset && zone.to_offset(at - shift) == earlier;
    !is_repeated || expression.is_interval()
}

fn check(expression: &Expression, after: Timestamp, zone: &TimeZone) {
    let text = expression.text();
    let cron: CronExpression = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
    let unit = if expression.second.is_some() { 1 } else { 60 };
    let step = SignedDuration::from_secs(unit);
    let first = (after.as_second() / unit + 1) * unit;
    let moments = (0..MOMENTS).map(|at| Timestamp::from_second(first + at * unit).unwrap());
    let expected = moments.into_iter().find(|at| happens(expression, *at, zone, step));

    let found = cron.next(after, zone);
    match expected {
        Some(_) => assert_eq!(found, expected, "{text} after {after} {zone:?}"),
        None => {
            let looked_at = Timestamp::from_second(first + (MOMENTS - 1) * unit).unwrap();
            assert!(found.is_none_or(|found| found > looked_at), "{text} after {after} {zone:?}");
        }
    }
}

fn values(first: i8, last: i8) -> impl Strategy<Value = Values> {
    let step = proptest::option::weighted(0.3, 1..=last);
    let part = (first..=last, proptest::option::weighted(0.4, first..=last), step.clone());
    let part = part.prop_map(move |(low, high, step)| {
        // The week has seven days, and Sunday as 7 begins none that ends before it.
        let low = if last == 7 && high.is_some_and(|high| high < low) { low % 7 } else { low };
        Part { low, high, step }
    });
    prop_oneof![
        step.prop_map(Values::All),
        proptest::collection::vec(part, 1..4).prop_map(Values::List),
    ]
}

fn expression() -> impl Strategy<Value = Expression> {
    let any = || Just(Values::All(None));
    let days = prop_oneof![
        6 => any().prop_map(Days::Values),
        4 => values(1, 31).prop_map(Days::Values),
        1 => (0..=30_i8).prop_map(Days::BeforeLast),
        1 => (0..=30_i8).prop_map(Days::WeekdayBeforeLast),
        1 => (1..=31_i8).prop_map(Days::Nearest),
    ];
    let weekdays = prop_oneof![
        6 => any().prop_map(Weekdays::Values),
        4 => values(0, 7).prop_map(Weekdays::Values),
        1 => (0..=7_i8).prop_map(Weekdays::Last),
        1 => (0..=7_i8, 1..=5_i8).prop_map(|(day, number)| Weekdays::Nth(day, number)),
    ];
    let second = proptest::option::weighted(0.3, values(0, 59));
    let month = prop_oneof![4 => any(), 1 => values(1, 12)];
    // Many are about the hours at which clocks are set.
    let hour = prop_oneof![
        2 => values(0, 23),
        1 => (0..4_i8).prop_map(|low| Values::List(vec![Part { low, high: None, step: None }])),
    ];
    (second, values(0, 59), hour, days, month, weekdays).prop_map(
        |(second, minute, hour, days, month, weekdays)| Expression {
            second,
            minute,
            hour,
            days,
            month,
            weekdays,
        },
    )
}

/// A zone and a moment, most of them within hours of a change of its clocks.
fn moment() -> impl Strategy<Value = (TimeZone, Timestamp)> {
    let seconds = 0..2_100_000_000_i64;
    (0..ZONES.len(), seconds, -15_000..8_000_i64, 0..4).prop_map(|(zone, second, jitter, kind)| {
        let zone = TimeZone::get(ZONES[zone]).unwrap();
        let any = Timestamp::from_second(second).unwrap();
        let change = zone.following(any).next().filter(|_| kind > 0);
        let base = change.map_or(any, |change| change.timestamp());
        (zone, base + SignedDuration::from_secs(jitter))
    })
}

proptest! {
    #[test]
    fn the_next_time_is_the_first_that_matches(
        expression in expression(),
        (zone, after) in moment(),
    ) {
        check(&expression, after, &zone);
    }

    #[test]
    fn no_text_makes_it_panic(text in "[-*/,#?LW0-9A-Za-z@ \u{e9}]{0,40}") {
        if let Ok(cron) = text.parse::<CronExpression>() {
            for zone in [TimeZone::UTC, TimeZone::get("Europe/Berlin").unwrap()] {
                let _ = cron.next(Timestamp::MIN, &zone);
                let _ = cron.next(Timestamp::UNIX_EPOCH, &zone);
                let _ = cron.next(Timestamp::MAX, &zone);
            }
        }
    }
}
