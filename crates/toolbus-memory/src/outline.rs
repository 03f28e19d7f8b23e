//! Outlines: which part of a text that was cut has which heading.

use std::fmt::Write as _;

use crate::chunker::Chunk;

/// Longest heading in an outline or a table, in characters.
const LABEL_CHARS_MAX: usize = 120;
/// Most lines of an outline.
const LINES_MAX: usize = 1_000;

/// A heading, and the key under which its text is.
#[derive(Debug, Clone, Copy)]
pub struct OutlineEntry<'a> {
    /// The heading; where it is empty, the number of the part stands for it.
    pub heading: &'a str,
    /// Its level, 0 where it has none.
    pub level: u8,
    /// The key.
    pub key: &'a str,
}

impl<'a> OutlineEntry<'a> {
    /// A chunk that is kept under this key.
    #[must_use]
    pub fn new(chunk: &'a Chunk, key: &'a str) -> Self {
        Self { heading: &chunk.heading, level: chunk.level, key }
    }
}

/// The outline of a text in markdown: a line for each entry, indented by its level. Empty without
/// entries.
#[must_use]
pub fn build_outline<'a>(entries: impl IntoIterator<Item = OutlineEntry<'a>>) -> String {
    let mut entries = entries.into_iter().enumerate().peekable();
    if entries.peek().is_none() {
        return String::new();
    }

    let mut outline = "## Document Outline\n".to_owned();
    for (at, entry) in entries.by_ref().take(LINES_MAX) {
        let indent = "  ".repeat(usize::from(entry.level.saturating_sub(1)));
        let label = label_of(entry.heading, at);
        // Writing to a text never fails.
        let _ = write!(outline, "\n{indent}- **{label}** → `{}`", entry.key);
    }
    let more = entries.count();
    if more > 0 {
        let _ = write!(outline, "\n… and {more} more headings");
    }
    outline
}

/// What a part is called: its heading, shortened, or its number.
pub(crate) fn label_of(heading: &str, at: usize) -> String {
    let heading = heading.trim();
    if heading.is_empty() {
        return format!("Part {at}");
    }
    match heading.char_indices().nth(LABEL_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &heading[..end]),
        None => heading.to_owned(),
    }
}

#[cfg(test)]
mod tests;
