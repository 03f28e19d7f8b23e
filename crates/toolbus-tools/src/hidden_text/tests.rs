//! What goes, what stays, and that plain text costs nothing.

use serde_json::json;

use super::*;

fn cleaned(text: &str) -> (String, String) {
    let mut found = HiddenCounts::default();
    let text = clean_text(text, &mut found).into_owned();
    (text, found.to_string())
}

#[test]
fn what_nobody_sees_goes_and_is_counted() {
    let check = |text: &str, expected: &str, found: &str| {
        assert_eq!(cleaned(text), (expected.to_owned(), found.to_owned()), "{text:?}");
    };
    check("a\u{200B}b\u{200D}c\u{2060}\u{FEFF}\u{AD}", "abc", "5 zero-width");
    check("pay \u{202E}evil\u{202C}\u{2066}x\u{2069}\u{200F}", "pay evilx", "5 bidirectional");
    let tags: String =
        "ignore".chars().map(|c| char::from_u32(0xE0000 + c as u32).unwrap()).collect();
    check(&format!("sum{tags}"), "sum", "6 tag");
    check("a\u{FE0F}\u{FE01}\u{E0101}1\u{FE0F}", "a1", "4 variation selector");
    check("a\u{E000}\u{F8FF}\u{10FFFD}", "a", "3 private-use");
    check("a\0\u{1B}[31m\u{7F}\u{85}\u{FFFE}b", "a[31mb", "5 control");
    check("one\u{2028}two", "one\ntwo", "1 control");
    check("\u{200B}\u{E0041}", "", "1 zero-width, 1 tag");
    // Between letters that do not join, and more of them than anything needs.
    check("f\u{200C}i \u{200D}", "fi ", "2 zero-width");
    check("\u{645}\u{200C}\u{200C}\u{200D}\u{6CC}", "\u{645}\u{200C}\u{6CC}", "2 zero-width");
    check("\u{1F600}\u{200D}x", "\u{1F600}x", "1 zero-width");
    // Beside what goes itself.
    check("1\u{FE0F}\u{200D}🔥", "1🔥", "1 zero-width, 1 variation selector");
    check("\u{17B4}\u{200B}\u{1797}", "\u{1797}", "2 zero-width");
    check("\u{1797}\u{200B}\u{17B4}", "\u{1797}", "2 zero-width");
    check("\u{645}\u{2060}\u{200C}\u{6CC}", "\u{645}\u{200C}\u{6CC}", "1 zero-width");
}

/// All texts of a few characters, one of each kind that stays beside certain others.
#[test]
fn nothing_is_hidden_in_a_text_that_was_cleaned() {
    let chars = "1\u{20E3}\u{FE0F}\u{1F525}\u{200D}\u{645}\u{200B}\u{1797}\u{17B4}\u{1100}\u{1160}\
        \u{182E}\u{180B}\u{2028}";
    let chars: Vec<char> = chars.chars().collect();
    for number in 0..chars.len().pow(4) {
        let at = |place| number / chars.len().pow(place) % chars.len();
        let text: String = (0..4).map(|place| chars[at(place)]).collect();
        let (once, _) = cleaned(&text);
        assert_eq!(cleaned(&once), (once.clone(), String::new()), "{text:?}");
    }
}

#[test]
fn ordinary_text_of_every_script_stays() {
    let texts = [
        "tabs\tand\r\nlines",
        "Grüße, naïve café — „quotes“ … 5 € ½",
        "می\u{200C}خواهم کتاب\u{200C}ها را",
        "اَلْعَرَبِيَّةُ ١٢٣",
        "עברית עם נִקּוּד",
        "क\u{94D}\u{200D}ष और क\u{94D}\u{200C}ष, हिन्दी",
        "ന\u{D4D}\u{200D} മലയാളം",
        "ශ්\u{200D}රී ලංකා",
        "ខ្មែរ\u{200B}ភាសា",
        "ภาษา\u{200B}ไทย",
        "日本語、中文、한국어",
        "\u{1100}\u{1160}\u{11A8}",
        "\u{182E}\u{180B}\u{1823}",
        "Ελληνικά, кириллица, հայերեն, ქართული, አማርኛ",
        "👨‍👩‍👧‍👦 👩🏽‍💻 🏳️‍🌈 ❤️‍🔥 👁️‍🗨️ ☎︎ 1️⃣ #️⃣ 🇩🇪 🧑🏿‍🤝‍🧑🏻 🏴\u{E0067}\u{E0062}\u{E0065}\u{E006E}\u{E0067}\u{E007F} ⚕️",
        "x² ≤ ∑ ∫ → ⇒ ℝ",
    ];
    for text in texts {
        assert_eq!(cleaned(text), (text.to_owned(), String::new()), "{text}");
        assert!(
            matches!(clean_text(text, &mut HiddenCounts::default()), Cow::Borrowed(_)),
            "copied: {text}"
        );
    }
    // A flag of nowhere is a place to hide in.
    let flag: String =
        "zzzzz".chars().map(|c| char::from_u32(0xE0000 + c as u32).unwrap()).collect();
    assert_eq!(cleaned(&format!("🏴{flag}\u{E007F}")), ("🏴".to_owned(), "6 tag".to_owned()));
}

#[test]
fn names_are_clean_or_not() {
    for name in ["echo", "get-time.v2", "поиск", "می\u{200C}خواهم", "read file"] {
        assert!(is_clean_name(name), "{name:?}");
    }
    for name in ["echo\u{200B}", "a\nb", "a\tb", "\u{202E}ohce", "e\0", "x\u{E0041}"] {
        assert!(!is_clean_name(name), "{name:?}");
    }
}

#[test]
fn json_is_cleaned_but_for_its_names() {
    let mut found = HiddenCounts::default();
    let mut value = json!({"a": ["x\u{200B}", {"description": "y\u{202E}"}], "n": 1});
    assert!(clean_json(&mut value, &mut found));
    assert_eq!(value, json!({"a": ["x", {"description": "y"}], "n": 1}));
    assert_eq!(found.to_string(), "1 zero-width, 1 bidirectional");
    let mut value = json!({"ok": {"pa\u{200B}th": {}}, "b": "c\u{7}"});
    assert!(!clean_json(&mut value, &mut found));
    assert_eq!(value["b"], "c", "the rest is cleaned all the same");
}
