//! Which charset a text has.

use super::*;

fn decode(bytes: &[u8], content_type: &str) -> Option<String> {
    decode_text(bytes, &ContentType::parse(content_type))
}

#[test]
fn the_charset_is_honoured() {
    let check = |bytes: &[u8], content_type: &str, expected: &str| {
        assert_eq!(decode(bytes, content_type).as_deref(), Some(expected), "{content_type}");
    };
    check(b"caf\xe9", "text/html; charset=iso-8859-1", "café");
    check(b"\x93\xfa\x96\x7b", "text/plain; charset=Shift_JIS", "日本");
    check("café".as_bytes(), "text/plain", "café");
    check(b"\xff\xfeh\0i\0", "text/plain; charset=utf-8", "hi");
    check(b"\xef\xbb\xbfhi", "text/plain; charset=latin1", "hi");
    check(b"\0h\0i", "text/plain; charset=utf-16be", "hi");
    check(b"caf\xe9", "text/plain; charset=no-such", "caf\u{fffd}");
    check(b"caf\xe9", "text/plain; charset=iso-2022-kr", "caf\u{fffd}");
    check(b"<meta charset='windows-1252'>\xe9", "text/html", "<meta charset='windows-1252'>é");
    check(
        b"<META http-equiv=x content=\"text/html; CHARSET=koi8-r\">\xc1",
        "text/html",
        "<META http-equiv=x content=\"text/html; CHARSET=koi8-r\">а",
    );
    check(b"<meta charset=utf-16>x", "text/html", "<meta charset=utf-16>x");
    check(b"<meta charset=koi8-r>\xc1", "text/plain", "<meta charset=koi8-r>\u{fffd}");
    check(b"", "text/plain; charset=utf-16", "");
}

#[test]
fn what_is_binary_is_no_text() {
    assert_eq!(decode(b"%PDF-1.7\n...", "text/html"), None);
    assert_eq!(decode(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "text/plain"), None);
}
