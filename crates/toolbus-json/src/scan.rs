//! Counts what is in a text without building it.

use memchr::memchr2;

use crate::{Limits, OverLimit};

/// Name of a member that `serde_json` reserves: as the first one of an object, its text is parsed
/// as JSON with a new depth limit. A crate that uses raw values enables that for all crates of
/// its program.
const RESERVED_NAME: &[u8] = b"$serde_json::private::RawValue";
/// Longest form of the reserved name: each byte as a `\u` escape of six bytes.
const RESERVED_NAME_ESCAPED_MAX: usize = RESERVED_NAME.len() * 6;

/// Counts the values of a text that is JSON: objects, arrays, and what they hold. An empty one
/// counts as two. It reads the bytes and keeps nothing.
#[must_use]
pub fn count_values(text: &[u8]) -> usize {
    let (mut values, mut at) = (1, 0);
    while let Some(byte) = text.get(at) {
        at += 1;
        match byte {
            b'"' => at = end_of_string(text, at) + 1,
            b',' | b'[' | b'{' => values += 1,
            _ => {}
        }
    }
    values
}

/// Whether `serde_json` would parse the text behind this name of a member.
pub(crate) fn is_reserved_name(name: &str) -> bool {
    name.as_bytes() == RESERVED_NAME
}

/// Compares a text with limits, and counts its values.
pub(crate) fn count(text: &[u8], limits: &Limits) -> Result<usize, OverLimit> {
    if text.len() > limits.bytes {
        return Err(OverLimit::Bytes { bytes: text.len(), max: limits.bytes });
    }
    let (mut values, mut depth, mut at) = (1_usize, 0_usize, 0);

    while let Some(byte) = text.get(at) {
        at += 1;
        match byte {
            b'"' => {
                let end = end_of_string(text, at);
                if end - at > limits.string_bytes {
                    return Err(OverLimit::StringBytes { max: limits.string_bytes });
                }
                if is_written_reserved(&text[at..end]) && is_name(text, end + 1) {
                    return Err(OverLimit::ReservedName);
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

/// Whether a string as it is written, with escapes, is the reserved name.
fn is_written_reserved(written: &[u8]) -> bool {
    let may_be = matches!(written.first(), Some(b'$' | b'\\'))
        && (RESERVED_NAME.len()..=RESERVED_NAME_ESCAPED_MAX).contains(&written.len());
    if !may_be {
        return false;
    }

    let quoted = [b"\"", written, b"\""].concat();
    serde_json::from_slice::<String>(&quoted).is_ok_and(|name| is_reserved_name(&name))
}

/// Whether a string that ends before `at` is the name of a member.
fn is_name(text: &[u8], at: usize) -> bool {
    let rest = text.get(at..).unwrap_or_default();
    rest.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b':')
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
