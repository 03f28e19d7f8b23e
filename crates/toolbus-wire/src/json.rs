//! The codec between a message and its JSON body.
//!
//! Reading takes what the C# code takes and a little more. Members are found by name without regard
//! to case, at every depth of our types but never inside free JSON (an environment's names keep
//! their case); of a member that stands twice the first one counts; unknown members are skipped.
//!
//! An error names the member and the kind of the mistake and never quotes a value: bodies hold
//! secrets, and errors are logged and sent to others.

use std::io;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use toolbus_json::{VALUES_MAX, from_checked};

use crate::Message;

mod mistake;
mod raw;
mod reader;

pub use raw::{RawJson, ValueError};
use reader::{JsonText, ValueBudget};

/// Why a body could not be read. No text of the body is in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The body is not UTF-8, not JSON, or has free JSON that is nested more than 127 deep.
    #[error("the body is not JSON: {0}")]
    NotJson(Box<str>),
    /// The body is `null`, which is no message.
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
/// When the body is not JSON, is `null`, lacks a required member or has one of a wrong type, or
/// when more than [`VALUES_MAX`] values would be built of it.
pub fn read<T: Message>(body: &[u8]) -> Result<T, Error> {
    read_value(body)
}

/// Writes a message as its body: members in camel case, absent ones as `null` where C# does so.
///
/// # Panics
/// When the type cannot be written as JSON: it has a map whose keys are no strings.
#[must_use]
pub fn write<T: Message>(message: &T) -> Bytes {
    let mut body = Body(Vec::with_capacity(BODY_BYTES));
    serde_json::to_writer(&mut body, message).expect("a message type has only string keys");
    body.0.into()
}

/// How many bytes a body has room for at first: most have no more.
const BODY_BYTES: usize = 512;
/// From how many bytes on a piece of a body gets just the room that it takes.
const LARGE_PIECE_BYTES: usize = 64 << 10;

/// A body that is being written. What is large is in it once: a vector that grew by doubling would
/// be moved, and have room for as much again.
struct Body(Vec<u8>);

impl io::Write for Body {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        if piece.len() >= LARGE_PIECE_BYTES {
            self.0.reserve_exact(piece.len() + BODY_BYTES);
        }
        self.0.extend_from_slice(piece);
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads anything by the rules of this module.
pub(crate) fn read_value<'de, T: Deserialize<'de>>(body: &'de [u8]) -> Result<T, Error> {
    // Checked as a whole and first: the parser does not look into texts that it skips.
    let body = std::str::from_utf8(body).map_err(|error| {
        Error::NotJson(format!("invalid UTF-8 at byte {}", error.valid_up_to()).into())
    })?;

    // The syntax of all of it, members that are skipped included. The parser's words quote nothing.
    let whole: &RawValue =
        from_checked(body).map_err(|error| Error::NotJson(error.to_string().into()))?;
    let text = whole.get();

    if text == "null" {
        return Err(Error::Null);
    }

    let budget = ValueBudget::of(VALUES_MAX);
    T::deserialize(JsonText { text, budget: &budget })
        .map_err(|mistake| mistake.at_end_of(text).into_error(body))
}

#[cfg(test)]
mod tests;
