//! Reading cron expressions.
//!
//! A field is `*` or `?`, with a step or without one, or a list of values and ranges with steps.
//! `L`, `W` and `#` stand alone in their field, as in Cronos.

use super::{CRON_BYTES_MAX, CronError, CronExpression, MonthDays, Weekdays};

const MONTHS: [&str; 12] =
    ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

/// Short names of whole expressions.
const MACROS: [(&str, &str); 9] = [
    ("@every_second", "* * * * * *"),
    ("@every_minute", "* * * * *"),
    ("@hourly", "0 * * * *"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@weekly", "0 0 * * 0"),
    ("@monthly", "0 0 1 * *"),
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
];

/// Most days before the last of a month.
const BEFORE_LAST_MAX: u8 = 30;
/// Most days of one kind in a month.
const NTH_MAX: u8 = 5;

/// What a field may have.
#[derive(Debug, Clone, Copy)]
struct Field {
    name: &'static str,
    first: u8,
    last: u8,
    /// Its values by name, from `first` on.
    names: &'static [&'static str],
    /// How many values there are until they begin again.
    cycle: u8,
}

const SECOND: Field = Field { name: "second", first: 0, last: 59, names: &[], cycle: 60 };
const MINUTE: Field = Field { name: "minute", first: 0, last: 59, names: &[], cycle: 60 };
const HOUR: Field = Field { name: "hour", first: 0, last: 23, names: &[], cycle: 24 };
const MONTH_DAY: Field = Field { name: "day of month", first: 1, last: 31, names: &[], cycle: 31 };
const MONTH: Field = Field { name: "month", first: 1, last: 12, names: &MONTHS, cycle: 12 };
/// Sunday is 0 and 7.
const WEEKDAY: Field = Field { name: "day of week", first: 0, last: 7, names: &WEEKDAYS, cycle: 7 };

/// The values of a field.
#[derive(Debug, Clone, Copy, Default)]
struct Values {
    set: u64,
    /// Whether there is `*`, a range or a step.
    is_interval: bool,
}

pub(super) fn macro_names() -> String {
    MACROS.map(|(name, _)| name).join(", ")
}

pub(super) fn parse(text: &str) -> Result<CronExpression, CronError> {
    if text.len() > CRON_BYTES_MAX {
        return Err(CronError::TooLong(text.len()));
    }
    let text = text.trim();
    let (written, fields) = match text.starts_with('@') {
        true => {
            let found = MACROS.iter().find(|(name, _)| text.eq_ignore_ascii_case(name));
            *found.ok_or(CronError::Macro)?
        }
        false => (text, text),
    };

    let written = written.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
    let fields: Vec<_> = fields.split_ascii_whitespace().collect();
    let (second, [minute, hour, month_day, month, weekday]) = match *fields {
        [minute, hour, day, month, weekday] => (None, [minute, hour, day, month, weekday]),
        [second, minute, hour, day, month, weekday] => {
            (Some(second), [minute, hour, day, month, weekday])
        }
        _ => return Err(CronError::Fields(fields.len())),
    };

    // Without a field, it is the whole minute.
    let on_the_minute = Values { set: 1, is_interval: false };
    let seconds = second.map_or(Ok(on_the_minute), |second| parse_values(SECOND, second))?;
    let (minutes, hours) = (parse_values(MINUTE, minute)?, parse_values(HOUR, hour)?);
    Ok(CronExpression {
        text: written,
        seconds: seconds.set,
        minutes: minutes.set,
        hours: hours.set,
        months: parse_values(MONTH, month)?.set,
        month_days: parse_month_days(month_day)?,
        weekdays: parse_weekdays(weekday)?,
        is_interval: seconds.is_interval || minutes.is_interval || hours.is_interval,
    })
}

fn parse_values(field: Field, text: &str) -> Result<Values, CronError> {
    let mut reader = Reader::new(field, text);
    let values = reader.values()?;
    reader.end()?;
    Ok(values)
}

fn parse_month_days(text: &str) -> Result<MonthDays, CronError> {
    let mut reader = Reader::new(MONTH_DAY, text);
    if reader.accept(b'L') {
        let before = if reader.accept(b'-') { reader.number(0, BEFORE_LAST_MAX)? } else { 0 };
        let is_weekday = reader.accept(b'W');
        reader.end()?;
        return Ok(match is_weekday {
            true => MonthDays::WeekdayBeforeLast(before),
            false => MonthDays::BeforeLast(before),
        });
    }

    if text.ends_with(['W', 'w']) {
        let day = reader.value()?;
        reader.accept(b'W');
        reader.end()?;
        return Ok(MonthDays::NearestWeekday(day));
    }
    Ok(MonthDays::Set(parse_values(MONTH_DAY, text)?.set))
}

fn parse_weekdays(text: &str) -> Result<Weekdays, CronError> {
    let mut reader = Reader::new(WEEKDAY, text);
    if text.ends_with(['L', 'l']) {
        let day = reader.value()?;
        reader.accept(b'L');
        reader.end()?;
        return Ok(Weekdays::Last(day % WEEKDAY.cycle));
    }

    if text.contains('#') {
        let day = reader.value()?;
        reader.accept(b'#');
        let number = reader.number(1, NTH_MAX)?;
        reader.end()?;
        return Ok(Weekdays::Nth(day % WEEKDAY.cycle, number));
    }
    let set = parse_values(WEEKDAY, text)?.set;
    Ok(Weekdays::Set((set | set >> WEEKDAY.cycle) & 0x7f))
}

/// Reads a field from its beginning on.
struct Reader<'a> {
    field: Field,
    text: &'a str,
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn new(field: Field, text: &'a str) -> Self {
        Self { field, text, rest: text.as_bytes() }
    }

    fn error(&self, problem: impl Into<String>) -> CronError {
        let (field, text) = (self.field.name, self.text.to_owned());
        CronError::Field { field, text, problem: problem.into() }
    }

    /// Takes a character, where it is the next one.
    fn accept(&mut self, wanted: u8) -> bool {
        match self.rest.split_first() {
            Some((next, rest)) if next.eq_ignore_ascii_case(&wanted) => {
                self.rest = rest;
                true
            }
            _ => false,
        }
    }

    fn end(&self) -> Result<(), CronError> {
        match String::from_utf8_lossy(self.rest) {
            rest if rest.is_empty() => Ok(()),
            rest => Err(self.error(format!("nothing is expected where '{rest}' is"))),
        }
    }

    /// Everything, or a list of values and ranges.
    fn values(&mut self) -> Result<Values, CronError> {
        let Field { first, last, .. } = self.field;
        if self.accept(b'*') || self.accept(b'?') {
            let step = if self.accept(b'/') { self.step()? } else { 1 };
            return Ok(Values { set: self.set_between(first, last, step), is_interval: true });
        }

        let mut all = Values::default();
        loop {
            let low = self.value()?;
            let (high, is_range) = match self.accept(b'-') {
                true => (self.value()?, true),
                false => (low, false),
            };
            let (high, step, has_step) = match (self.accept(b'/'), is_range) {
                (true, true) => (high, self.step()?, true),
                (true, false) => (last, self.step()?, true),
                (false, _) => (high, 1, false),
            };
            all.set |= self.set_between(low, high, step);
            all.is_interval |= is_range || has_step;
            if !self.accept(b',') {
                return Ok(all);
            }
        }
    }

    /// A number or a name.
    fn value(&mut self) -> Result<u8, CronError> {
        let Field { first, last, names, .. } = self.field;
        let begins = |name: &&str| {
            self.rest.get(..name.len()).is_some_and(|n| n.eq_ignore_ascii_case(name.as_bytes()))
        };
        match names.iter().position(begins) {
            Some(at) => {
                self.rest = &self.rest[names[at].len()..];
                Ok(first + u8::try_from(at).unwrap_or_default())
            }
            None => self.number(first, last),
        }
    }

    fn step(&mut self) -> Result<u8, CronError> {
        self.number(1, self.field.last)
    }

    fn number(&mut self, min: u8, max: u8) -> Result<u8, CronError> {
        let digits = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (number, rest) = self.rest.split_at(digits);
        let number = std::str::from_utf8(number).ok().and_then(|number| number.parse().ok());
        match number.filter(|number| (min..=max).contains(number)) {
            Some(number) => {
                self.rest = rest;
                Ok(number)
            }
            None => {
                let or_name =
                    if self.field.names.is_empty() { "" } else { ", or a name of three letters" };
                Err(self.error(format!("a number from {min} to {max} is expected{or_name}")))
            }
        }
    }

    /// Every `step`th value from `low` on, past the last one where `high` comes before it.
    fn set_between(&self, low: u8, high: u8, step: u8) -> u64 {
        let Field { first, cycle, .. } = self.field;
        if low <= high {
            return (low..=high).step_by(step.into()).fold(0, |set, value| set | 1 << value);
        }
        // Sunday as 7 is the one that the week begins with.
        let low = first + (low - first) % cycle;
        let length = if low <= high { high - low } else { high + cycle - low };
        let value = |distance: u8| first + (low - first + distance) % cycle;
        (0..=length).step_by(step.into()).fold(0, |set, distance| set | 1 << value(distance))
    }
}
