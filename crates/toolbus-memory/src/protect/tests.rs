//! The index, as the specification shows it line by line.

use super::describe_kept;
use crate::{KeptChunk, KeptText};

#[test]
fn an_index_has_the_words_and_lines_of_the_specification() {
    let key = |suffix: &str| format!("session/abc123/tool-list_models-a1b2c3-{suffix}");
    let chunk = |at: usize| KeptChunk { heading: None, key: key(&format!("chunk{at}")) };
    let kept = KeptText { index_key: key("index"), chunks: (0..23).map(chunk).collect() };
    let index = describe_kept(&kept, "list_models", 462_000, None);

    let shown = "\
Tool result for 'list_models' is large (462 000 chars) and has been split into 23 chunk(s)
stored in working memory.
A document outline is stored at key `session/abc123/tool-list_models-a1b2c3-index` — retrieve
it with get_from_working_memory to navigate the content by section heading.
Call get_from_working_memory(key) for each relevant chunk BEFORE drawing conclusions.

| # | Heading | Key |
|---|---------|--------------------------------------------------|
| 0 | Part 0 | `session/abc123/tool-list_models-a1b2c3-chunk0` |
| 1 | Part 1 | `session/abc123/tool-list_models-a1b2c3-chunk1` |
";
    assert!(index.starts_with(shown), "{index}");
    assert_eq!(index.lines().count(), 8 + 23);
}
