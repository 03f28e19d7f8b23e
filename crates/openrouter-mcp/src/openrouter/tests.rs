use super::*;

#[test]
fn the_message_is_what_openrouter_says() {
    let check = |body: &str, expected: &str| assert_eq!(error_message(body.as_bytes()), expected);
    check(r#"{"error":{"code":401,"message":"User not found."}}"#, "User not found.");
    check(r#"{"error":{"code":"x","message":"two\nlines\u0007"},"user_id":"u"}"#, "two lines");
    check(r#"{"error":"text"}"#, r#"{"error":"text"}"#);
    check("<!DOCTYPE html><h1>502</h1>", "(it says so in HTML)");
    check("  \n", "(it says nothing)");
    check("upstream connect error", "upstream connect error");
    assert_eq!(error_message(b"\xff\xfe"), "\u{fffd}\u{fffd}");
    assert_eq!(error_message(&[b'x'; 10_000]).chars().count(), MESSAGE_CHARS_MAX + 1);
}
