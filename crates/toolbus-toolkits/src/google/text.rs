//! Texts of Google, as models and people may see them.

use serde_json::Value;
use toolbus_tools::SecretFinder;
use toolbus_tools::credentials::ERASED_LENGTH_MIN;

/// Longest value that stands on a line, in characters.
pub(super) const LINE_CHARS_MAX: usize = 4_000;

/// A text in one line: control characters and line breaks of others make no lines here.
pub(super) fn one_line(text: &str, chars_max: usize) -> String {
    let is_break = |c: char| c.is_whitespace() || c.is_control();
    let mut words = text.split(is_break).filter(|word| !word.is_empty());
    let mut line = words.next().unwrap_or_default().to_owned();
    for word in words {
        line.push(' ');
        line.push_str(word);
    }
    match line.char_indices().nth(chars_max) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}

/// A text without these secrets.
pub(super) fn erase(text: &str, secrets: &[&str]) -> String {
    let long = secrets.iter().copied().filter(|secret| secret.len() >= ERASED_LENGTH_MIN);
    match SecretFinder::new(long) {
        Some(finder) => finder.erase_text(text).into_owned(),
        None => text.to_owned(),
    }
}

/// A text of an answer in one line; empty where there is none.
pub(super) fn field(value: &Value, name: &str) -> String {
    let text = value.get(name).and_then(Value::as_str).unwrap_or_default();
    one_line(text, LINE_CHARS_MAX)
}
