//! What is erased and what is not.

use super::*;

#[test]
fn secrets_are_erased_longest_first_and_short_ones_stay() {
    let eraser =
        Eraser::new(["token-1", "token-12345", "info"].map(|text| Secret::from(text.to_owned())));
    let text = "info: token-12345 and token-1";
    assert_eq!(eraser.erase(text), "info: *** and ***");
    assert!(matches!(eraser.erase("nothing"), Cow::Borrowed("nothing")));
}

#[test]
fn what_one_clone_learns_all_erase_and_the_oldest_is_forgotten() {
    let eraser = Eraser::new([]);
    let clone = eraser.clone();
    let token = |number: usize| Secret::from(format!("token-{number:03}"));
    eraser.add_secrets(&Secret::from("short".to_owned()));
    (0..17).for_each(|number| eraser.add_secrets(&token(number)));
    (0..17).for_each(|_| eraser.add_secrets(&token(16)));
    assert_eq!(clone.erase("short token-000 token-001 token-016"), "short token-000 *** ***");
}

#[test]
fn credentials_of_the_vault_stay_secret_when_they_were_changed() {
    let eraser = Eraser::new([]).with_credentials([Secret::from("of-the-entry".to_owned())]);
    let clone = eraser.clone();
    let set = |value: &str| {
        let values = [Secret::from(value.to_owned())];
        eraser.set_vault_credentials(values.iter());
    };
    let erased = |text: &str| {
        let mut value = serde_json::json!(text);
        clone.finder().expect("a finder").erase(&mut value);
        assert_eq!(value, *clone.erase(text), "in results and in texts");
        value.as_str().expect("a text").to_owned()
    };
    set("first value/1");
    assert_eq!(erased("first value/1, first%20value%2F1"), "***, ***");
    set("second-value");
    assert_eq!(erased("first value/1, second-value"), "***, ***");

    // Tokens, which are learned by the hour, push none of them out.
    (0..20).for_each(|number| eraser.add_secrets(&Secret::from(format!("token-{number}"))));
    assert_eq!(erased("first value/1, second-value"), "***, ***");
    assert_eq!(clone.longest_secret(), "first%20value%2F1".len());
    // Of many that were, the oldest are forgotten; the one that is, never.
    (0..64).for_each(|number| set(&format!("value-{number:03}")));
    assert_eq!(erased("first value/1, value-000, value-063"), "first value/1, ***, ***");
}

#[test]
fn a_credential_of_several_lines_is_erased_line_by_line() {
    let key = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0\nshort\n";
    let eraser = Eraser::default();
    eraser.set_vault_credentials([Secret::from(key.to_owned())].iter());
    assert_eq!(eraser.erase("x MIIEvQIBADANBgkqhkiG9w0 short"), "x *** short");
    assert_eq!(eraser.erase(key.trim_end()), "***");
    let inside = serde_json::json!({"key": key, "more": 1}).to_string();
    assert_eq!(eraser.erase(&inside), r#"{"key":"***","more":1}"#);
}

#[test]
fn texts_are_cut_between_characters() {
    assert_eq!(shorten_text("äöü", 6), "äöü");
    assert_eq!(shorten_text("äöü", 5), "äö…");
    assert_eq!(shorten_text("abc", 0), "…");
}
