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
    let mut rest = text;

    while let Some(first) = rest.chars().next() {
        let after = &rest[first.len_utf8()..];
        rest = match first {
            '\x1b' => skip_escape(after),
            '\u{9b}' => skip_csi(after),
            '\u{90}' | '\u{98}' | '\u{9d}' | '\u{9e}' | '\u{9f}' => skip_string(after),
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
fn is_printable(c: char) -> bool {
    matches!(c, '\n' | '\t') || !(c.is_control() || is_invisible(c))
}

/// Characters that turn the direction of a text or hide in it, so that it is read as another.
fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

/// What follows an escape sequence whose first character, the escape, was read.
fn skip_escape(text: &str) -> &str {
    let mut chars = text.chars();
    match chars.next() {
        Some('[') => skip_csi(chars.as_str()),
        Some(']' | 'P' | 'X' | '^' | '_') => skip_string(chars.as_str()),
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

/// What follows a string for the terminal, such as its title. It ends with a bell or a string
/// terminator; one that does not end within its line is shown.
fn skip_string(text: &str) -> &str {
    let line = text.split('\n').next().unwrap_or_default();
    let end = line.char_indices().find_map(|(at, c)| match c {
        '\x07' | '\u{9c}' => Some(at + c.len_utf8()),
        '\x1b' if line[at..].starts_with("\x1b\\") => Some(at + 2),
        _ => None,
    });
    end.map_or(text, |end| &text[end..])
}

#[cfg(test)]
mod tests;
