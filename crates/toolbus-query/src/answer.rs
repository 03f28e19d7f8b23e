//! Answers, as callers and their models read them.

use serde::{Deserialize, Serialize};

/// The answer to a question.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// At most as many bytes as the caller allowed.
    pub text: String,
    /// What `text` is.
    pub encoding: Encoding,
    /// The bytes of the value that `text` is. Only of slices, which are exact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<ByteRange>,
    /// How many lines, matching lines, outputs or rows `text` has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// How to get what comes after; absent where that was all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub more: Option<More>,
    /// What a reader has to know: what was cut, replaced or left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// What the text of an answer is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Encoding {
    /// Text.
    #[default]
    Text,
    /// Bytes in base64, with padding.
    Base64,
}

/// A part of a value, in bytes from its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ByteRange {
    /// The first byte.
    pub start: u64,
    /// The byte after the last one.
    pub end: u64,
}

/// That there is more, and how to ask for it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct More {
    /// A sentence for whoever asked.
    pub hint: String,
    /// The first byte that was not shown, for a slice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<u64>,
    /// The first line that was not shown, counted from 1, for lines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_line: Option<u64>,
    /// How many matches, outputs or rows to skip the next time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skip: Option<u64>,
}
