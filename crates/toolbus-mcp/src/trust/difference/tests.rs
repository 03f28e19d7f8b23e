//! Differences, and their limits.

use serde_json::json;

use super::*;

fn lines(old: Value, new: Value) -> Vec<String> {
    describe_difference(&old.to_string(), &new.to_string())
}

#[test]
fn every_place_is_told_with_what_stood_and_stands_there() {
    let old = json!({
        "description": "adds", "annotations": {"readOnlyHint": true},
        "inputSchema": {"properties": {"a b": {"type": "string"}, "n": {"enum": [1, 2]}}}
    });
    let new = json!({
        "description": "adds\nand sends", "title": "Add",
        "inputSchema": {"properties": {"a b": {"type": "number"}, "n": {"enum": [1, 3]}}}
    });
    assert_eq!(
        lines(old.clone(), new.clone()),
        [
            r#"description: "adds" → "adds\nand sends""#,
            r#"annotations is gone: {"readOnlyHint":true}"#,
            r#"inputSchema.properties["a b"].type: "string" → "number""#,
            "inputSchema.properties.n.enum[1]: 2 → 3",
            r#"title is new: "Add""#,
        ]
    );
    let expected = ["title", "description", "inputSchema", "annotations"];
    assert_eq!(changed_members(&old.to_string(), &new.to_string()), expected);
}

#[test]
fn long_texts_are_shown_where_they_begin_to_differ() {
    let same = "ä".repeat(1_000);
    let told = lines(json!({"d": format!("{same}old")}), json!({"d": format!("{same}new{same}")}));
    let [line] = told.as_slice() else { panic!("{told:?}") };
    let lead = "ä".repeat(12);
    assert!(line.starts_with(&format!("d: \"…{lead}old\" → \"…{lead}new")), "{line}");
    assert!(line.len() < 400, "{}", line.len());
}

#[test]
fn there_are_only_so_many_lines() {
    let many = |value: i32| {
        Value::Object((0..100).map(|number| (format!("m{number}"), json!(value))).collect())
    };
    let told = lines(many(1), many(2));
    assert_eq!((told.len(), told[20].as_str()), (21, "and 80 more"));
    assert_eq!(describe_difference("not JSON", "{}").len(), 1);
}
