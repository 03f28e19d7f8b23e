//! Outlines, as models read them.

use insta::assert_snapshot;

use super::{OutlineEntry, build_outline};
use crate::chunker::ContentChunker;

#[test]
fn headings_are_indented_by_their_levels() {
    let chunks = ContentChunker::new(100).chunk("intro\n# A\na\n## B\nb\n### C\nc\n# \nd");
    let keys: Vec<_> = (0..chunks.len()).map(|at| format!("session/s/x-chunk{at}")).collect();
    let entries = chunks.iter().zip(&keys).enumerate();
    let entries = entries.map(|(at, (chunk, key))| OutlineEntry::new(chunk, at, key));
    assert_snapshot!(build_outline(entries), @r"
    ## Document Outline

    - **Part 0** → `session/s/x-chunk0`
    - **A** → `session/s/x-chunk1`
      - **B** → `session/s/x-chunk2`
        - **C** → `session/s/x-chunk3`
    - **Part 4** → `session/s/x-chunk4`
    ");
    assert_eq!(build_outline([]), "");
}

#[test]
fn outlines_are_bounded() {
    let heading = "é".repeat(1_000_000);
    let entry = OutlineEntry { heading: &heading, number: 0, level: 3, key: "k" };
    let outline = build_outline(std::iter::repeat_n(entry, 100_000));
    assert!(outline.ends_with("… and 99000 more headings"));
    assert!(outline.len() < 300_000, "{}", outline.len());
}
