//! An error that tells the kind of a wrong value and never the value.

use std::fmt::{self, Display};

use serde::de::{self, Expected, Unexpected};

/// The problem with a value, in words that hold nothing of the value.
///
/// `serde` has the type that is read describe the mistake to the error type, and the error type of
/// `serde_json` would write the value down.
#[derive(Debug)]
pub(super) struct Quiet(String);

impl Display for Quiet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Quiet {}

impl de::Error for Quiet {
    fn custom<T: Display>(message: T) -> Self {
        Self(message.to_string())
    }

    fn invalid_type(unexpected: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self(format!("invalid type: {}, expected {expected}", kind(unexpected)))
    }

    fn invalid_value(unexpected: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self(format!("invalid value: {}, expected {expected}", kind(unexpected)))
    }

    fn unknown_variant(_variant: &str, expected: &'static [&'static str]) -> Self {
        Self(format!("unknown variant, expected one of {}", expected.join(", ")))
    }

    fn unknown_field(_field: &str, expected: &'static [&'static str]) -> Self {
        Self(format!("unknown member, expected one of {}", expected.join(", ")))
    }
}

const fn kind(unexpected: Unexpected<'_>) -> &'static str {
    match unexpected {
        Unexpected::Bool(_) => "boolean",
        Unexpected::Unsigned(_) | Unexpected::Signed(_) => "integer",
        Unexpected::Float(_) => "floating point",
        Unexpected::Char(_) | Unexpected::Str(_) | Unexpected::Bytes(_) => "string",
        Unexpected::Unit | Unexpected::Option => "null",
        Unexpected::Seq => "sequence",
        Unexpected::Map => "map",
        _ => "value of another kind",
    }
}
