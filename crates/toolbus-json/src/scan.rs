//! Counts what is in a text without building it.

use memchr::memchr2;

use crate::{Limits, OverLimit};

/// How many values are in a text that is JSON: objects, arrays, and what they hold. An empty one
/// counts as two. It reads the bytes and keeps nothing.
#[must_use]
pub fn count_values(text: &[u8]) -> usize {
    let counted = Limits {
        bytes: usize::MAX,
        values: usize::MAX,
        depth: usize::MAX,
        string_bytes: usize::MAX,
    };
    scan(text, &counted).unwrap_or(usize::MAX)
}

/// Compares a text with limits.
pub(crate) fn check(text: &[u8], limits: &Limits) -> Result<(), OverLimit> {
    if text.len() > limits.bytes {
        return Err(OverLimit::Bytes { bytes: text.len(), max: limits.bytes });
    }
    scan(text, limits).map(|_| ())
}

/// How many values are in a text that exceeds no limit.
fn scan(text: &[u8], limits: &Limits) -> Result<usize, OverLimit> {
    let (mut values, mut depth, mut at) = (1_usize, 0_usize, 0);

    while let Some(byte) = text.get(at) {
        at += 1;
        match byte {
            b'"' => {
                let end = end_of_string(text, at);
                if end - at > limits.string_bytes {
                    return Err(OverLimit::StringBytes { max: limits.string_bytes });
                }
                at = end + 1;
            }
            b',' => values += 1,
            b'[' | b'{' => {
                values += 1;
                depth += 1;
                if depth > limits.depth {
                    return Err(OverLimit::Depth { max: limits.depth });
                }
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if values > limits.values {
            return Err(OverLimit::Values { max: limits.values });
        }
    }

    Ok(values)
}

/// Where the closing quote is of a string that begins at `from`, or the end of the text.
fn end_of_string(text: &[u8], from: usize) -> usize {
    let mut at = from;
    while let Some(found) = text.get(at..).and_then(|rest| memchr2(b'"', b'\\', rest)) {
        if text[at + found] == b'"' {
            return at + found;
        }
        // The byte after a backslash ends no string.
        at += found + 2;
    }
    text.len()
}
