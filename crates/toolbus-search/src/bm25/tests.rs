//! Golden values of the C# ranker, and that both ways to rank agree.

use proptest::prelude::*;
use serde_json::Value;

use super::{Bm25Index, QUERY_BYTES_MAX, QUERY_TERMS_MAX, Ranked, rank};

fn both(documents: &[&str], query: &str) -> Vec<Ranked> {
    let ranked = rank(documents, query);
    assert_eq!(Bm25Index::build(documents).search(query, usize::MAX), ranked, "{query}");
    ranked
}

fn check(documents: &[&str], query: &str, expected: &[(usize, f64)]) {
    let ranked = both(documents, query);
    assert_eq!(ranked.len(), expected.len(), "{ranked:?}");
    for (ranked, (document, score)) in ranked.iter().zip(expected) {
        assert_eq!(ranked.document, *document, "{query}");
        assert!((ranked.score - score).abs() < 1e-6, "{ranked:?} should score {score}");
    }
}

#[test]
fn order_is_that_of_the_csharp_ranker() {
    let golden: Value = serde_json::from_str(include_str!("../../tests/golden/bm25.json")).unwrap();
    let cases = golden["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 111);
    for case in cases {
        let texts = case["docs"].as_array().unwrap();
        let texts: Vec<_> = texts.iter().map(|text| text.as_str().unwrap()).collect();
        let query = case["query"].as_str().unwrap();
        let order: Vec<_> = both(&texts, query).iter().map(|found| found.document).collect();
        assert_eq!(serde_json::json!(order), case["order"], "{query} in {texts:?}");
    }
}

#[test]
fn scores_are_those_of_the_formula() {
    let rocky = [
        "Rocky loves rock music at every festival",
        "Rocky plays rock. He also enjoys music sometimes.",
    ];
    check(&rocky, "rock music", &[(0, 1.813720), (1, 0.352443)]);
    let concerts = [
        "I went to a concert last summer",
        "concert concert concert — huge music fan, loves concerts",
    ];
    check(&concerts, "concert music", &[(1, 0.883231), (0, 0.214496)]);
    let hobbies = [
        "loves rock music and concerts",
        "plays basketball every weekend",
        "music and sport are daily hobbies",
    ];
    check(&hobbies, "rock music", &[(0, 3.412491), (2, 0.431196)]);
    check(&["quick brown fox", "quick blue turtle"], "quick fox", &[(0, 0.875469), (1, 0.182322)]);
    let art = ["state of the art", "state the art"];
    check(&art, "state of the art", &[(1, 2.297902), (0, 0.911608)]);
}

#[test]
fn phrases_are_found_within_words_and_do_not_overlap() {
    assert!(both(&["hardrock musical"], "rock music").len() == 1);
    assert_eq!(both(&["rock-music", "rock  music"], "rock_music").len(), 2, "by their terms");
    for text in ["aba aba aba", "abaaba aba", "xaba ababa abax", "aba aba aba aba"] {
        both(&[text, "something else"], "aba aba");
    }
}

#[test]
fn queries_without_a_token_find_nothing() {
    for query in ["", "a of", "日本語", "é", "\0\u{1F980}"] {
        assert_eq!(both(&["a text of it", ""], query), [], "{query}");
    }
    assert_eq!(both(&[], "query"), []);
    assert_eq!(both(&["", ""], "query"), []);
}

#[test]
fn queries_are_bounded() {
    let words: Vec<String> = (0..=QUERY_TERMS_MAX).map(|at| format!("word{at}")).collect();
    let (query, last) = (words.join(" "), words.last().unwrap().as_str());
    assert_eq!(both(&["word0", last], &query).len(), 1);
    assert_eq!(both(&["late"], &format!("{} late", "é".repeat(QUERY_BYTES_MAX))), []);
}

#[test]
fn a_search_gives_the_best_of_all() {
    let texts: Vec<String> = (0..50).map(|at| "word ".repeat(at % 7)).collect();
    let index = Bm25Index::build(&texts);
    let all = index.search("word", usize::MAX);
    for limit in [0, 1, 3, 49, 50] {
        assert_eq!(index.search("word", limit), all[..limit.min(all.len())]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Few letters, so that terms repeat, overlap and stand within each other.
    #[test]
    fn an_index_agrees_with_a_scan(
        texts in proptest::collection::vec("[abAB0é\u{212A} .-]{0,60}", 0..8),
        query in "[ab0 .-]{0,30}",
    ) {
        let texts: Vec<_> = texts.iter().map(String::as_str).collect();
        both(&texts, &query);
    }

    #[test]
    fn any_text_and_any_query_are_taken(
        texts in proptest::collection::vec(any::<String>(), 0..4),
        query in any::<String>(),
    ) {
        let texts: Vec<_> = texts.iter().map(String::as_str).collect();
        both(&texts, &query);
    }
}
