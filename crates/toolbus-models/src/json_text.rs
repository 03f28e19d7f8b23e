//! JSON as APIs and models write it, which is not always JSON.

use std::borrow::Cow;

use serde_json::Value;
use toolbus_json::{Error, Limits};
use toolbus_tools::call::ARGUMENTS_DEPTH_MAX;

/// Largest answer, in bytes of its stream.
pub(crate) const ANSWER_BYTES_MAX: usize = 64 << 20;
/// What a model or its API writes: an event of an answer, a call in its text, or the arguments of a
/// call, whose pieces may be all of the answer. It is not deeper than arguments may be: it becomes
/// part of messages.
pub(crate) const ANSWER_LIMITS: Limits =
    Limits::of_bytes(ANSWER_BYTES_MAX).with_depth(ARGUMENTS_DEPTH_MAX);

/// Reads a text as JSON. Half of a surrogate pair, which some APIs and models write and no text
/// here can hold, becomes a replacement character.
pub(crate) fn read_json(text: &str) -> Result<Value, Error> {
    match toolbus_json::from_str(text, &ANSWER_LIMITS) {
        Err(Error::Invalid(error)) => match replace_lone_surrogates(text) {
            Cow::Owned(replaced) => toolbus_json::from_str(&replaced, &ANSWER_LIMITS),
            Cow::Borrowed(_) => Err(error.into()),
        },
        read => read,
    }
}

/// How many values there are in one, itself among them.
pub(crate) fn values_in(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(values_in).sum(),
        Value::Object(members) => members.values().map(values_in).sum(),
        _ => 0,
    }
}

/// The text with `\ufffd` in the place of each escape that stands for half of a surrogate pair.
fn replace_lone_surrogates(text: &str) -> Cow<'_, str> {
    let bytes = text.as_bytes();
    let mut replaced = String::new();
    let (mut at, mut kept) = (0, 0);
    while at < bytes.len() {
        if bytes[at] != b'\\' {
            at += 1;
            continue;
        }
        match surrogate_at(bytes, at) {
            // Any other escape: what it escapes begins none.
            None => at += 2,
            Some(Surrogate::High)
                if matches!(surrogate_at(bytes, at + ESCAPE_BYTES), Some(Surrogate::Low)) =>
            {
                at += 2 * ESCAPE_BYTES;
            }
            Some(_) => {
                replaced.push_str(&text[kept..at]);
                replaced.push_str("\\ufffd");
                at += ESCAPE_BYTES;
                kept = at;
            }
        }
    }

    if kept == 0 {
        return Cow::Borrowed(text);
    }
    replaced.push_str(&text[kept..]);
    Cow::Owned(replaced)
}

/// Bytes of an escape such as `\ud83d`.
const ESCAPE_BYTES: usize = 6;

enum Surrogate {
    High,
    Low,
}

/// Which half of a pair the escape at this place stands for.
fn surrogate_at(bytes: &[u8], at: usize) -> Option<Surrogate> {
    let escape = bytes.get(at..at + ESCAPE_BYTES)?;
    let digits = std::str::from_utf8(escape.strip_prefix(b"\\u")?).ok()?;
    match u16::from_str_radix(digits, 16).ok()? {
        0xd800..=0xdbff => Some(Surrogate::High),
        0xdc00..=0xdfff => Some(Surrogate::Low),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
