//! Keys of pages, and their beginnings.

use super::*;

#[test]
fn keys_are_those_of_the_specification() {
    assert_eq!(key_of("https://example.com/big"), "https___example.com_big");
    assert_eq!(key_of("//x/é?a=b#c"), "x_é_a_b_c");
    let long = |end: &str| key_of(&format!("https://example.com/{}{end}", "x".repeat(100)));
    assert_eq!(long("a").chars().count(), KEY_CHARS_MAX);
    assert_ne!(long("a"), long("b"));
    assert_eq!(long("a"), long("a"));
}

#[test]
fn a_beginning_says_how_much_is_missing() {
    assert_eq!(cut_to("abcdef", 4), "abcd\n\n[Content truncated — 2 chars omitted]");
    assert_eq!(cut_to("a😀b", 2), "a\n\n[Content truncated — 3 chars omitted]");
}
