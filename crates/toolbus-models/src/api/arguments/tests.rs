use serde_json::json;

use super::*;

fn check(text: &str, expected: Result<Value, &str>) {
    let read = read_arguments(text.to_owned(), None);
    match (read.arguments, expected) {
        (CallArguments::Json { value }, Ok(expected)) => assert_eq!(value, expected, "{text}"),
        (CallArguments::NotJson { text: shown, problem }, Err(expected)) => {
            assert!(problem.contains(expected), "{text}: {problem}");
            assert!(text.starts_with(&shown), "{text}");
        }
        (read, _) => panic!("{text}: {read:?}"),
    }
}

#[test]
fn objects_are_read_and_all_else_is_told_apart() {
    check("", Ok(json!({})));
    check(" \n", Ok(json!({})));
    check("null", Ok(json!({})));
    check("{}", Ok(json!({})));
    check(r#"{"a": 1}"#, Ok(json!({"a": 1})));
    check(r#"{"a": "\ud800"}"#, Ok(json!({"a": "\u{FFFD}"})));
    check(r#""{\"a\": 1}""#, Ok(json!({"a": 1})));
    check(r#""a""#, Err("a text"));
    check("[1]", Err("a list"));
    check("7", Err("a number"));
    check("true", Err("true or false"));
    check(r#"{"a": 1"#, Err("not JSON"));
    check(r#"{"a": 1}{"b": 2}"#, Err("not JSON"));
    check(&"[".repeat(100_000), Err("not JSON"));
    check(&"x".repeat(100_000), Err("not JSON"));
}

#[test]
fn the_words_of_the_model_are_kept_where_they_are_others() {
    let written = |text: &str| read_arguments(text.to_owned(), None).written;
    assert_eq!(written(r#"{"a":1}"#), None);
    assert_eq!(written(r#"{"a": 1}"#).as_deref(), Some(r#"{"a": 1}"#));
    assert_eq!(written(""), None);
    assert_eq!(written("{"), None);
}
