//! Parts of texts that models read.

use std::borrow::Cow;

/// Most characters of a name that is said again.
const QUOTED_CHARS_MAX: usize = 80;

/// A name in quotation marks, shortened, in one line.
pub(crate) fn quote(name: &str) -> String {
    format!("'{}'", one_line(name, QUOTED_CHARS_MAX))
}

/// A text in one line, shortened to so many characters.
pub(crate) fn one_line(text: &str, chars_max: usize) -> String {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    let mut line: String = text.chars().take(chars_max).map(plain).collect();
    if text.chars().nth(chars_max).is_some() {
        line.push('…');
    }
    line
}

/// The beginning of a text of so many characters, and how many more there are.
pub(crate) fn beginning(text: &str, chars_max: usize) -> (&str, usize) {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => (&text[..end], text[end..].chars().count()),
        None => (text, 0),
    }
}

/// A text of at most so many bytes; what is longer is cut, and says so.
pub(crate) fn cut(text: Cow<'_, str>, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text.into_owned();
    }
    let end = text.floor_char_boundary(bytes_max);
    let omitted = text[end..].chars().count();
    format!("{}\n[result truncated — {omitted} chars omitted]", &text[..end])
}

/// Names in a list, each in backticks.
pub(crate) fn list<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<_> = names.into_iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}
