//! Bytes as text for a reader.

use std::borrow::Cow;
use std::fmt::Write as _;

/// The media type of what has none.
const UNKNOWN_MEDIA_TYPE: &str = "unknown type";
/// How many bytes a description of binary content shows.
const SHOWN_BYTES: usize = 64;
/// Bytes in a line of hexadecimal digits.
const HEX_LINE_BYTES: usize = 16;

/// That bytes were replaced.
pub(super) const REPLACED_NOTE: &str = "bytes that are not UTF-8 are shown as U+FFFD";

/// Whether content that begins like this is no text: it has a NUL byte, or more than a tenth of it
/// is not UTF-8.
pub(super) fn is_binary(beginning: &[u8]) -> bool {
    if memchr::memchr(0, beginning).is_some() {
        return true;
    }

    let chunks = beginning.utf8_chunks();
    let invalid: usize = chunks.map(|chunk| chunk.invalid().len()).sum();
    // The last character may be cut.
    invalid > beginning.len() / 10 + 3
}

/// What can be said of binary content.
pub(super) fn describe_binary(
    beginning: &[u8],
    media_type: Option<&str>,
    size: Option<u64>,
) -> String {
    let media_type = media_type.unwrap_or(UNKNOWN_MEDIA_TYPE);
    let size = size.map_or_else(|| "size not known".to_owned(), |size| format!("{size} bytes"));
    let shown = &beginning[..beginning.len().min(SHOWN_BYTES)];
    let mut text = format!("binary, {media_type}, {size}; it begins with\n");

    for (at, line) in shown.chunks(HEX_LINE_BYTES).enumerate() {
        // Writing to a string cannot fail.
        let _ = write!(text, "{:08x} ", at * HEX_LINE_BYTES);
        for byte in line {
            let _ = write!(text, " {byte:02x}");
        }
        text.push('\n');
    }
    text
}

/// The bytes as text, and whether some had to be replaced.
pub(super) fn lossy(bytes: &[u8]) -> (Cow<'_, str>, bool) {
    let text = String::from_utf8_lossy(bytes);
    let replaced = matches!(text, Cow::Owned(_));
    (text, replaced)
}

/// The longest beginning that ends with a whole character, if all of that is UTF-8.
pub(super) fn whole_characters(bytes: &[u8]) -> Option<&str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Some(text),
        // The last character is cut.
        Err(error) if error.error_len().is_none() => {
            let valid = std::str::from_utf8(&bytes[..error.valid_up_to()]).ok()?;
            Some(valid).filter(|text| !text.is_empty())
        }
        Err(_) => None,
    }
}
