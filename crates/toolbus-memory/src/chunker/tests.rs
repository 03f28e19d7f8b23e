//! Golden values of the C# chunker, and what holds for every text.

use proptest::prelude::*;
use serde_json::Value;

use super::{Chunk, ContentChunker, HEADING_BYTES_MAX, end_of_units, utf16_len};

fn check(text: &str, units_max: usize, expected: &[(&str, &str, u8)]) {
    let chunks = ContentChunker::new(units_max).chunk(text);
    let chunks: Vec<_> = chunks
        .iter()
        .map(|chunk| (chunk.heading.as_str(), chunk.content.as_str(), chunk.level))
        .collect();
    assert_eq!(chunks, expected, "{text:?}");
}

#[test]
fn chunks_are_those_of_the_csharp_chunker() {
    let golden: Value =
        serde_json::from_str(include_str!("../../tests/golden/chunker.json")).unwrap();
    let cases = golden["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 56);
    for case in cases {
        let max = usize::try_from(case["max"].as_u64().unwrap()).unwrap();
        let chunks = ContentChunker::new(max).chunk(case["text"].as_str().unwrap());
        let expected = case["chunks"].as_array().unwrap();
        assert_eq!(chunks.len(), expected.len(), "{case}");
        for (chunk, expected) in chunks.iter().zip(expected) {
            assert_eq!(Value::from(&*chunk.heading), expected["heading"], "{case}");
            assert_eq!(Value::from(&*chunk.content), expected["content"], "{case}");
        }
    }
}

#[test]
fn headings_of_three_levels_divide() {
    let text = "before\n# One\na\n## Two ##\n\n### Three\nb\n#### four\n #five\n#six\n# Last";
    let three = ("Three", "b\n#### four\n #five\n#six", 3);
    check(text, 100, &[("", "before", 0), ("One", "a", 1), three, ("Last", "", 1)]);
}

#[test]
fn the_last_section_is_always_there() {
    check("", 10, &[("", "", 0)]);
    check("\n\n", 10, &[("", "", 0)]);
    check("# ", 10, &[("", "", 1)]);
    check("# A\n# B\n", 10, &[("B", "", 1)]);
}

#[test]
fn long_sections_are_cut_at_blank_lines_first() {
    let text = "# H\naaaa\n\nbb\n\ncc\n\ndddddddddddd\n\n\n\ne";
    let expected = [
        ("H", "aaaa\n\nbb", 1),
        ("H (continued 1)", "cc", 1),
        ("H (continued 2)", "dddddddddd", 1),
        ("H (continued 3)", "dd", 1),
        ("H (continued 4)", "e", 1),
    ];
    check(text, 10, &expected);
    check(
        "12345678",
        3,
        &[("", "123", 0), (" (continued 1)", "456", 0), (" (continued 2)", "78", 0)],
    );
}

/// Each chunk of a section has its heading.
#[test]
fn a_line_that_is_too_long_for_a_heading_is_text() {
    let below = "a".repeat(1_000);
    let cut = |line: &str| ContentChunker::new(100).chunk(&format!("{line}\n{below}"));

    let heading = "h".repeat(HEADING_BYTES_MAX - "# ".len());
    let chunks = cut(&format!("# {heading}"));
    assert_eq!(chunks.len(), 10);
    assert!(chunks.iter().all(|chunk| chunk.heading.starts_with(&heading) && chunk.level == 1));

    let chunks = cut(&format!("# {heading}h"));
    assert!(chunks.iter().all(|chunk| chunk.heading.len() < 30 && chunk.level == 0));
    assert_eq!(words_of(&chunks), format!("#{heading}h{below}"));
}

#[test]
fn line_ends_of_windows_are_line_ends() {
    check("# A\r\none\r\n\r\ntwo\r\n", 4, &[("A", "one", 1), ("A (continued 1)", "two", 1)]);
    check("a\rb", 10, &[("", "a\rb", 0)]);
}

#[test]
fn a_character_is_never_split() {
    check(
        "a\u{1F980}b",
        2,
        &[("", "a", 0), (" (continued 1)", "\u{1F980}", 0), (" (continued 2)", "b", 0)],
    );
    check("\u{1F980}", 1, &[("", "\u{1F980}", 0)]);
    check("äöü", 2, &[("", "äö", 0), (" (continued 1)", "ü", 0)]);
}

#[test]
fn units_are_those_of_utf_16() {
    for text in ["", "abc", "äöü", "日本語", "a\u{1F980}b", "\0\u{FFFF}\u{10000}"] {
        assert_eq!(utf16_len(text), text.encode_utf16().count(), "{text:?}");
    }
    assert_eq!(end_of_units("ab\u{1F980}c", 3), 2);
    assert_eq!(end_of_units("ab\u{1F980}c", 4), 6);
    assert_eq!(end_of_units("abcé", 3), 3);
}

/// What is left of a text without its headings and its space.
fn words(text: &str) -> String {
    let is_heading =
        |line: &&str| ["# ", "## ", "### "].iter().any(|heading| line.starts_with(heading));
    let lines = text.split('\n').filter(|line| !is_heading(line));
    lines.flat_map(str::chars).filter(|c| !c.is_whitespace()).collect()
}

fn words_of(chunks: &[Chunk]) -> String {
    let contents = chunks.iter().flat_map(|chunk| chunk.content.chars());
    contents.filter(|c| !c.is_whitespace()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn all_text_is_kept_and_no_chunk_is_too_long(
        text in "(#{0,4} ?|[a-c# é\u{1F980}\t\r]{0,9}|\n{1,3}){0,40}",
        units_max in 2_usize..40,
    ) {
        let chunks = ContentChunker::new(units_max).chunk(&text);
        prop_assert!(!chunks.is_empty());
        prop_assert!(chunks.iter().all(|chunk| utf16_len(&chunk.content) <= units_max));
        prop_assert!(chunks.iter().all(|chunk| chunk.level <= 3));
        prop_assert_eq!(words_of(&chunks), words(&text.replace("\r\n", "\n")));
    }

    #[test]
    fn any_text_is_taken(text in any::<String>(), units_max in 0_usize..9) {
        let chunks = ContentChunker::new(units_max).chunk(&text);
        prop_assert_eq!(words_of(&chunks), words(&text.replace("\r\n", "\n")));
    }
}
