//! Text of strangers as a terminal may have it.
//!
//! What a tool returns can hold sequences that a terminal obeys: they set its title or clipboard,
//! move the cursor over what was printed before, or turn the direction of the text. Piped output is
//! data and stays as it is; what a person reads on a terminal passes through [`clean`].

use std::borrow::Cow;
use std::io::IsTerminal;

/// The text without control sequences, control characters and invisible characters, where `stream`
/// is a terminal; else the text as it is.
pub(crate) fn for_stream<'a>(text: &'a str, stream: &impl IsTerminal) -> Cow<'a, str> {
    if stream.is_terminal() { Cow::Owned(clean(text)) } else { Cow::Borrowed(text) }
}

/// The text without control sequences, control characters and invisible characters. Line ends and
/// tabs stay.
pub(crate) fn clean(text: &str) -> String {
    let mut cleaned = String::with_capacity(text.len());
    let mut strings = StringSkipper::default();
    let mut rest = text;

    while let Some(first) = rest.chars().next() {
        let after = &rest[first.len_utf8()..];
        rest = match first {
            '\x1b' => skip_escape(after, &mut strings),
            '\u{9b}' => skip_csi(after),
            '\u{90}' | '\u{98}' | '\u{9d}' | '\u{9e}' | '\u{9f}' => strings.skip(after),
            _ => {
                if is_printable(first) {
                    cleaned.push(first);
                }
                after
            }
        };
    }

    cleaned
}

/// Whether a terminal shows this character and does nothing else because of it.
pub(crate) fn is_printable(c: char) -> bool {
    matches!(c, '\n' | '\t') || !(c.is_control() || is_invisible(c))
}

/// Characters that turn the direction of a text or hide in it, so that it is read as another.
fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

/// What follows an escape sequence whose first character, the escape, was read.
fn skip_escape<'a>(text: &'a str, strings: &mut StringSkipper) -> &'a str {
    let mut chars = text.chars();
    match chars.next() {
        Some('[') => skip_csi(chars.as_str()),
        Some(']' | 'P' | 'X' | '^' | '_') => strings.skip(chars.as_str()),
        // Others have intermediate characters and one that is final, such as a character set's.
        Some(' '..='/') => {
            let rest = chars.as_str().trim_start_matches(|c| matches!(c, ' '..='/'));
            rest.strip_prefix(|c| matches!(c, '0'..='~')).unwrap_or(rest)
        }
        Some('0'..='~') => chars.as_str(),
        _ => text,
    }
}

/// What follows a control sequence: parameters, intermediate characters, and a final one.
fn skip_csi(text: &str) -> &str {
    let rest = text.trim_start_matches(|c| matches!(c, ' '..='?'));
    match rest.strip_prefix(|c| matches!(c, '@'..='~')) {
        Some(rest) => rest,
        // It is cut off or none: its text is shown, so that nothing can be hidden this way.
        None => text,
    }
}

/// Skips strings for the terminal, such as its title. Each place of a text is searched once for
/// their ends, however many begin before it.
#[derive(Default)]
struct StringSkipper {
    /// How much text is left at the end of a line in whose rest no string ends.
    left_behind: Option<usize>,
}

impl StringSkipper {
    /// What follows a string. It ends with a bell or a string terminator; one that does not end
    /// within its line is shown. Texts have to be given in order, each a later part of the first.
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

#[cfg(test)]
mod tests;
