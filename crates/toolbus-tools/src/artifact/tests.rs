use serde_json::json;

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
    let found = find_references(&arguments);
    let found: Vec<_> = found.iter().map(|(at, text)| (at.as_str(), text.as_str())).collect();
    assert_eq!(found, [("/text", "a"), ("/list/1", "b"), ("/list/2/deep", "c"), ("/a~1b~0c", "d")]);
    for (pointer, text) in found {
        assert_eq!(reference_text(arguments.pointer(pointer).unwrap()), Some(text));
    }
}

#[test]
fn a_name_is_plain_and_short() {
    assert!(ArtifactRef::parse(&"a".repeat(REFERENCE_BYTES_MAX)).is_ok());
    for text in ["", "../a", "a b", "ä", "a\n", &"a".repeat(REFERENCE_BYTES_MAX + 1)] {
        assert!(ArtifactRef::parse(text).is_err(), "{text}");
    }
}
