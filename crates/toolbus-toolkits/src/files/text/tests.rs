//! Charsets and lines.

use super::*;

#[track_caller]
fn check(bytes: impl Into<Vec<u8>>, expected: Option<(&str, bool)>) {
    let decoded = decode(bytes.into(), "f").ok();
    let decoded = decoded.as_ref().map(|decoded| (decoded.text.as_str(), decoded.has_replaced));
    assert_eq!(decoded, expected);
}

#[test]
fn text_is_utf8_or_says_what_it_is() {
    check("grün\r\n", Some(("grün\r\n", false)));
    check("\u{FEFF}marked", Some(("marked", false)));
    check("", Some(("", false)));
    check(b"\xFF\xFEh\0i\0".to_vec(), Some(("hi", false)));
    check(b"\xFE\xFF\0h\0i".to_vec(), Some(("hi", false)));
    check(b"\xFF\xFE\x3D\xD8\x00\xDE".to_vec(), Some(("\u{1F600}", false)));
}

#[test]
fn what_is_no_text_is_refused() {
    check(b"text\0text".to_vec(), None);
    // Half a character, half a pair, a zero.
    check(b"\xFF\xFEh".to_vec(), None);
    check(b"\xFF\xFE\x3D\xD8".to_vec(), None);
    check(b"\xFF\xFE\0\0".to_vec(), None);
    // Japanese in Shift_JIS.
    check(b"\x93\xFA\x96\x7B\x8C\xEA\x82\xCC\x95\xB6".to_vec(), None);
}

#[test]
fn a_few_bytes_of_another_charset_are_replaced() {
    let latin = b"A page of text that is nearly all ASCII, by Jos\xE9.".to_vec();
    let text = "A page of text that is nearly all ASCII, by Jos\u{FFFD}.";
    check(latin.clone(), Some((text, true)));
    let shown = decode(latin, "f").unwrap().show(Window::default());
    assert!(shown.ends_with("\n[bytes that are not UTF-8 are shown as U+FFFD]"), "{shown}");
}

#[test]
fn lines_are_shown_with_their_place() {
    let show = |offset, limit, text: &str| {
        decode(text.into(), "f").unwrap().show(Window { offset, limit })
    };
    assert_eq!(show(Some(2), Some(1), "a\nb\nc\n"), "b\n[lines 2 to 2 of 3]");
    assert_eq!(show(None, Some(2), "a\nb\nc"), "a\nb\n[lines 1 to 2 of 3]");
    assert_eq!(show(Some(3), None, "a\nb\nc"), "c\n[lines 3 to 3 of 3]");
    assert_eq!(show(Some(1), Some(9), "a\nb\nc"), "a\nb\nc");
    assert_eq!(show(Some(0), None, "a\n"), "a\n");
    assert_eq!(show(Some(u64::MAX), Some(u64::MAX), "a\nb"), "[none of 2 lines]");
    assert_eq!(show(Some(1), Some(0), "a\nb"), "[none of 2 lines]");
    assert_eq!(show(Some(5), None, ""), "");
}
