use proptest::prelude::*;
use serde_json::json;

use super::*;

#[test]
fn halves_of_pairs_are_replaced_and_pairs_are_kept() {
    let cases = [
        (r#""\ud83e\udd80""#, "\u{1F980}"),
        (r#""a\ud83eb""#, "a\u{FFFD}b"),
        (r#""\udd80\ud83e""#, "\u{FFFD}\u{FFFD}"),
        (r#""\ud83e\ud83e\udd80""#, "\u{FFFD}\u{1F980}"),
        (r#""\ud83e\\udd80""#, "\u{FFFD}\\udd80"),
        (r#""\\ud83e""#, "\\ud83e"),
        (r#""\D83E""#, ""),
    ];
    for (text, expected) in cases {
        let read = read_json(text).ok();
        let expected = (!expected.is_empty()).then(|| json!(expected));
        assert_eq!(read, expected, "{text}");
    }
}

#[test]
fn what_is_no_json_stays_none() {
    for text in ["", "{", r#"{"a": "\ud800"#, "nul", "\\", "\"\\u", "\"\\ud8"] {
        assert!(read_json(text).is_err(), "{text}");
    }
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in any::<String>()) {
        let _ = read_json(&text);
        let quoted = json!(text).to_string();
        prop_assert_eq!(read_json(&quoted).expect("it is JSON"), json!(text));
    }

    #[test]
    fn escapes_are_all_read(units in prop::collection::vec(0xd700_u16..0xe100, 0..12)) {
        let escapes: String = units.iter().map(|unit| format!("\\u{unit:04x}")).collect();
        let read = read_json(&format!("\"{escapes}\"")).expect("it is JSON");
        prop_assert_eq!(read, json!(String::from_utf16_lossy(&units)));
    }
}
