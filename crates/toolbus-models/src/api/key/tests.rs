use super::*;

#[test]
fn a_key_is_checked_before_it_is_sent() {
    let problem = |text: &str| match ApiKey::parse(text) {
        Ok(_) => String::new(),
        Err(kind) => kind.to_string(),
    };
    assert_eq!(problem(" sk-1234567 \n"), "");
    assert!(problem("").contains("empty"));
    assert!(problem("a b").contains("white space"));
    assert!(problem("a\nb").contains("white space"));
    assert!(problem("schlüssel").contains("other characters"));
    assert!(problem(&"k".repeat(KEY_BYTES_MAX + 1)).contains("too long"));
}

#[test]
fn nothing_prints_a_key() {
    let secret = Secret::from("sk-1234567".to_owned());
    let source = KeySource::Set(secret);
    assert!(!format!("{source:?}").contains("1234567"));

    let key = ApiKey::parse("sk-1234567").expect("it is a key");
    assert!(!format!("{:?}", key.header("Bearer ")).contains("1234567"));

    let kind = ErrorKind::Refused { status: 400, message: "no sk-1234567 here".to_owned() };
    let erased = KeyEraser::of(Some(&key)).erase(kind);
    assert_eq!(erased, ErrorKind::Refused { status: 400, message: "no *** here".to_owned() });
}
