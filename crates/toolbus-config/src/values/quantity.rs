//! Lengths of time and numbers of bytes: a whole number and its unit.

use std::fmt;
use std::time::Duration;

use super::{TextValue, text_value};

/// A length of time, written with its unit: `250ms`, `30s`, `5m`, `12h`, `7d`.
///
/// Whole numbers only; a bare number is refused, because nobody can tell its unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct TimeSpan(Duration);

impl TimeSpan {
    /// A length of whole seconds.
    #[must_use]
    pub const fn seconds(count: u64) -> Self {
        Self(Duration::from_secs(count))
    }

    /// A length of whole milliseconds.
    #[must_use]
    pub const fn milliseconds(count: u64) -> Self {
        Self(Duration::from_millis(count))
    }

    /// The same length for the standard library.
    #[must_use]
    pub const fn duration(self) -> Duration {
        self.0
    }
}

/// The same length, which is shown in whole milliseconds.
impl From<Duration> for TimeSpan {
    fn from(duration: Duration) -> Self {
        Self(duration)
    }
}

/// The units of a [`TimeSpan`] in milliseconds, largest first.
const TIME_UNITS: [(&str, u64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];

impl fmt::Display for TimeSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let milliseconds = u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX);
        write_in_units(f, milliseconds, &TIME_UNITS, "0s")
    }
}

impl TextValue for TimeSpan {
    const FORMAT: &'static str = "time-span";
    const WHAT: &'static str = "a duration";
    const EXAMPLES: &'static [&'static str] = &["250ms", "30s", "5m"];
    const SENSITIVE: bool = false;

    fn read(text: &str) -> Result<Self, String> {
        read_in_units(text, &TIME_UNITS).map(Self::milliseconds)
    }
}

text_value!(TimeSpan);

/// A number of bytes, written with its unit: `512B`, `64KiB`, `8MiB`, `1GiB`, or decimal `10MB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct ByteSize(u64);

impl ByteSize {
    /// A size of so many bytes.
    #[must_use]
    pub const fn of_bytes(count: u64) -> Self {
        Self(count)
    }

    /// A size of so many mebibytes.
    #[must_use]
    pub const fn mebibytes(count: u64) -> Self {
        Self(count << 20)
    }

    /// The number of bytes.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        self.0
    }
}

/// The units of a [`ByteSize`], those it is printed in first, largest first.
const SIZE_UNITS: [(&str, u64); 7] = [
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("B", 1),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1000),
];

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_in_units(f, self.0, &SIZE_UNITS[..4], "0B")
    }
}

impl TextValue for ByteSize {
    const FORMAT: &'static str = "byte-size";
    const WHAT: &'static str = "a size";
    const EXAMPLES: &'static [&'static str] = &["64KiB", "8MiB", "1GiB"];
    const SENSITIVE: bool = false;

    fn read(text: &str) -> Result<Self, String> {
        read_in_units(text, &SIZE_UNITS).map(Self)
    }
}

text_value!(ByteSize);

fn read_in_units(text: &str, units: &[(&str, u64)]) -> Result<u64, String> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);

    let names = || units.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");

    if number.is_empty() {
        return Err("it does not start with a whole number".to_owned());
    }
    if unit.is_empty() {
        return Err(format!("it has no unit ({})", names()));
    }
    let Some((_, factor)) = units.iter().find(|(name, _)| *name == unit.trim_start()) else {
        return Err(format!("its unit is none of {}", names()));
    };

    number
        .parse::<u64>()
        .ok()
        .and_then(|count| count.checked_mul(*factor))
        .ok_or_else(|| "it is too large".to_owned())
}

/// Writes `count` in the largest unit that divides it, so that it reads back to the same count.
fn write_in_units(
    f: &mut fmt::Formatter<'_>,
    count: u64,
    units: &[(&str, u64)],
    zero: &str,
) -> fmt::Result {
    match units.iter().find(|(_, factor)| count != 0 && count.is_multiple_of(*factor)) {
        Some((name, factor)) => write!(f, "{}{name}", count / factor),
        None => f.write_str(zero),
    }
}
