//! What is told of an installation.

use super::*;

#[test]
fn passwords_are_taken_out_of_addresses() {
    for (text, expected) in [
        ("no address", "no address"),
        ("https://example.org/a@b", "https://example.org/a@b"),
        (
            "Looking in https://me:secret@example.org/x, https://t@y",
            "Looking in https://***@example.org/x, https://***@y",
        ),
        ("http://a:b@c@d/ e@f", "http://***@d/ e@f"),
        ("x://", "x://"),
    ] {
        assert_eq!(without_passwords(text), expected);
    }
}

#[test]
fn the_end_of_a_long_text_is_kept() {
    let text = "é".repeat(INSTALLER_OUTPUT_BYTES_MAX);
    let end = last_bytes(&text);
    assert!(end.len() <= INSTALLER_OUTPUT_BYTES_MAX && text.ends_with(end) && !end.is_empty());
    assert_eq!(last_bytes("short"), "short");
}
