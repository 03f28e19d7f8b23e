//! Times of events, as models write them.

use jiff::civil::{Date, DateTime, Time, time};
use jiff::fmt::temporal::{Pieces, PiecesOffset};
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use serde_json::{Value, json};

/// Longest time that is read, in bytes.
const TIME_BYTES_MAX: usize = 64;
/// How Google has times.
const FORMAT: &str = "%Y-%m-%dT%H:%M:%S%:z";
/// The last second of a day.
const DAY_END: Time = time(23, 59, 59, 0);

/// When an event starts or ends.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum EventTime {
    /// A day.
    Day(Date),
    /// A moment.
    Moment {
        at: Zoned,
        /// It had no offset: the zone is the user's, and Google is told.
        is_naive: bool,
    },
}

impl EventTime {
    /// Reads a date, or a time with or without an offset.
    pub(super) fn parse(name: &str, text: &str, zone: &TimeZone) -> Result<Self, String> {
        let wrong = || {
            format!(
                "{name} must be a date such as 2026-01-31, or a time such as 2026-01-31T09:00:00 \
                 or 2026-01-31T09:00:00+01:00"
            )
        };
        let text = text.trim();
        if text.len() > TIME_BYTES_MAX {
            return Err(wrong());
        }
        let pieces = Pieces::parse(text).map_err(|_| wrong())?;
        if pieces.time_zone_annotation().is_some() {
            return Err(wrong());
        }

        let Some(time) = pieces.time() else {
            return if pieces.offset().is_none() {
                Ok(Self::Day(pieces.date()))
            } else {
                Err(wrong())
            };
        };
        let (zone, is_naive) = match pieces.offset() {
            None => (zone.clone(), true),
            Some(PiecesOffset::Zulu) => (TimeZone::UTC, false),
            Some(offset) => (TimeZone::fixed(offset.to_numeric_offset()), false),
        };
        let at = pieces.date().to_datetime(time).to_zoned(zone).map_err(|_| wrong())?;
        Ok(Self::Moment { at, is_naive })
    }

    /// As Google takes it.
    pub(super) fn to_json(&self, zone_name: &str) -> Value {
        match self {
            Self::Day(date) => json!({"date": date.to_string()}),
            Self::Moment { at, is_naive: true } => {
                json!({"dateTime": text_of(at), "timeZone": zone_name})
            }
            Self::Moment { at, is_naive: false } => json!({"dateTime": text_of(at)}),
        }
    }

    /// The moment that a list begins at.
    pub(super) fn as_lower_bound(&self, zone: &TimeZone) -> Result<Zoned, String> {
        self.moment(zone, Time::midnight())
    }

    /// The moment that a list ends at: of a day, its last second.
    pub(super) fn as_upper_bound(&self, zone: &TimeZone) -> Result<Zoned, String> {
        self.moment(zone, DAY_END)
    }

    fn moment(&self, zone: &TimeZone, time: Time) -> Result<Zoned, String> {
        match self {
            Self::Moment { at, .. } => Ok(at.clone()),
            Self::Day(date) => zoned(date.to_datetime(time), zone),
        }
    }
}

/// Checks that an event that starts and ends then can be.
pub(super) fn check_order(start: &EventTime, end: &EventTime) -> Result<(), String> {
    let is_before = match (start, end) {
        (EventTime::Day(start), EventTime::Day(end)) => end < start,
        (EventTime::Moment { at: start, .. }, EventTime::Moment { at: end, .. }) => {
            end.timestamp() < start.timestamp()
        }
        _ => {
            return Err(
                "start and end must both be dates, or both be times: an event is either of whole \
                 days or of a time"
                    .to_owned(),
            );
        }
    };
    if is_before { Err("end is before start".to_owned()) } else { Ok(()) }
}

/// The first and the last second of today.
pub(super) fn today(now: Timestamp, zone: &TimeZone) -> Result<(Zoned, Zoned), String> {
    let date = now.to_zoned(zone.clone()).date();
    Ok((zoned(date.to_datetime(Time::midnight()), zone)?, zoned(date.to_datetime(DAY_END), zone)?))
}

/// A moment as Google has it.
pub(super) fn text_of(at: &Zoned) -> String {
    at.strftime(FORMAT).to_string()
}

fn zoned(at: DateTime, zone: &TimeZone) -> Result<Zoned, String> {
    at.to_zoned(zone.clone()).map_err(|_| "the time is out of range".to_owned())
}

/// Reads when an event starts and ends, and does with both what is done with those of events.
#[cfg(feature = "fuzzing")]
pub(crate) fn fuzz(start: &str, end: &str, zone: &TimeZone) {
    let read = |name: &str, text: &str| EventTime::parse(name, text, zone);
    let (Ok(start), Ok(end)) = (read("start", start), read("end", end)) else { return };
    let _ = check_order(&start, &end);
    let _ = (start.to_json("Europe/Berlin"), end.to_json("Europe/Berlin"));
    let _ = (start.as_lower_bound(zone), end.as_upper_bound(zone));
}
