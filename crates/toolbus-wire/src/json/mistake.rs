//! What is wrong with a body, in words that hold nothing of it.

use std::fmt::{self, Display};

use serde::de::{self, Expected, Unexpected};

use super::{Error, Invalid};

/// Why a value could not be read, on its way up to the body.
///
/// `serde` has the type that is read describe the mistake to the error type, and the error type of
/// `serde_json` would write the value down.
#[derive(Debug)]
pub(super) struct Mistake {
    problem: String,
    is_syntax: bool,
    /// The path of the member, filled from the inside out: names of our types, places in arrays.
    member: String,
    /// Where in memory the text of the value ends, once that is known.
    end: Option<usize>,
}

impl Mistake {
    /// What the parser says of a text that it takes for JSON at first sight only: a fixed text.
    pub(super) fn of_syntax(error: &serde_json::Error) -> Self {
        let problem = error.to_string();
        // The place in the value is not the place in the body.
        let problem = problem.rsplit_once(" at line ").map_or(&*problem, |(problem, _)| problem);
        Self { is_syntax: true, ..de::Error::custom(problem) }
    }

    /// Notes the value that the mistake is in; the innermost counts.
    pub(super) fn at_end_of(mut self, text: &str) -> Self {
        self.end.get_or_insert(text.as_ptr().addr() + text.len());
        self
    }

    /// Notes the member or the item that the mistake is in.
    pub(super) fn within_segment(mut self, segment: impl Display) -> Self {
        let member = &self.member;
        let dot = if member.is_empty() || member.starts_with('[') { "" } else { "." };
        self.member = format!("{segment}{dot}{member}");
        self
    }

    /// The error of reading `body`, with the place where the value ends.
    pub(super) fn into_error(self, body: &str) -> Error {
        let Self { mut problem, is_syntax, member, end } = self;
        let end = end.and_then(|end| end.checked_sub(body.as_ptr().addr()));

        if let Some(before) = end.and_then(|end| body.get(..end)) {
            let line = before.matches('\n').count() + 1;
            let column = before.len() - before.rfind('\n').map_or(0, |index| index + 1);
            problem = format!("{problem} at line {line} column {column}");
        }

        if is_syntax {
            Error::NotJson(problem.into())
        } else {
            Error::Invalid(Invalid { member: member.into(), problem: problem.into() })
        }
    }
}

impl Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problem)
    }
}

impl std::error::Error for Mistake {}

impl de::Error for Mistake {
    fn custom<T: Display>(message: T) -> Self {
        Self { problem: message.to_string(), is_syntax: false, member: String::new(), end: None }
    }

    fn invalid_type(unexpected: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::custom(format_args!("invalid type: {}, expected {expected}", name_kind(unexpected)))
    }

    fn invalid_value(unexpected: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::custom(format_args!("invalid value: {}, expected {expected}", name_kind(unexpected)))
    }

    fn unknown_variant(_variant: &str, expected: &'static [&'static str]) -> Self {
        Self::custom(format_args!("unknown variant, expected one of {}", expected.join(", ")))
    }

    fn unknown_field(_field: &str, expected: &'static [&'static str]) -> Self {
        Self::custom(format_args!("unknown member, expected one of {}", expected.join(", ")))
    }
}

const fn name_kind(unexpected: Unexpected<'_>) -> &'static str {
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
