//! What can be parsed, and what is refused.

use serde_json::json;
use toolbus_testkit::memory::peak_bytes;

use super::*;

#[test]
fn json_and_yaml_are_the_same_document() {
    let expected =
        json!({"openapi": "3.1.0", "paths": {"/a": {"get": {"responses": {"200": {}}}}}});
    assert_eq!(parse(&expected.to_string()).expect("JSON"), expected);
    let yaml = "\u{feff}# an API\nopenapi: 3.1.0\npaths:\n  /a:\n    get:\n      responses:\n        \
                200: {}\n";
    assert_eq!(parse(yaml).expect("YAML"), expected);
}

#[test]
fn a_text_is_refused_without_its_words() {
    for text in ["{\"canary\": ", "canary: [", "a: 1\na: canary\n"] {
        let error = parse(text).expect_err("refused").to_string();
        assert!(error.starts_with("it is neither JSON nor YAML"), "{error}");
        assert!(!error.contains("canary"), "{error}");
    }
}

#[test]
fn aliases_do_not_multiply() {
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..30 {
        let item = format!("*a{}", level - 1);
        bomb += &format!("a{level}: &a{level} [{}]\n", vec![item; 9].join(", "));
    }
    let limits = YAML_LIMITS.with_values(20_000);
    assert!(matches!(parse_yaml(&bomb, &limits), Err(DocumentError::TooManyValues(20_000))));
}

#[test]
fn depth_is_bounded() {
    let deep = format!("a: {}{}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(matches!(parse(&deep), Err(DocumentError::Syntax(_))));
}

#[test]
fn yaml_is_bounded_with_what_its_aliases_repeat() {
    let limits = Limits::of_bytes(1_000).with_values(100).with_depth(4);
    let refusal = |yaml: &str| parse_yaml(yaml, &limits).expect_err("refused").to_string();
    let (zeros, long) = (vec!["0"; 60].join(", "), "x".repeat(600));
    for yaml in [format!("a: [{zeros}]"), format!("a: {long}")] {
        assert!(parse_yaml(&yaml, &limits).is_ok(), "{yaml}");
    }

    let values = "it has more than 100 values";
    assert_eq!(refusal(&format!("a: [{zeros}, {zeros}]")), values);
    assert_eq!(refusal(&format!("a: &a [{zeros}]\nb: *a\n")), values);
    let bytes = "it has more than 16777216 bytes";
    assert_eq!(refusal(&format!("a: {long}\nb: {long}\n")), bytes);
    assert_eq!(refusal(&format!("a: &a {long}\nb: *a\n")), bytes);
    assert!(parse_yaml("a: [[[0]]]", &limits).is_ok());
    let deep = parse_yaml("a: [[[[0]]]]", &limits);
    assert!(matches!(deep, Err(DocumentError::Syntax(_))));
}

/// As many values as fit into the bytes of a document.
#[test]
fn values_are_bounded_in_little_memory() {
    let zeros = "0,".repeat(DOCUMENT_BYTES_MAX / 2 - 100);
    let document = format!(r#"{{"openapi": "3.1.0", "paths": {{"/x": [{zeros}0]}}}}"#);
    drop(zeros);
    let before = peak_bytes();
    let refused = parse(&document).unwrap_err();
    assert_eq!(refused.to_string(), "it has more than 524288 values");
    let grown = peak_bytes() - before;
    assert!(grown <= 4 * DOCUMENT_BYTES_MAX as u64, "{} MiB more", grown >> 20);
}

#[test]
fn a_text_within_a_document_is_not_parsed() {
    let json = r#"{"a": {"$serde_json::private::RawValue": "[1]"}}"#;
    let yaml = "a:\n  \"\\x24serde_json::private::RawValue\": \"[1]\"\n";
    for text in [json, yaml] {
        let refused = parse(text).unwrap_err().to_string();
        assert!(refused.contains("reserved name"), "{refused}");
    }
}
