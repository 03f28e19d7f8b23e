//! The parsers of this crate as targets of a fuzzer.

use crate::chunker::HEADING_BYTES_MAX;
use crate::fit::fit_chunks;
use crate::{ContentChunker, OutlineEntry, build_outline, utf16_len};

/// Most units of a chunk, and most parts that are kept of a text.
const UNITS_MAX: usize = 50;
const PARTS_MAX: usize = 5;
/// How the lines begin that are headings.
const HEADINGS: [&str; 3] = ["# ", "## ", "### "];

/// Cuts a text into chunks and puts them together to few parts. No chunk is too long, there are no
/// more parts than may be, and no word gets lost.
pub fn long_text(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let chunks = ContentChunker::new(UNITS_MAX).chunk(&text);
    assert!(chunks.iter().all(|chunk| utf16_len(&chunk.content) <= UNITS_MAX));

    let written = text.replace("\r\n", "\n");
    let is_heading = |line: &&str| {
        line.len() <= HEADING_BYTES_MAX && HEADINGS.iter().any(|heading| line.starts_with(heading))
    };
    let lines = written.split('\n').filter(|line| !is_heading(line));
    let expected = lines.flat_map(str::chars).filter(|c| !c.is_whitespace());
    let kept = chunks.iter().flat_map(|chunk| chunk.content.chars());
    assert!(kept.filter(|c| !c.is_whitespace()).eq(expected));

    let entries = chunks.iter().enumerate();
    let _ = build_outline(entries.map(|(at, chunk)| OutlineEntry::new(chunk, at, "key")));
    let count = chunks.len();
    let parts = fit_chunks(chunks, PARTS_MAX, UNITS_MAX);
    assert!(parts.len() <= PARTS_MAX);
    assert_eq!(parts.iter().map(|part| part.headings.len()).sum::<usize>(), count);
    for part in &parts {
        let _ = (part.label(), part.outlined());
    }
}
