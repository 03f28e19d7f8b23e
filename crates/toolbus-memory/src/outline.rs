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
    /// The heading. Where there is none, the number of the part stands for it.
    pub heading: &'a str,
    /// The number of the part, from 0.
    pub number: usize,
    /// Its level, 0 where it has none.
    pub level: u8,
    /// The key.
    pub key: &'a str,
}

impl<'a> OutlineEntry<'a> {
    /// The chunk of this number, which is kept under this key.
    #[must_use]
    pub fn new(chunk: &'a Chunk, number: usize, key: &'a str) -> Self {
        Self { heading: &chunk.heading, number, level: chunk.level, key }
    }
}

/// The outline of a text in markdown: a line for each entry, indented by its level. Empty without
/// entries.
#[must_use]
pub fn build_outline<'a>(entries: impl IntoIterator<Item = OutlineEntry<'a>>) -> String {
    let mut entries = entries.into_iter().peekable();
    if entries.peek().is_none() {
        return String::new();
    }

    let mut outline = "## Document Outline\n".to_owned();
    for entry in entries.by_ref().take(LINES_MAX) {
        let indent = "  ".repeat(usize::from(entry.level.saturating_sub(1)));
        let label = label_of(entry.heading, entry.number);
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
pub(crate) fn label_of(heading: &str, number: usize) -> String {
    if !is_named(heading) {
        return format!("Part {number}");
    }
    match heading.char_indices().nth(LABEL_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &heading[..end]),
        None => heading.to_owned(),
    }
}

/// Whether a chunk's heading is more than a note that it continues a text without one.
pub(crate) fn is_named(heading: &str) -> bool {
    !heading.is_empty() && !heading.starts_with(' ')
}

#[cfg(test)]
mod tests;
