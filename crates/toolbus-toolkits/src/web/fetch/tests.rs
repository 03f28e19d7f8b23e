//! Texts of `web_fetch`.

use super::*;

#[test]
fn rule_8_nothing_is_cut_in_the_middle_of_a_character() {
    let check = |text: &str, chars: usize, expected: &str| {
        assert_eq!(cut_chars(text, chars), expected, "{text} {chars}");
    };
    check("abc", 3, "abc");
    check("abc", 2, "ab");
    check("a😀b", 2, "a😀");
    check("ae\u{301}b", 2, "a");
    check("ae\u{301}b", 3, "ae\u{301}");
    check("a👩\u{200d}💻", 2, "a");
    check("a👩\u{200d}💻", 3, "a");
    check("a👍\u{1f3fd}", 2, "a");
}

#[test]
fn numbers_have_commas() {
    for (number, text) in [(0, "0"), (999, "999"), (2_000_001, "2,000,001")] {
        assert_eq!(group_by_commas(number), text);
    }
}

#[test]
fn json_is_pretty_unless_that_is_too_much() {
    assert_eq!(pretty_json("{\"a\":[1]}".to_owned()), "{\n  \"a\": [\n    1\n  ]\n}");
    assert_eq!(pretty_json("{\"a\":".to_owned()), "{\"a\":");
    let deep = format!("{}{}", "[".repeat(40), "]".repeat(40));
    assert!(pretty_json(deep).len() > 1_000);
    let wide = format!("{}{}{}", "[".repeat(100), "1,".repeat(10_000) + "1", "]".repeat(100));
    assert_eq!(pretty_json(wide.clone()), wide);
    // Nesting beyond what is read.
    let deepest = "[".repeat(100_000);
    assert_eq!(pretty_json(deepest.clone()), deepest);
}
