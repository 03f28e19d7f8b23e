//! Chunks that are put together, so that all of them fit.

use proptest::prelude::*;

use super::{Part, fit_chunks};
use crate::chunker::{Chunk, ContentChunker};

fn chunk(heading: &str, level: u8, content: &str) -> Chunk {
    Chunk { heading: heading.to_owned(), content: content.to_owned(), level }
}

#[test]
fn what_fits_stays_as_it_is() {
    let chunks = vec![chunk("A", 1, "a"), chunk("", 0, "b")];
    let parts = fit_chunks(chunks, 2, 10);
    let contents: Vec<_> = parts.iter().map(|part| part.content.as_str()).collect();
    assert_eq!(contents, ["a", "b"]);
    assert_eq!(parts.iter().map(Part::label).collect::<Vec<_>>(), ["A", ""]);
}

#[test]
fn chunks_are_put_together_with_their_headings() {
    let chunks = vec![chunk("", 0, "start"), chunk("A", 1, "a"), chunk("B", 2, "b")];
    let parts = fit_chunks(chunks, 1, 1);
    assert_eq!(parts.len(), 1);
    assert_eq!(parts[0].content, "start\n\n# A\n\na\n\n## B\n\nb");
    assert_eq!(parts[0].label(), "A (and 1 more)");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn there_are_never_too_many_parts_and_nothing_is_lost(
        text in "(#{1,3} [a-c]{1,9}\n|[a-c\u{1F980}]{0,9}\n{1,3}){0,40}",
        parts_max in 0_usize..9,
        units_max in 0_usize..40,
    ) {
        let chunks = ContentChunker::new(12).chunk(&text);
        let count = chunks.len();
        let contents: Vec<_> = chunks.iter().map(|chunk| chunk.content.clone()).collect();
        let headings: Vec<_> = chunks.iter().map(|chunk| chunk.heading.clone()).collect();
        let parts = fit_chunks(chunks, parts_max, units_max);

        prop_assert!(parts.len() <= parts_max.max(1));
        prop_assert_eq!(parts.iter().map(|part| part.headings.len()).sum::<usize>(), count);
        let kept = parts.iter().flat_map(|part| &part.headings).map(|heading| &heading.text);
        prop_assert!(kept.eq(&headings));
        let all = parts.iter().map(|part| part.content.as_str()).collect::<Vec<_>>().join("\n");
        let mut rest = all.as_str();
        for content in contents {
            let at = rest.find(&content);
            prop_assert!(at.is_some(), "{content:?} is not in {rest:?}");
            rest = &rest[at.unwrap_or_default() + content.len()..];
        }
    }
}
