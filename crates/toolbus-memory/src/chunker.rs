//! The chunker: a long text in parts of bounded length, cut where its structure allows.
//!
//! It works as RockBot's `ContentChunker` does (`rockbot.md` §4.2): first at headings of the levels
//! 1 to 3, then at blank lines, then wherever the length is reached. Lengths are in UTF-16 code
//! units, as they are there; a character is never split. Line ends of Windows are read as `\n`.
//! Only headings are bounded here, which RockBot's are not.

use std::borrow::Cow;
use std::ops::Range;

use memchr::memchr;
use memchr::memmem::Finder;

/// Longest line that is a heading, in bytes; each chunk below has it. A longer one is text.
pub(crate) const HEADING_BYTES_MAX: usize = 1 << 10;
/// What stands between paragraphs.
const BLANK_LINE: &str = "\n\n";

/// Cuts texts into chunks.
#[derive(Debug, Clone, Copy)]
pub struct ContentChunker {
    units_max: usize,
}

/// A part of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// The heading that it stands under, without `#`; what continues a section says so. Empty
    /// where there is none.
    pub heading: String,
    /// The text, without the line of its heading.
    pub content: String,
    /// The level of its heading: 1 to 3, or 0 where there is none.
    pub level: u8,
}

/// A heading and the text below it, up to the next.
struct Section<'a> {
    heading: &'a str,
    level: u8,
    content: &'a str,
}

impl ContentChunker {
    /// Makes chunks of at most so many UTF-16 code units; at least of one character.
    #[must_use]
    pub fn new(units_max: usize) -> Self {
        Self { units_max: units_max.max(1) }
    }

    /// The chunks of a text, in order. There is always one.
    #[must_use]
    pub fn chunk(&self, text: &str) -> Vec<Chunk> {
        let text = normalize_line_ends(text);
        let mut chunks = Vec::new();
        let mut sections = sections_of(&text).peekable();

        while let Some(section) = sections.next() {
            let is_last = sections.peek().is_none();
            if !section.content.is_empty() || is_last {
                self.chunk_section(&section, &mut chunks);
            }
        }
        chunks
    }

    /// The chunks of a text whose headings are text like all other.
    pub(crate) fn chunk_without_headings(&self, text: &str) -> Vec<Chunk> {
        let text = normalize_line_ends(text);
        let mut chunks = Vec::new();
        let whole = Section { heading: "", level: 0, content: text.trim() };
        self.chunk_section(&whole, &mut chunks);
        chunks
    }

    fn chunk_section(&self, section: &Section<'_>, chunks: &mut Vec<Chunk>) {
        let Section { heading, level, content } = *section;
        let add = |content: &str, number: usize| {
            let heading = match number {
                0 => heading.to_owned(),
                _ => format!("{heading} (continued {number})"),
            };
            Chunk { heading, content: content.to_owned(), level }
        };

        if utf16_len(content) <= self.units_max {
            chunks.push(add(content, 0));
            return;
        }
        let mut number = 0;
        for piece in self.pack_paragraphs(content) {
            let parts = HardSplit { rest: piece, units_max: self.units_max };
            for part in parts {
                chunks.push(add(part, number));
                number += 1;
            }
        }
    }

    /// Pieces of whole paragraphs, as many in each as fit. One that is too long is alone.
    fn pack_paragraphs<'a>(&self, content: &'a str) -> Vec<&'a str> {
        let mut pieces = Vec::new();
        let mut piece = 0..0;
        let mut units = 0;

        for paragraph in paragraphs_of(content) {
            let more = utf16_len(&content[paragraph.clone()]);
            if units > 0 && units + BLANK_LINE.len() + more > self.units_max {
                pieces.push(content[piece].trim());
                (piece, units) = (paragraph, more);
            } else if units > 0 {
                (piece.end, units) = (paragraph.end, units + BLANK_LINE.len() + more);
            } else {
                (piece, units) = (paragraph, more);
            }
        }
        pieces.push(content[piece].trim());
        pieces.retain(|piece| !piece.is_empty());
        pieces
    }
}

/// A text in parts of at most so many units, or of one character that has more.
struct HardSplit<'a> {
    rest: &'a str,
    units_max: usize,
}

impl<'a> Iterator for HardSplit<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        if self.rest.is_empty() {
            return None;
        }
        let end = end_of_units(self.rest, self.units_max);
        let first = self.rest.chars().next().map_or(0, char::len_utf8);
        let (part, rest) = self.rest.split_at(end.max(first));
        self.rest = rest;
        Some(part)
    }
}

/// How many UTF-16 code units a text has.
#[must_use]
pub fn utf16_len(text: &str) -> usize {
    if text.is_ascii() {
        return text.len();
    }
    // One for each character, and one more for those of four bytes.
    let units = |byte: &u8| usize::from(*byte & 0xC0 != 0x80) + usize::from(*byte >= 0xF0);
    text.as_bytes().iter().map(units).sum()
}

/// Where a text has at most so many UTF-16 code units before it, in bytes.
#[must_use]
pub fn end_of_units(text: &str, units_max: usize) -> usize {
    // A byte is never more than a unit.
    if text.len() <= units_max {
        return text.len();
    }
    if text.as_bytes()[..units_max].is_ascii() {
        return text.floor_char_boundary(units_max);
    }

    let mut units = 0;
    let is_over = |(_, c): &(usize, char)| {
        units += c.len_utf16();
        units > units_max
    };
    text.char_indices().find(is_over).map_or(text.len(), |(end, _)| end)
}

fn normalize_line_ends(text: &str) -> Cow<'_, str> {
    if memchr(b'\r', text.as_bytes()).is_some() && text.contains("\r\n") {
        return Cow::Owned(text.replace("\r\n", "\n"));
    }
    Cow::Borrowed(text)
}

/// The sections of a text: what is before the first heading, and what is below each.
fn sections_of(text: &str) -> impl Iterator<Item = Section<'_>> {
    let mut next = Some(Section { heading: "", level: 0, content: text });
    std::iter::from_fn(move || {
        let Section { heading, level, content: rest } = next.take()?;
        let Some(line) = find_heading(rest) else {
            return Some(Section { heading, level, content: rest.trim() });
        };

        let written = &rest[line.clone()];
        let hashes = written.bytes().take_while(|byte| *byte == b'#').count();
        let below = rest.get(line.end + 1..).unwrap_or_default();
        next = Some(Section {
            heading: written.trim_start_matches('#').trim(),
            level: u8::try_from(hashes).unwrap_or_default(),
            content: below,
        });
        Some(Section { heading, level, content: rest[..line.start].trim() })
    })
}

/// Whether a text has more headings than this.
pub(crate) fn has_more_headings(text: &str, max: usize) -> bool {
    sections_of(text).nth(max + 1).is_some()
}

/// The first line that is a heading.
fn find_heading(text: &str) -> Option<Range<usize>> {
    let mut start = 0;
    loop {
        let rest = &text[start..];
        let end = memchr(b'\n', rest.as_bytes());
        let line = &rest[..end.unwrap_or(rest.len())];
        let is_heading = line.len() <= HEADING_BYTES_MAX
            && ["# ", "## ", "### "].iter().any(|mark| line.starts_with(mark));
        if is_heading {
            return Some(start..start + line.len());
        }
        start += end? + 1;
    }
}

/// Where the paragraphs of a text are.
fn paragraphs_of(text: &str) -> impl Iterator<Item = Range<usize>> {
    let blank = Finder::new(BLANK_LINE.as_bytes()).into_owned();
    let bytes = text.as_bytes();
    let mut start = Some(0);
    std::iter::from_fn(move || {
        let from = start.take()?;
        let Some(length) = blank.find(&bytes[from..]) else { return Some(from..bytes.len()) };
        start = Some(from + length + BLANK_LINE.len());
        Some(from..from + length)
    })
}

#[cfg(test)]
mod tests;
