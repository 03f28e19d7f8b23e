//! The codec between a message and its JSON body.
//!
//! Reading takes what the C# code takes and a little more. Members are found by name without regard
//! to case, at every depth of our types but never inside free JSON (an environment's names keep
//! their case); of a member that stands twice the first one counts; unknown members are skipped. A
//! body is read in one pass, and no name is copied.
//!
//! An error names the member and the kind of the mistake and never quotes a value: bodies hold
//! secrets, and errors are logged and sent to others.

use bytes::Bytes;
use serde::Deserialize;

use crate::Message;

mod quiet;
mod tolerant;

use tolerant::{Path, Tolerant};

/// Why a body could not be read. No text of the body is in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The body is not UTF-8, not JSON, or nested more than 127 deep.
    #[error("the body is not JSON: {0}")]
    NotJson(Box<str>),
    /// The body is `null`, which is a message to nobody.
    #[error("the body is null")]
    Null,
    /// The body is JSON, and not such a message.
    #[error("the body is invalid: {0}")]
    Invalid(Invalid),
}

/// What is wrong with a body that is JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invalid {
    /// The path of the member with the mistake, such as `servers[0].toolCount`; empty when it is
    /// the body itself. A missing member is named by the problem, not by the path.
    pub member: Box<str>,
    /// What the mistake is, with its place in the body.
    pub problem: Box<str>,
}

impl std::fmt::Display for Invalid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !self.member.is_empty() {
            write!(f, "`{}`: ", self.member)?;
        }
        f.write_str(&self.problem)
    }
}

/// Reads a message from its body.
///
/// # Errors
/// When the body is not JSON, is `null`, lacks a required member or has one of a wrong type.
pub fn read<T: Message>(body: &[u8]) -> Result<T, Error> {
    read_value(body)
}

/// Writes a message as its body: members in camel case, absent ones as `null` where C# does so.
///
/// # Panics
/// When the type cannot be written as JSON: it has a map whose keys are no strings.
#[must_use]
pub fn write<T: Message>(message: &T) -> Bytes {
    serde_json::to_vec(message).expect("a message type has only string keys").into()
}

/// Reads anything by the rules of this module.
pub(crate) fn read_value<'de, T: Deserialize<'de>>(body: &'de [u8]) -> Result<T, Error> {
    // Checked as a whole and first: the parser does not look into texts that it skips.
    let body = std::str::from_utf8(body).map_err(|error| {
        Error::NotJson(format!("invalid UTF-8 at byte {}", error.valid_up_to()).into())
    })?;
    if body.trim_matches([' ', '\t', '\r', '\n']) == "null" {
        return Err(Error::Null);
    }
    let path = Path::default();
    let mut parser = serde_json::Deserializer::from_str(body);
    T::deserialize(Tolerant::new(&mut parser, &path))
        .and_then(|value| parser.end().map(|()| value))
        .map_err(|error| {
            // A mistake of syntax is described by fixed texts, one of data by `quiet`.
            let problem = error.to_string().into_boxed_str();
            if error.is_data() {
                Error::Invalid(Invalid { member: path.into_text(), problem })
            } else {
                Error::NotJson(problem)
            }
        })
}

#[cfg(test)]
mod tests;
