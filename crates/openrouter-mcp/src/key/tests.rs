use super::*;

const KEY: &str = "sk-or-v1-0123456789abcdef";

fn key() -> ApiKey {
    ApiKey::parse(KEY).unwrap()
}

#[test]
fn what_is_no_key_is_told_without_repeating_it() {
    let check = |text: &str, expected: &str| {
        let error = ApiKey::parse(text).unwrap_err().to_string();
        assert!(error.contains(expected), "{text:?}: {error}");
        assert!(text.trim().is_empty() || !error.contains(text.trim()), "{error}");
    };
    check("", "no OpenRouter API key is set");
    check(" \n", "no OpenRouter API key is set");
    check("two-words one-key", "white space");
    check("with\nline-end", "white space");
    check("schlüssel", "no key has");
    check(&"k".repeat(KEY_BYTES_MAX + 1), "too long");
}

#[test]
fn white_space_around_it_does_not_count() {
    assert_eq!(
        ApiKey::parse(&format!(" {KEY}\r\n")).unwrap().bearer_header(),
        format!("Bearer {KEY}")
    );
}

#[test]
fn it_prints_itself_nowhere() {
    let key = key();
    let shown = format!("{key:?} {:?}", key.bearer_header());
    assert!(!shown.contains("0123456789"), "{shown}");
}

#[test]
fn it_is_masked_in_every_place_of_a_text() {
    assert_eq!(key().redact_key(&format!("{KEY}, and {KEY}.")), "***, and ***.");
    assert_eq!(key().redact_key("nothing here"), "nothing here");
    assert_eq!(ApiKey::parse("a").unwrap().redact_key("a bad day"), "a bad day");
}

#[tokio::test]
async fn a_file_is_read_each_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key");
    let source = KeySource::File(path.clone());
    assert!(matches!(source.load_key().await, Err(Error::Unreadable(_))));
    for key in ["first-of-two-keys", "other-of-two-keys"] {
        std::fs::write(&path, format!("{key}\n")).unwrap();
        assert_eq!(source.load_key().await.unwrap().bearer_header(), format!("Bearer {key}"));
    }
    std::fs::write(&path, vec![b'k'; 1 << 20]).unwrap();
    assert!(matches!(source.load_key().await, Err(Error::Malformed("it is too long"))));
    std::fs::write(&path, b"\xff\xfe").unwrap();
    assert!(matches!(source.load_key().await, Err(Error::Unreadable(_))));
    let folder = KeySource::File(folder.path().to_owned());
    assert!(matches!(folder.load_key().await, Err(Error::Unreadable(_))));
}
