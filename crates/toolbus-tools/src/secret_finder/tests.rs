//! What is found where, and what becomes of it.

use serde_json::json;

use super::*;

fn finder(secrets: &[&str]) -> SecretFinder {
    SecretFinder::new(secrets.iter().copied()).expect("there are some")
}

#[test]
fn a_text_stays_as_it_was_written_but_for_what_is_erased() {
    let finder = finder(&["tok-123456", "a\"b\\c\nd", "7777777"]);
    let text = r#"{ "n" : 1234567890123456789012.50, "t" : "tok-12345\u0036", "tok-123456":[],
        "o": ["\u0041", 17777777, true, "a\"b\\c\nd!"] , "x":"" }"#;
    let expected = r#"{ "n" : 1234567890123456789012.50, "t" : "***", "***-1":[],
        "o": ["\u0041", "***", true, "***!"] , "x":"" }"#;
    assert_eq!(finder.erase_json(text).as_deref(), Some(expected));
    assert_eq!(finder.erase_json(expected), None);
}

/// Other readers take such a text, and the credential beside it.
#[test]
fn half_of_a_surrogate_pair_hides_nothing() {
    let finder = finder(&["tok-123456"]);
    let text = r#"{"a":"\ud800 tok-12345\u0036","tok-123456\udc00":["\ud83d","\ud83d\ude00"]}"#;
    let erased = finder.erase_json(text).unwrap();
    assert_eq!(
        erased,
        "{\"a\":\"\u{fffd}\u{fffd}\u{fffd} ***\",\"***\u{fffd}\u{fffd}\u{fffd}-1\":[\"\\ud83d\",\"\\ud83d\\ude00\"]}"
    );
}

#[test]
fn found_wherever_it_stands_and_nothing_else_is_touched() {
    let finder = finder(&["tok-123456", "tok-123456-longer", "a\"b\\c\nd\u{e9}", "7777777"]);
    let check = |mut value: Value, expected: Value| {
        assert_eq!(finder.is_in(&value), value != expected, "{value}");
        finder.erase(&mut value);
        assert_eq!(value, expected);
        assert!(!finder.is_in(&value), "{value}");
    };
    check(
        json!({"a": ["tok-12345", 777_777, null, true]}),
        json!({"a": ["tok-12345", 777_777, null, true]}),
    );
    check(json!("x tok-123456y"), json!("x ***y"));
    check(json!(["tok-123456-longer", "tok-123456-long"]), json!(["***", "***-long"]));
    check(json!({"deep": [{"a": "a\"b\\c\nd\u{e9}"}]}), json!({"deep": [{"a": "***"}]}));
    check(json!({"n": 17_777_777}), json!({"n": "***"}));
    check(
        json!({"tok-123456": 1, "***": 2, "tok-123456-longer": {"x": "tok-123456"}}),
        json!({"***": 1, "***-1": 2, "***-2": {"x": "***"}}),
    );
}

/// What is erased may make any number of names alike; each takes a few bytes more, whatever names
/// there are already.
#[test]
fn names_that_come_to_be_alike_are_numbered() {
    let finder = finder(&["a-secret", "b-secret"]);
    let names = ["a-secret", "***-2", "b-secret", "***-1", "***"];
    let mut value: Value = names.into_iter().zip(0..).collect();
    finder.erase(&mut value);
    let expected = json!({"***": 0, "***-2": 1, "***-1": 2, "***-1-2": 3, "***-3": 4});
    assert_eq!(value, expected);

    let secrets: Vec<String> = (1000..3000).map(|number| format!("secret-{number}")).collect();
    let finder = SecretFinder::new(secrets.iter().map(String::as_str)).unwrap();
    let mut value: Value = secrets.iter().map(|name| (name.as_str(), true)).collect();
    finder.erase(&mut value);
    assert_eq!(value.as_object().unwrap().len(), 2000);
    let bytes = value.to_string().len();
    assert!(bytes < 2000 * 20, "{bytes}");
}

#[test]
fn a_text_that_is_no_json_is_looked_through_all_the_same() {
    let finder = finder(&["tok-123456"]);
    for (text, expected) in [
        ("\"", None),
        ("\"\u{e9}", None),
        ("[\"\\", None),
        ("\"tok-123456", Some("\"***\"")),
        ("{\"a\": \"\u{e9}tok-123456\u{e9}", Some("{\"a\": \"\u{e9}***\u{e9}\"")),
    ] {
        assert_eq!(finder.erase_json(text).as_deref(), expected, "{text}");
    }
}

#[test]
fn found_across_the_windows() {
    let finder = finder(&["0123456789abcdef"]);
    for before in (WINDOW_BYTES - 40)..(WINDOW_BYTES + 4) {
        // Escapes make the text be written in pieces.
        let text = format!("{}\n{}0123456789abcdef", "x".repeat(before), "y".repeat(8));
        assert!(finder.is_in(&json!([text, "z".repeat(WINDOW_BYTES)])), "{before}");
    }
    assert!(!finder.is_in(&json!(["0123456789abcde".repeat(10_000)])));
}

#[test]
fn nothing_to_find_is_no_finder() {
    assert!(SecretFinder::new([]).is_none());
}
