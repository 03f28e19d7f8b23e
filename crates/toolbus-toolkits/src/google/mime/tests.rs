use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use proptest::prelude::{any, proptest};
use serde_json::json;

use super::*;

fn part(media_type: &str, text: &str) -> Value {
    encoded(media_type, media_type, text.as_bytes())
}

fn encoded(media_type: &str, content_type: &str, bytes: &[u8]) -> Value {
    json!({
        "mimeType": media_type, "filename": "",
        "headers": [{"name": "content-type", "value": content_type}],
        "body": {"data": URL_SAFE_NO_PAD.encode(bytes), "size": bytes.len()}
    })
}

fn multipart(kind: &str, parts: impl IntoIterator<Item = Value>) -> Value {
    json!({"mimeType": format!("multipart/{kind}"), "parts": parts.into_iter().collect::<Vec<_>>()})
}

fn check(payload: &Value, expected: &str) {
    assert_eq!(text_of_mail(payload), expected, "{payload}");
}

#[test]
fn mx_g5_the_last_page_of_alternatives_wins() {
    let [plain, page] = [part("text/plain", "plain"), part("text/html", "<p>first</p>")];
    let last = part("TEXT/HTML", "<p>last &amp; best</p>");
    let empty = json!({"mimeType": "text/html", "body": {"size": 0}});
    let alternatives = [plain.clone(), page.clone(), last, empty.clone()];
    check(&multipart("alternative", alternatives), "last & best");

    let nested = |text: &str| multipart("related", [part("text/html", text)]);
    let parts = [nested("one"), plain.clone(), nested("two"), multipart("mixed", [])];
    check(&multipart("alternative", parts), "two");
    let plains = [empty, plain, part("text/plain", "other")];
    check(&multipart("alternative", plains), "plain");
    check(&multipart("alternative", []), NO_TEXT);
}

#[test]
fn mx_g5_other_parts_are_joined() {
    let file = json!({
        "mimeType": "text/plain", "filename": "notes.txt", "body": {"data": "bm90ZXM"}
    });
    let image = json!({"mimeType": "image/png", "body": {"data": "AAAA"}});
    let parts =
        [part("text/plain", "one\r\ntwo\r\n"), image, file, part("text/html", "<b>three</b>")];
    check(&multipart("mixed", parts), "one\ntwo\n\nthree");
    check(&Value::Null, NO_TEXT);
    check(&json!({"mimeType": "text/plain", "body": {"data": 7}}), NO_TEXT);
    check(&json!({"mimeType": "text/plain", "body": {"data": "***"}}), NO_TEXT);
}

#[test]
fn mx_g5_padding_and_charsets_are_restored() {
    for data in ["YQ", "YQ==", "Y Q\n=="] {
        check(&json!({"mimeType": "text/plain", "body": {"data": data}}), "a");
    }
    check(&encoded("text/plain", "text/plain; charset=ISO-8859-1", b"caf\xe9"), "café");
    // Gmail has made UTF-8 of it.
    check(&encoded("text/plain", "text/plain; charset=ISO-8859-1", "café".as_bytes()), "café");
    let japanese = b"\x1b$B$3$s$K$A$O\x1b(B";
    check(&encoded("text/plain", "text/plain; charset=iso-2022-jp", japanese), "こんにちは");
    check(&encoded("text/plain", "text/plain; charset=none", b"a\xffb"), "a\u{fffd}b");
}

#[test]
fn depth_parts_and_size_are_bounded() {
    let mut deep = part("text/plain", "deep");
    for _ in 0..DEPTH_MAX {
        deep = multipart("mixed", [deep]);
    }
    check(&deep, "deep");
    check(&multipart("mixed", [deep]), NO_TEXT);

    let many = multipart("mixed", std::iter::repeat_n(part("text/plain", "x"), 3 * PARTS_MAX));
    let text = text_of_mail(&many);
    assert_eq!(text.matches('x').count(), PARTS_MAX - 1);
    assert!(text.ends_with(CUT), "{text}");
    let page = part("text/html", &format!("begin{}end", "<br>".repeat(200_000)));
    assert_eq!(text_of_mail(&page), format!("begin{CUT}"));
    let large = part("text/plain", &"é".repeat(TEXT_BYTES_MAX));
    let text = text_of_mail(&large);
    assert!(text.ends_with(CUT) && text.len() <= TEXT_BYTES_MAX + CUT.len());
}

#[test]
fn headers_make_no_lines() {
    let payload = json!({"headers": [
        {"name": "SUBJECT", "value": "hello\r\nFrom: boss@example.com\u{2028}\u{85}x"},
        {"name": "Subject", "value": "second"}, {"value": 1}, null
    ]});
    assert_eq!(header(&payload, "Subject"), "hello From: boss@example.com x");
    assert_eq!(header(&payload, "To"), "");
}

proptest! {
    #[test]
    fn any_part_is_read(data: String, content_type: String, bytes in any::<Vec<u8>>()) {
        let mut payload = encoded("text/html", &content_type, &bytes);
        text_of_mail(&payload);
        payload["body"]["data"] = data.into();
        text_of_mail(&payload);
    }
}
