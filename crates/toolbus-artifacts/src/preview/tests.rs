use super::*;

/// 1c.6: both the limit and the cut are by bytes, between characters.
#[test]
fn rule_1c_6_a_preview_is_cut_by_bytes() {
    let preview = of_text(&"é".repeat(3000), 4096);
    assert_eq!(preview, format!("{}…", "é".repeat(PREVIEW_BYTES_MAX / 2)));
    assert_eq!(of_text(&"é".repeat(3000), 7), "ééé…");
    assert_eq!(of_text("", 10), "…");
}

#[test]
fn a_preview_is_one_line() {
    assert_eq!(of_text("a\n\n  b\tc\n", 100), "a b c…");
    assert_eq!(of_text(&" ".repeat(100_000), 100), "…");
    assert!(of_text(&"x".repeat(100_000_000), 4096).len() <= PREVIEW_BYTES_MAX + 3);
}

#[test]
fn a_value_is_summed_up() {
    let reference = ArtifactRef::parse("art_1").unwrap();
    let check = |text: &str, expected: Value| assert_eq!(of_value(text, &reference), expected);
    check(
        "[1, [2, 3], {}]",
        json!({"$artifact": "art_1", "type": "array", "bytes": 15, "length": 3}),
    );
    check(
        r#"{"a": 1, "b": {"c": 2}}"#,
        json!({"$artifact": "art_1", "type": "object", "bytes": 23, "keys": ["a", "b"], "length": 2}),
    );
    check(r#""text""#, json!({"$artifact": "art_1", "type": "string", "bytes": 6}));

    let many: Map<String, Value> = (0..1000).map(|at| (format!("{at:0>100}"), json!(at))).collect();
    let summary = of_value(&json!(many).to_string(), &reference);
    assert_eq!(summary["length"], 1000);
    assert_eq!(summary["keys"].as_array().unwrap().len(), NAMED_MEMBERS_MAX);
    assert!(summary.to_string().len() < 4096);
}
