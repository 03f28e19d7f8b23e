//! Fitting: chunks are put together where there are more of them than may be kept.

use crate::chunker::{Chunk, utf16_len};
use crate::outline::is_named;

/// A heading within a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Heading {
    pub(crate) text: String,
    pub(crate) level: u8,
}

/// What is kept under one key: one chunk, or several that follow each other, with their headings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) headings: Vec<Heading>,
    pub(crate) content: String,
    units: usize,
}

impl Part {
    /// A part of one chunk: its text alone, since the index says its heading.
    fn new(chunk: Chunk) -> Self {
        let units = utf16_len(&chunk.content);
        let heading = Heading { text: chunk.heading, level: chunk.level };
        Self { headings: vec![heading], content: chunk.content, units }
    }

    /// The headings that an outline has of it: those that say something, or one that does not.
    pub(crate) fn outlined(&self) -> Vec<&Heading> {
        let named: Vec<_> = self.headings.iter().filter(|one| is_named(&one.text)).collect();
        if named.is_empty() { self.headings.iter().take(1).collect() } else { named }
    }

    /// What the part is called.
    pub(crate) fn label(&self) -> String {
        let mut named = self.headings.iter().filter(|heading| is_named(&heading.text));
        let first = named.next().map_or("", |heading| heading.text.as_str());
        match named.count() {
            0 => first.to_owned(),
            more => format!("{first} (and {more} more)"),
        }
    }
}

/// Makes parts of chunks: one of each, where there are no more than `parts_max`. Else chunks are
/// put together up to `units_max`, and up to more where even that makes too many.
pub(crate) fn fit_chunks(chunks: Vec<Chunk>, parts_max: usize, units_max: usize) -> Vec<Part> {
    let parts_max = parts_max.max(1);
    if chunks.len() <= parts_max {
        return chunks.into_iter().map(Part::new).collect();
    }

    let units: Vec<_> = chunks.iter().map(written_units).collect();
    let all: usize = units.iter().sum();
    let mut limit = units_max.max(all / parts_max).max(1);
    while count_parts(&units, limit) > parts_max {
        limit += limit.div_ceil(4);
    }

    let mut parts: Vec<Part> = Vec::with_capacity(parts_max);
    for (chunk, more) in chunks.into_iter().zip(units) {
        match parts.last_mut() {
            Some(part) if part.units + more <= limit => {
                write_chunk(&mut part.content, &chunk);
                part.units += more;
                part.headings.push(Heading { text: chunk.heading, level: chunk.level });
            }
            _ => {
                let mut content = String::new();
                write_chunk(&mut content, &chunk);
                let heading = Heading { text: chunk.heading, level: chunk.level };
                parts.push(Part { headings: vec![heading], content, units: more });
            }
        }
    }
    parts
}

fn count_parts(units: &[usize], limit: usize) -> usize {
    let (mut parts, mut part) = (0, usize::MAX);
    for more in units {
        part = part.saturating_add(*more);
        if part > limit {
            (parts, part) = (parts + 1, *more);
        }
    }
    parts
}

/// The units that a chunk has among others at most, with its heading and what is before it.
fn written_units(chunk: &Chunk) -> usize {
    utf16_len(&chunk.content) + utf16_len(&chunk.heading) + usize::from(chunk.level) + 5
}

fn write_chunk(content: &mut String, chunk: &Chunk) {
    if !content.is_empty() {
        content.push_str("\n\n");
    }
    if chunk.level > 0 {
        content.push_str(&"#".repeat(usize::from(chunk.level)));
        content.push(' ');
        content.push_str(&chunk.heading);
        content.push_str("\n\n");
    }
    content.push_str(&chunk.content);
}

#[cfg(test)]
mod tests;
