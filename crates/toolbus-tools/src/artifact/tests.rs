use serde_json::json;
use toolbus_testkit::memory::peak_bytes;

use super::*;

#[test]
fn a_reference_is_an_object_with_one_member() {
    let reference = ArtifactRef::parse("art_1").unwrap();
    assert_eq!(reference_text(&reference.to_value()), Some("art_1"));
    for data in [
        json!({"$artifact": "art_1", "other": 1}),
        json!({"$artifact": 1}),
        json!({"artifact": "art_1"}),
        json!(["$artifact", "art_1"]),
        json!("art_1"),
    ] {
        assert_eq!(reference_text(&data), None, "{data}");
    }
}

#[test]
fn references_are_found_wherever_they_are() {
    let arguments = json!({
        "text": {"$artifact": "a"},
        "list": [1, {"$artifact": "b"}, {"deep": {"$artifact": "c"}}],
        "a/b~c": {"$artifact": "d"},
        "data": {"$artifact": "e", "and": "more"},
    });
    assert_eq!(find_references(&arguments, 9), ["a", "b", "c", "d"]);

    let mut replaced = arguments.clone();
    let mut asked = Vec::new();
    replace_references(&mut replaced, &mut |text: &str| {
        asked.push(text.to_owned());
        // What takes a place may look like a reference.
        (text != "b").then(|| json!({"$artifact": text.to_uppercase()}))
    });
    assert_eq!(asked, ["a", "b", "c", "d"]);
    let expected = json!({
        "text": {"$artifact": "A"},
        "list": [1, {"$artifact": "b"}, {"deep": {"$artifact": "C"}}],
        "a/b~c": {"$artifact": "D"},
        "data": {"$artifact": "e", "and": "more"},
    });
    assert_eq!(replaced, expected);
}

/// A call may have a hundred thousand references, each within a member whose name is megabytes.
#[test]
fn no_more_references_are_built_than_are_asked_for() {
    let mut arguments = json!(vec![json!({"$artifact": ""}); 10_000]);
    for _ in 0..3 {
        let name = "n".repeat(1 << 20);
        arguments = json!({name: arguments});
    }
    let before = peak_bytes();
    assert_eq!(find_references(&arguments, 1_001), vec![""; 1_001]);
    assert_eq!(find_references(&arguments, usize::MAX).len(), 10_000);
    let grown = peak_bytes() - before;
    assert!(grown < 16 << 20, "{grown} bytes more");
}

#[test]
fn a_name_is_plain_and_short() {
    assert!(ArtifactRef::parse(&"a".repeat(REFERENCE_BYTES_MAX)).is_ok());
    for text in ["", "../a", "a b", "ä", "a\n", &"a".repeat(REFERENCE_BYTES_MAX + 1)] {
        assert!(ArtifactRef::parse(text).is_err(), "{text}");
    }
}
