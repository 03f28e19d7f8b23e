use serde_json::{Value, json};

use super::{SHOWN_BYTES_MAX, ShownArguments};

/// Arguments whose text has this many bytes.
fn of_length(bytes: usize) -> Value {
    let empty = ShownArguments::text_of(&json!({"text": ""})).len();
    json!({"text": "x".repeat(bytes - empty)})
}

#[test]
fn arguments_are_shown_whole_up_to_their_limit() {
    let whole = of_length(SHOWN_BYTES_MAX);
    let ShownArguments::Whole(text) = ShownArguments::of(&whole) else { panic!("it is whole") };
    assert_eq!(text.len(), SHOWN_BYTES_MAX);

    let shown = ShownArguments::of(&of_length(SHOWN_BYTES_MAX + 1));
    let ShownArguments::Parts { bytes, sha256, beginning, end } = &shown else { panic!("parts") };
    assert_eq!((*bytes, sha256.len()), (SHOWN_BYTES_MAX + 1, 64));
    assert_eq!((beginning.len(), end.len()), (2 << 10, 2 << 10));
    assert!(beginning.starts_with("{\n  \"text\": \"x") && end.ends_with("x\"\n}"), "{end}");
    let told = shown.to_text("see FILE");
    assert!(told.contains("65537 bytes in all, SHA-256 ") && told.contains("; see FILE …"));
}

#[test]
fn parts_end_between_characters() {
    let ShownArguments::Parts { beginning, end, .. } =
        ShownArguments::of(&json!({"text": "\u{1F980}".repeat(100_000)}))
    else {
        panic!("parts")
    };
    assert!(beginning.len() <= 2 << 10 && end.len() <= 2 << 10);
}

#[test]
fn a_question_carries_what_is_shown() {
    for arguments in [json!({}), json!({"a": [1, "b"]}), of_length(SHOWN_BYTES_MAX + 7)] {
        let shown = ShownArguments::of(&arguments);
        let (name, value) = shown.to_member(&arguments);
        assert_eq!(ShownArguments::read(&json!({name: value})), Ok(shown));
    }
    assert!(ShownArguments::read(&json!({"argumentsParts": {"bytes": 1}})).is_err());
}
