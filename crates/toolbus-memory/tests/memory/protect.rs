//! Large results: what the model gets in their place, and what it can read of them.

use std::sync::Arc;

use serde_json::{Value, json};
use toolbus_memory::MemoryConfig;
use toolbus_tools::call::Output;
use toolbus_tools::{Door, Scope};

use crate::support::{Bench, THRESHOLD, call, mask, say, scope, scope_of};

/// Three sections that are too long together.
fn page() -> String {
    let section = |heading: &str| format!("{heading}\n{}", "words ".repeat(100));
    [section("# Models | all"), section("## Pricing"), section("# Limits")].join("\n")
}

fn masked(text: &str) -> String {
    mask(text, "tool-give-", "-")
}

/// The keys of an index, with that of its outline first.
fn keys(index: &str) -> Vec<String> {
    let keys = index.split('`').skip(1).step_by(2);
    keys.map(str::to_owned).collect()
}

#[tokio::test]
async fn a_large_result_is_an_index_of_chunks() {
    for bench in Bench::all().await {
        let index = bench.say("give", json!({"text": page()})).await;
        assert_text!(masked(&index), @r"
        Tool result for 'give' is large (1 837 chars) and has been split into 3 chunk(s)
        stored in working memory.
        A document outline is stored at key `session/s1/tool-give-…-index` — retrieve
        it with get_from_working_memory to navigate the content by section heading.
        Call get_from_working_memory(key) for each relevant chunk BEFORE drawing conclusions.

        | # | Heading | Key |
        |---|---------|--------------------------------------------------|
        | 0 | Models \| all | `session/s1/tool-give-…-chunk0` |
        | 1 | Pricing | `session/s1/tool-give-…-chunk1` |
        | 2 | Limits | `session/s1/tool-give-…-chunk2` |
        ");

        let keys = keys(&index);
        let outline = bench.say("get_from_working_memory", json!({"key": keys[0]})).await;
        assert_text!(masked(&outline), @r"
        ## Document Outline

        - **Models | all** → `session/s1/tool-give-…-chunk0`
          - **Pricing** → `session/s1/tool-give-…-chunk1`
        - **Limits** → `session/s1/tool-give-…-chunk2`
        ");
        for key in &keys[1..] {
            let chunk = bench.say("get_from_working_memory", json!({"key": key})).await;
            assert_eq!(chunk, "words ".repeat(100).trim(), "{key}");
        }

        let found = json!({"category": "tool-result", "query": "pricing words"});
        let found = bench.say("search_working_memory", found).await;
        assert!(
            found.contains("4 result(s)") && found.contains("category: tool-result"),
            "{found}"
        );
        let listed = bench.say("list_working_memory", json!({})).await;
        assert!(listed.contains("(4 entries)") && listed.contains("expires in 19m"), "{listed}");
    }
}

/// Without headings, chunks are called by their numbers, as the seeds show them.
#[tokio::test]
async fn chunks_without_headings_are_parts() {
    let bench = Bench::sqlite(MemoryConfig::default());
    let index = bench.say("give", json!({"text": "line\n\n", "times": 10_000})).await;
    assert_text!(masked(&index), @r"
    Tool result for 'give' is large (60 000 chars) and has been split into 4 chunk(s)
    stored in working memory.
    A document outline is stored at key `session/s1/tool-give-…-index` — retrieve
    it with get_from_working_memory to navigate the content by section heading.
    Call get_from_working_memory(key) for each relevant chunk BEFORE drawing conclusions.

    | # | Heading | Key |
    |---|---------|--------------------------------------------------|
    | 0 | Part 0 | `session/s1/tool-give-…-chunk0` |
    | 1 | Part 1 | `session/s1/tool-give-…-chunk1` |
    | 2 | Part 2 | `session/s1/tool-give-…-chunk2` |
    | 3 | Part 3 | `session/s1/tool-give-…-chunk3` |
    ");
}

#[tokio::test]
async fn the_threshold_itself_is_not_large() {
    let bench = Bench::sqlite(MemoryConfig::default());
    for text in ["x".repeat(THRESHOLD), "é".repeat(THRESHOLD), "\u{1F980}".repeat(THRESHOLD / 2)] {
        assert_eq!(bench.say("give", json!({"text": text})).await, text);
        let more = bench.say("give", json!({"text": format!("{text}x")})).await;
        assert!(more.starts_with("Tool result for 'give' is large (1 001 chars)"), "{more}");
    }
}

#[tokio::test]
async fn readers_are_exempt_by_what_they_are() {
    let bench = Bench::sqlite(MemoryConfig::default());
    let text = "x".repeat(THRESHOLD + 1);
    assert_eq!(bench.say("read", json!({"text": text})).await, text);
    bench.say("save_to_working_memory", json!({"key": "k", "data": text})).await;
    for tool in ["get_from_working_memory", "GetFromWorkingMemory"] {
        assert_eq!(bench.say(tool, json!({"key": "k"})).await, text);
    }
}

#[tokio::test]
async fn other_callers_get_all_of_it() {
    let bench = Bench::sqlite(MemoryConfig::default());
    let text = "x".repeat(THRESHOLD + 1);
    let turn = scope("session/s1");
    for door in [Door::CommandLine, Door::Chain, Door::Mcp] {
        let scope = Arc::new(Scope { door, ..(*turn).clone() });
        assert_eq!(say(&bench.invoker, &scope, "give", json!({"text": text})).await, text);
    }
}

#[tokio::test]
async fn without_a_session_the_beginning_is_left() {
    let bench = Bench::sqlite(MemoryConfig::default());
    let nobody = scope_of("model", None);
    let text = format!("{}{}", "x".repeat(THRESHOLD - 1), "\u{1F980}!");
    let beginning = say(&bench.invoker, &nobody, "give", json!({"text": text})).await;
    let expected = "x".repeat(THRESHOLD - 1) + "\n[result truncated — 3 chars omitted]";
    assert_eq!(beginning, expected);
}

/// MX-A5.
#[tokio::test]
async fn a_result_can_be_cut_and_says_so() {
    let bench = Bench::sqlite(MemoryConfig::default());
    let (cutting, scope) = (bench.cutting(), scope("session/s1"));
    let cut = say(&cutting, &scope, "give", json!({"text": "x", "times": 120_000})).await;
    let notice = "\n\nOUTPUT TRUNCATED: Showing 1,000 of 120,000 characters from give\n";
    let expected = "x".repeat(THRESHOLD) + notice;
    let (beginning, artifact) = cut.split_at(expected.len());
    assert_eq!(beginning, expected);
    assert!(artifact.starts_with("[120000 bytes of text/plain"), "{artifact}");
    let listed = bench.say("list_working_memory", json!({})).await;
    assert!(!listed.contains("tool-give"), "{listed}");

    let whole = say(&cutting, &scope, "give", json!({"text": "x", "times": THRESHOLD})).await;
    assert_eq!(whole, "x".repeat(THRESHOLD));
    // A character of two units is not split.
    let text = format!("{}{}", "x".repeat(THRESHOLD - 1), "\u{1F980}!");
    let cut = say(&cutting, &scope, "give", json!({"text": text})).await;
    assert!(cut.contains("x\n\nOUTPUT TRUNCATED: Showing 999 of 1,002 characters"), "{cut}");
}

/// All words of a result are in its chunks, however many headings it has.
#[tokio::test]
async fn chunks_are_put_together_where_there_are_too_many() {
    for bench in Bench::all().await {
        let sections = (0..3_000).map(|at| format!("### Section {at}\nword{at}\n"));
        let text: String = sections.collect();
        let index = bench.say("give", json!({"text": text})).await;
        let keys = keys(&index);
        assert!((2..=50).contains(&keys.len()), "{}", keys.len());
        assert!(index.contains("| Section 0 (and "), "{index}");

        let mut all = String::new();
        for key in &keys[1..] {
            let chunk = bench.say("get_from_working_memory", json!({"key": key})).await;
            assert!(!chunk.contains("[characters "), "it is read at once");
            all.push_str(&chunk);
            all.push('\n');
        }
        let words: Vec<_> = all.lines().filter(|line| line.starts_with("word")).collect();
        assert!(words.iter().enumerate().all(|(at, word)| **word == format!("word{at}")));
        assert_eq!(words.len(), 3_000);
        let headings = all.lines().filter(|line| line.starts_with("### Section")).count();
        assert_eq!(headings, 3_000);
    }
}

#[tokio::test]
async fn a_result_without_room_says_so() {
    let config = MemoryConfig { result_entries_max: 3, ..MemoryConfig::default() };
    for bench in Bench::all_with(&config).await {
        let large = json!({"text": "line\n\n", "times": 10_000});
        let answer = bench.say("give", large).await;
        let (beginning, notes) = answer.split_once("\n[result truncated").unwrap();
        assert_eq!(beginning, &"line\n\n".repeat(200)[..THRESHOLD]);
        assert_text!(notes, @r"
         — 59000 chars omitted]
        [the rest could not be kept in working memory: nothing was saved: working memory would keep 5 parts of large results with this in 'session/s1', and may keep 3 parts of large results. Delete what is no longer needed (delete_from_working_memory), or wait until it expires]
        ");
        assert_eq!(bench.say("list_working_memory", json!({})).await, "Working memory is empty.");

        // What is saved by key is counted apart.
        let small = json!({"text": "x".repeat(THRESHOLD + 1)});
        assert!(bench.say("give", small.clone()).await.contains("1 chunk(s)"));
        bench.say("save_to_working_memory", json!({"key": "k", "data": "x"})).await;
        let refused = bench.say("give", small).await;
        assert!(refused.contains("could not be kept"), "{refused}");
    }
}

#[tokio::test]
async fn a_result_of_a_hundred_megabytes_is_answered() {
    let bench = Bench::sqlite(MemoryConfig::default());
    let huge = json!({"text": "0123456789\n", "times": 10_000_000});
    let answer = bench.say("give", huge).await;
    assert!(answer.len() < 2_000, "{}", answer.len());
    assert!(answer.contains("[result truncated — 109999000 chars omitted]"), "{answer}");
    assert!(answer.contains("the result has 110000000 bytes, and may have 67108864"), "{answer}");

    let headings = json!({"text": "# a\nb\n", "times": 1_000_000});
    let answer = bench.say("give", headings).await;
    assert!(answer.contains("| 42 | Part 42 |") && answer.len() < 10_000, "{answer}");
    let outline = bench.say("get_from_working_memory", json!({"key": keys(&answer)[0]})).await;
    assert!(outline.ends_with("-chunk42`") && outline.lines().count() == 45, "{outline}");
}

async fn output(bench: &Bench, arguments: Value) -> Output {
    call(&bench.invoker, &scope("session/s1"), "give", arguments).await.unwrap()
}

/// A value is the same as the text: it is kept where it is the only form, and not shown beside an
/// index.
#[tokio::test]
async fn a_large_value_is_kept_as_its_text() {
    let bench = Bench::sqlite(MemoryConfig::default());
    let value = json!(["x".repeat(THRESHOLD)]);
    let alone = output(&bench, json!({"structured": value})).await;
    assert_eq!(alone.structured, None);
    let index = alone.content.unwrap();
    let chunk = bench.say("get_from_working_memory", json!({"key": keys(&index)[1]})).await;
    assert_eq!(chunk, value.to_string());

    let beside = output(&bench, json!({"structured": value, "text": "x".repeat(1_001)})).await;
    assert_eq!(beside.structured, None);
    let small = output(&bench, json!({"structured": value, "text": "a thousand"})).await;
    assert_eq!(small.content.as_deref(), Some("a thousand"));
}

#[tokio::test]
async fn an_index_names_the_artifact_too() {
    for bench in Bench::all().await {
        let invoker = bench.with_artifacts();
        let scope = scope("session/s1");
        let output = call(&invoker, &scope, "give", json!({"text": page()})).await.unwrap();
        let (index, artifact) = (output.content.unwrap(), output.artifact.unwrap());
        assert_text!(mask(&masked(&index), "art_", "\""), @r#"
        Tool result for 'give' is large (1 837 chars) and has been split into 3 chunk(s)
        stored in working memory.
        A document outline is stored at key `session/s1/tool-give-…-index` — retrieve
        it with get_from_working_memory to navigate the content by section heading.
        Call get_from_working_memory(key) for each relevant chunk BEFORE drawing conclusions.
        [1837 bytes of text/plain; charset=utf-8: {"$artifact":"art_…"}; the tools artifact_* read parts of it, and as an argument it is the whole]

        | # | Heading | Key |
        |---|---------|--------------------------------------------------|
        | 0 | Models \| all | `session/s1/tool-give-…-chunk0` |
        | 1 | Pricing | `session/s1/tool-give-…-chunk1` |
        | 2 | Limits | `session/s1/tool-give-…-chunk2` |
        "#);
        let found = bench.artifacts.find_in(&scope, artifact.reference.as_str()).await.unwrap();
        assert_eq!(found.read_all(10_000).await.unwrap(), page());

        // An index that is longer than what artifacts leave inline stays an index.
        let many: String = (0..49).map(|at| format!("# {at} {}\nx\n", "é".repeat(90))).collect();
        let long = call(&invoker, &scope, "give", json!({"text": many})).await.unwrap();
        let index = long.content.unwrap();
        assert!(index.len() > 4_096 && index.starts_with("Tool result for"), "{index}");
    }
}
