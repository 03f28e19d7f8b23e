//! The one reader of JSON.
//!
//! A JSON value takes up to a hundred times its text in memory: `[` and `]` are two bytes, and an
//! array is dozens. So a limit on bytes alone does not limit memory. [`from_slice`] and
//! [`from_str`] take [`Limits`] on bytes, values, depth and strings, and compare the whole text
//! with them before they build anything. A text over a limit costs one pass over its bytes.
//!
//! [`from_trusted`] reads texts that this program wrote itself, such as a row of its own store, or
//! that are part of it. [`from_checked`] reads what was compared with limits already.
//!
//! `serde_json` gives a name a meaning: of `{"$serde_json::private::RawValue": "…"}` it parses the
//! text, whatever is in it and however deep, while it looks like one string. No reader takes that
//! name, but one that builds nothing.
//!
//! No other code reads JSON texts: `cargo xtask tidy` rejects it.

use serde::Deserialize;

#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod plain;
mod scan;

pub use plain::PlainValue;
pub use scan::count_values;

/// Deepest nesting of a text that is read. `serde_json` reads no deeper into its own values.
pub const DEPTH_MAX: usize = 127;

/// Most values of a text where its reader states no other limit.
pub const VALUES_MAX: usize = 256 << 10;

/// Upper bounds of a text. A text with the name that `serde_json` reserves is always refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the text.
    pub bytes: usize,
    /// Values, those in arrays and objects included. The name of a member is no value.
    pub values: usize,
    /// Arrays and objects within each other.
    pub depth: usize,
    /// Bytes of one string as it is written, and of one name of a member.
    pub string_bytes: usize,
}

impl Limits {
    /// None but that no name is reserved.
    const NONE: Self =
        Self { bytes: usize::MAX, values: usize::MAX, depth: usize::MAX, string_bytes: usize::MAX };

    /// Up to `bytes` bytes, [`VALUES_MAX`] values and a depth of [`DEPTH_MAX`]. One string may be
    /// all of it.
    #[must_use]
    pub const fn of_bytes(bytes: usize) -> Self {
        Self { bytes, values: VALUES_MAX, depth: DEPTH_MAX, string_bytes: bytes }
    }

    /// The same with another limit on values.
    #[must_use]
    pub const fn with_values(self, values: usize) -> Self {
        Self { values, ..self }
    }

    /// The same with another limit on depth.
    #[must_use]
    pub const fn with_depth(self, depth: usize) -> Self {
        Self { depth, ..self }
    }

    /// The same with another limit on strings.
    #[must_use]
    pub const fn with_string_bytes(self, string_bytes: usize) -> Self {
        Self { string_bytes, ..self }
    }

    /// Compares a text with the limits. It need not be JSON; what is counted of one that is not,
    /// says nothing.
    ///
    /// # Errors
    /// The first limit that it exceeds.
    pub fn check(&self, text: &[u8]) -> Result<(), OverLimit> {
        self.count(text).map(drop)
    }

    /// The same, and how many values the text has.
    ///
    /// # Errors
    /// The first limit that it exceeds.
    pub fn count(&self, text: &[u8]) -> Result<usize, OverLimit> {
        scan::count(text, self)
    }
}

/// A text exceeds a limit. Nothing of the text is in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OverLimit {
    /// The text is too long.
    #[error("it has {bytes} bytes, and the limit is {max}")]
    Bytes {
        /// Its length.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// There are too many values in it.
    #[error("it has more than {max} values")]
    Values {
        /// The limit.
        max: usize,
    },
    /// Arrays and objects are nested too deeply.
    #[error("it is nested more than {max} deep")]
    Depth {
        /// The limit.
        max: usize,
    },
    /// A member has the name behind which `serde_json` parses a text as JSON.
    #[error("it has a member of a reserved name")]
    ReservedName,
    /// A string, or a name of a member, is too long.
    #[error("it has a string of more than {max} bytes")]
    StringBytes {
        /// The limit.
        max: usize,
    },
}

/// A text cannot be read. An exceeded limit quotes nothing of the text; an error of `serde_json`
/// may quote a value that has the wrong type.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It exceeds a limit.
    #[error(transparent)]
    OverLimit(#[from] OverLimit),
    /// It is not JSON, or not of the type that is read.
    #[error(transparent)]
    Invalid(#[from] serde_json::Error),
}

impl From<Error> for serde_json::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::OverLimit(over) => serde::de::Error::custom(over),
            Error::Invalid(invalid) => invalid,
        }
    }
}

/// Reads a text from outside.
///
/// # Errors
/// When it exceeds a limit, is not JSON, or is not a `T`.
pub fn from_str<'de, T: Deserialize<'de>>(text: &'de str, limits: &Limits) -> Result<T, Error> {
    limits.check(text.as_bytes())?;
    Ok(serde_json::from_str(text)?)
}

/// Reads bytes from outside.
///
/// # Errors
/// When they exceed a limit, are not JSON in UTF-8, or are not a `T`.
pub fn from_slice<'de, T: Deserialize<'de>>(text: &'de [u8], limits: &Limits) -> Result<T, Error> {
    limits.check(text)?;
    Ok(serde_json::from_slice(text)?)
}

/// Reads a text that this program wrote, or that is part of it.
///
/// # Errors
/// When it has a member of a reserved name, is not JSON, or is not a `T`.
pub fn from_trusted<'de, T: Deserialize<'de>>(text: &'de str) -> Result<T, serde_json::Error> {
    Limits::NONE.check(text.as_bytes()).map_err(Error::OverLimit)?;
    from_checked(text)
}

/// Reads a text that was compared with limits already, or of which nothing is built, such as a
/// [`RawValue`](serde_json::value::RawValue).
///
/// # Errors
/// When it is not JSON, or is not a `T`.
pub fn from_checked<'de, T: Deserialize<'de>>(text: &'de str) -> Result<T, serde_json::Error> {
    serde_json::from_str(text)
}

/// A parser for visitors of a text that [`from_checked`] may read.
#[must_use]
pub fn checked_parser(text: &str) -> serde_json::Deserializer<serde_json::de::StrRead<'_>> {
    serde_json::Deserializer::from_str(text)
}

#[cfg(test)]
mod tests;
