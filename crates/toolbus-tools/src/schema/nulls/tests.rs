use serde_json::json;

use super::*;
use crate::schema::Schema;

#[test]
fn null_is_not_given_where_it_would_be_refused() {
    let item = json!({
        "type": "object",
        "properties": {"name": {"type": "string"}, "note": {"type": "string"}},
        "required": ["name"]
    });
    let schema = json!({
        "type": "object",
        "properties": {
            "id": {"type": "string"},
            "note": {"type": "string"},
            "count": {"type": ["integer", "string"]},
            "cleared": {"type": ["string", "null"]},
            "choice": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "anything": {},
            "item": item,
            "items": {"type": "array", "items": item}
        },
        "required": ["id"]
    });
    let check = |arguments: Value, expected: Value| {
        let Value::Object(mut arguments) = arguments else { panic!("{arguments}") };
        drop_nulls(&schema, &mut arguments);
        assert_eq!(Value::Object(arguments), expected);
    };

    check(json!({"id": "a", "note": null, "count": null}), json!({"id": "a"}));
    // It says something there,
    let taken = json!({"cleared": null, "choice": null, "anything": null});
    check(taken.clone(), taken);
    // or is a mistake that the schema's check tells of.
    let wrong = json!({"id": null, "unknown": null, "items": [null]});
    check(wrong.clone(), wrong);
    check(
        json!({"item": {"name": null, "note": null}, "items": [{"name": "b", "note": null}, {}]}),
        json!({"item": {"name": null}, "items": [{"name": "b"}, {}]}),
    );
    check(json!({"note": "null", "item": 1}), json!({"note": "null", "item": 1}));
}

#[test]
fn optional_properties_are_told_without_null() {
    let check = |property: Value, expected: Value| {
        let of = |property: &Value| json!({"type": "object", "properties": {"a": property}});
        let mut schema = of(&property);
        hide_optional_nulls(&mut schema);
        assert_eq!(schema, of(&expected));
        Schema::compile(&schema).expect("it is still a schema");

        // Null is a value of one that has to be there.
        let mut required = of(&property);
        required["required"] = json!(["a"]);
        let before = required.clone();
        hide_optional_nulls(&mut required);
        assert_eq!(required, before);
    };

    check(json!({"type": ["string", "null"]}), json!({"type": "string"}));
    check(json!({"type": ["string", "null", "integer"]}), json!({"type": ["string", "integer"]}));
    check(
        json!({"type": ["integer", "null"], "minimum": 0, "default": null}),
        json!({"type": "integer", "minimum": 0}),
    );
    check(
        json!({"type": ["string", "null"], "enum": ["x", null]}),
        json!({"type": "string", "enum": ["x"]}),
    );
    check(
        json!({"description": "outer", "anyOf": [
            {"type": "object", "description": "inner", "properties": {}}, {"type": "null"}
        ]}),
        json!({"description": "outer", "type": "object", "properties": {}}),
    );

    for kept in [
        json!({"type": "string", "default": "null"}),
        json!({"type": ["string", "integer"], "default": null}),
        json!({"type": "null"}),
        json!({"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]}),
        json!({"anyOf": [{"type": "string"}]}),
        json!({"const": {"properties": {"a": {"type": ["string", "null"]}}}}),
        json!(true),
    ] {
        check(kept.clone(), kept);
    }
}

#[test]
fn properties_within_are_told_without_null_too() {
    let nested = |kind: Value| {
        let inner = json!({"type": "object", "properties": {"a": {"type": kind}}});
        json!({
            "type": "object",
            "properties": {
                "list": {"type": "array", "items": inner},
                "map": {"type": "object", "additionalProperties": inner},
                "type": inner
            },
            "required": ["list", "map", "type"],
            "$defs": {"properties": inner}
        })
    };
    let mut schema = nested(json!(["string", "null"]));
    hide_optional_nulls(&mut schema);
    assert_eq!(schema, nested(json!("string")));
}
