//! The text of a file, and parts of it by lines.

use super::error::Error;

/// That bytes were replaced, as models are told elsewhere, too.
const REPLACED_NOTE: &str = "bytes that are not UTF-8 are shown as U+FFFD";

/// The text of a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Text {
    pub(super) text: String,
    /// Some of its bytes were replaced.
    pub(super) has_replaced: bool,
}

/// Which lines are asked for.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Window {
    /// The first one, from 1.
    pub(super) offset: Option<u64>,
    /// How many.
    pub(super) limit: Option<u64>,
}

/// Decodes a file: UTF-8, or UTF-16 where its mark says so. The mark is no part of the text. A few
/// bytes that are none are replaced; with more of them, or a zero byte, it is no text.
pub(super) fn decode(bytes: Vec<u8>, shown: &str) -> Result<Text, Error> {
    let binary = || Error::Binary(shown.to_owned());
    match bytes.as_slice() {
        [0xFF, 0xFE, rest @ ..] => {
            return decode_utf16(rest, u16::from_le_bytes).ok_or_else(binary);
        }
        [0xFE, 0xFF, rest @ ..] => {
            return decode_utf16(rest, u16::from_be_bytes).ok_or_else(binary);
        }
        _ if memchr::memchr(0, &bytes).is_some() => return Err(binary()),
        _ => {}
    }

    let mut decoded = match String::from_utf8(bytes) {
        Ok(text) => Text { text, has_replaced: false },
        Err(error) => {
            let bytes = error.as_bytes();
            let invalid: usize = bytes.utf8_chunks().map(|chunk| chunk.invalid().len()).sum();
            if invalid > bytes.len() / 10 + 3 {
                return Err(binary());
            }
            Text { text: String::from_utf8_lossy(bytes).into_owned(), has_replaced: true }
        }
    };
    if decoded.text.starts_with('\u{FEFF}') {
        decoded.text.drain(..'\u{FEFF}'.len_utf8());
    }
    Ok(decoded)
}

fn decode_utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Option<Text> {
    let (pairs, rest) = bytes.as_chunks::<2>();
    let units = pairs.iter().map(|pair| unit(*pair));
    let text: Result<String, _> = char::decode_utf16(units).collect();
    let text = text.ok().filter(|text| rest.is_empty() && !text.contains('\0'))?;
    Some(Text { text, has_replaced: false })
}

impl Text {
    /// What a model is shown of it: all, or the lines that it asks for with what they are.
    pub(super) fn show(self, window: Window) -> String {
        let Self { text, has_replaced } = self;
        let mut shown = match window {
            Window { offset: None, limit: None } => text,
            window => window.of(&text),
        };
        if has_replaced {
            push_note(&mut shown, REPLACED_NOTE);
        }
        shown
    }
}

impl Window {
    fn of(self, text: &str) -> String {
        let from = self.offset.unwrap_or(1).max(1);
        let skip = usize::try_from(from - 1).unwrap_or(usize::MAX);
        let limit =
            self.limit.map_or(usize::MAX, |lines| usize::try_from(lines).unwrap_or(usize::MAX));

        let all = text.split_inclusive('\n').count();
        let mut shown: String = text.split_inclusive('\n').skip(skip).take(limit).collect();
        let count = all.saturating_sub(skip).min(limit);
        if count < all {
            let note = match count {
                0 => format!("none of {all} lines"),
                _ => format!("lines {from} to {} of {all}", skip + count),
            };
            push_note(&mut shown, &note);
        }
        shown
    }
}

/// Adds a note in brackets, on a line of its own.
pub(super) fn push_note(text: &mut String, note: &str) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(&format!("[{note}]"));
}

/// Decodes a file, and shows lines of it. A text in UTF-8 is as it was, without its mark.
#[cfg(feature = "fuzzing")]
pub(crate) fn fuzz(bytes: &[u8]) {
    let Ok(decoded) = decode(bytes.to_vec(), "file") else { return };
    if let Ok(text) = std::str::from_utf8(bytes) {
        assert_eq!(decoded.text, text.strip_prefix('\u{feff}').unwrap_or(text));
    }
    let _ = decoded.show(Window { offset: Some(2), limit: Some(3) });
}

#[cfg(test)]
mod tests;
