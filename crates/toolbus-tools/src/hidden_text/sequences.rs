//! Control sequences, which a terminal executes instead of displaying.

use std::borrow::Cow;

/// Removes control sequences of terminals from a text. An unterminated sequence loses only its
/// introducer, so that it cannot hide the text that follows.
#[must_use]
pub fn without_control_sequences(text: &str) -> Cow<'_, str> {
    let Some(begin) = text.find(is_introducer) else { return Cow::Borrowed(text) };
    let mut cleaned = String::with_capacity(text.len());
    cleaned.push_str(&text[..begin]);
    let mut strings = StringSkipper::default();
    let mut rest = &text[begin..];

    while let Some(at) = rest.find(is_introducer) {
        cleaned.push_str(&rest[..at]);
        let mut chars = rest[at..].chars();
        let introducer = chars.next();
        let after = chars.as_str();
        rest = match introducer {
            Some('\x1b') => skip_escape(after, &mut strings),
            Some('\u{9b}') => skip_csi(after),
            _ => strings.skip(after),
        };
    }

    cleaned.push_str(rest);
    Cow::Owned(cleaned)
}

fn is_introducer(c: char) -> bool {
    matches!(c, '\x1b' | '\u{9b}' | '\u{90}' | '\u{98}' | '\u{9d}' | '\u{9e}' | '\u{9f}')
}

/// Returns the text after an escape sequence, whose escape character was already read.
fn skip_escape<'a>(text: &'a str, strings: &mut StringSkipper) -> &'a str {
    let mut chars = text.chars();
    match chars.next() {
        Some('[') => skip_csi(chars.as_str()),
        Some(']' | 'P' | 'X' | '^' | '_') => strings.skip(chars.as_str()),
        // Other sequences have intermediate characters and a final one, such as the choice of a
        // character set.
        Some(' '..='/') => {
            let rest = chars.as_str().trim_start_matches(|c| matches!(c, ' '..='/'));
            rest.strip_prefix(|c| matches!(c, '0'..='~')).unwrap_or(rest)
        }
        Some('0'..='~') => chars.as_str(),
        _ => text,
    }
}

/// Returns the text after a control sequence: parameters, intermediate characters, a final
/// character.
fn skip_csi(text: &str) -> &str {
    let rest = text.trim_start_matches(|c| matches!(c, ' '..='?'));
    match rest.strip_prefix(|c| matches!(c, '@'..='~')) {
        Some(rest) => rest,
        // The sequence is incomplete or invalid. Its text is displayed, so that it cannot hide
        // anything.
        None => text,
    }
}

/// Skips terminal strings, such as the window title. Searches each part of a text once for their
/// ends, no matter how many strings begin before it.
#[derive(Default)]
struct StringSkipper {
    /// Length of the text that remains after a line in which no string ends.
    left_behind: Option<usize>,
}

impl StringSkipper {
    /// Returns the text after a string. A string ends with a bell or a string terminator; a string
    /// that does not end on its line is displayed. Calls must pass texts in order, each a later
    /// part of the first.
    fn skip<'a>(&mut self, text: &'a str) -> &'a str {
        if self.left_behind.is_some_and(|left| text.len() >= left) {
            return text;
        }

        for (at, c) in text.char_indices() {
            match c {
                '\x07' | '\u{9c}' => return &text[at + c.len_utf8()..],
                '\x1b' if text[at..].starts_with("\x1b\\") => return &text[at + 2..],
                '\n' => {
                    self.left_behind = Some(text.len() - at);
                    return text;
                }
                _ => {}
            }
        }
        self.left_behind = Some(0);
        text
    }
}
