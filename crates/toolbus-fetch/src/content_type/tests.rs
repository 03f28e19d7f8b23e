//! What values of the header mean.

use super::*;

#[test]
fn types_and_charsets_are_read_as_servers_write_them() {
    let check = |text: &str, media_type: &str, charset: Option<&str>| {
        let read = ContentType::parse(text);
        assert_eq!(
            (read.media_type.as_str(), read.charset.as_deref()),
            (media_type, charset),
            "{text}"
        );
    };
    check("text/html", "text/html", None);
    check(" Text/HTML ; Charset=\"ISO-8859-1\"", "text/html", Some("ISO-8859-1"));
    check("text/html;charset='utf-8';x=y", "text/html", Some("utf-8"));
    check("text/html; charset=", "text/html", None);
    check("text html, text/plain", "", None);
    check("", "", None);
}

#[test]
fn texts_are_told_from_other_things() {
    let is = |text: &str| ContentType::parse(text).may_be_text();
    for text in
        ["", "text/plain", "application/problem+json", "image/svg+xml", "application/xhtml+xml"]
    {
        assert!(is(text), "{text}");
    }
    for other in ["application/pdf", "image/png", "application/octet-stream", "video/mp4"] {
        assert!(!is(other), "{other}");
    }
}
