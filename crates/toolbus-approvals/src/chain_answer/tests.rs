use super::*;

#[test]
fn a_pattern_names_what_has_to_be() {
    let check = |pattern: Value, value: Value, expected: bool| {
        assert_eq!(arguments_fit(&pattern, &value), expected, "{pattern} and {value}");
    };
    let value = json!({"to": "alice@example.com", "n": 1, "deep": {"a": [1, "x"], "b": null}});
    check(Value::Null, value.clone(), true);
    check(json!({}), value.clone(), true);
    check(json!({"to": "*@example.com"}), value.clone(), true);
    check(json!({"to": "*@example.org"}), value.clone(), false);
    check(json!({"n": 1}), value.clone(), true);
    check(json!({"n": "1"}), value.clone(), false);
    check(json!({"missing": "*"}), value.clone(), false);
    check(json!({"deep": {"a": [1, "*"]}}), value.clone(), true);
    check(json!({"deep": {"a": [1]}}), value.clone(), false);
    // Null below is null, and not anything.
    check(json!({"deep": {"b": null}}), value.clone(), true);
    check(json!({"n": null}), value, false);
}

#[test]
fn a_star_is_any_characters() {
    let check = |pattern: &str, text: &str, expected: bool| {
        assert_eq!(text_fits(pattern, text), expected, "{pattern} and {text}");
    };
    check("abc", "abc", true);
    check("abc", "abcd", false);
    check("*", "", true);
    check("a*", "a", true);
    check("a*c", "abc", true);
    check("a*c", "abcd", false);
    check("a*b*c", "a-b-b-c", true);
    check("a*a", "a", false);
    check("*b*", "abc", true);
    check("", "a", false);
}
