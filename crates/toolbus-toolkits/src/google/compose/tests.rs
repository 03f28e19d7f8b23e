use super::*;

fn check(list: &str, expected: &str) {
    let mailboxes = parse_mailboxes(list).expect(list);
    let written: Vec<_> = mailboxes.iter().map(Mailbox::header).collect();
    assert_eq!(written.join(" | "), expected, "{list}");
}

#[test]
fn lists_of_addresses_are_split_at_their_commas() {
    check("a@x.org", "a@x.org");
    check("a@x.org, b@y.org,", "a@x.org | b@y.org");
    check("Ana <a@x.org>", "\"Ana\" <a@x.org>");
    check("\"Doe, Jo\" <a@x.org>, <b@y.org>", "\"Doe, Jo\" <a@x.org> | b@y.org");
    check(r#""a \" b" <a@x.org>"#, r#""a \" b" <a@x.org>"#);
    check("Jörg <j@x.org>", "=?UTF-8?B?SsO2cmc=?= <j@x.org>");
    for wrong in ["", " , ", "a", "@x", "a@", "a@b@c", "ä@x.org", "A <a@x.org", "a@x.org b@y.org"]
    {
        assert!(parse_mailboxes(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn encoded_words_are_short_and_split_no_character() {
    let text = "ü€😀".repeat(60);
    let encoded = encode_words(&text);
    let mut decoded = String::new();
    for word in encoded.split("\r\n ") {
        assert!(word.len() <= 75, "{word}");
        let inner = word.strip_prefix("=?UTF-8?B?").and_then(|word| word.strip_suffix("?="));
        let bytes = STANDARD.decode(inner.expect("an encoded word")).expect("base64");
        decoded += &String::from_utf8(bytes).expect("whole characters");
    }
    assert_eq!(decoded, text);
}

#[test]
fn bodies_have_short_lines_of_ascii() {
    assert_eq!(encode_body("a\nb\r\nc\rd"), ("7bit", "a\r\nb\r\nc\r\nd".to_owned()));
    let long = "x".repeat(5_000);
    for body in ["ä", long.as_str(), "a\0b"] {
        let (encoding, written) = encode_body(body);
        assert_eq!(encoding, "base64");
        assert!(written.lines().all(|line| line.len() <= BASE64_LINE_BYTES));
        let bytes = STANDARD.decode(written.replace("\r\n", "")).expect("base64");
        assert_eq!(bytes, body.as_bytes());
    }
}
