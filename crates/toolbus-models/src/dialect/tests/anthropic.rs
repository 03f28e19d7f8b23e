//! Schemas without strict mode.

use super::*;

#[track_caller]
fn check(schema: Value, expected: Value) {
    let definition = define(Dialect::Anthropic, schema.clone());
    assert_eq!(definition["input_schema"], expected, "{schema}");
    // The other API takes the same where it is not strict.
    let loose = loose::lower(&schema, PropertyNames::Any).schema;
    assert!(loose.get("anyOf").is_none() && loose["type"] == "object");
}

#[test]
fn what_an_api_takes_stays_as_it_is() {
    let schema = json!({
        "type": "object",
        "properties": {"a": {"anyOf": [{"type": "string", "minLength": 1}, {"$ref": "#/$defs/d"}]}},
        "required": ["a"],
        "additionalProperties": false,
        "$defs": {"d": {"type": "integer"}}
    });
    check(schema.clone(), schema);
}

#[test]
fn choices_at_the_top_are_merged() {
    let (text, number) = (json!({"type": "string"}), json!({"type": "integer"}));
    check(
        json!({
            "type": "object",
            "properties": {"a": text},
            "oneOf": [
                {"properties": {"b": text, "c": text}, "required": ["a", "b"]},
                {"properties": {"b": number}, "required": ["b"]}
            ]
        }),
        json!({
            "type": "object",
            "properties": {"a": text, "b": {"anyOf": [text, number]}, "c": text},
            "required": ["b"]
        }),
    );
    check(
        json!({
            "allOf": [{"$ref": "#/$defs/base"}, {"properties": {"b": number}, "required": ["b"]}],
            "$defs": {"base": {"type": "object", "properties": {"a": text}, "required": ["a"]}}
        }),
        json!({
            "$defs": {"base": {"type": "object", "properties": {"a": text}, "required": ["a"]}},
            "type": "object",
            "properties": {"a": text, "b": number},
            "required": ["a", "b"]
        }),
    );
    // A reference to itself ends.
    check(
        json!({"properties": {"a": text}, "anyOf": [{"required": ["a"]}, {"allOf": [{"required": ["a"]}]}]}),
        json!({"properties": {"a": text}, "type": "object", "required": ["a"]}),
    );
}

#[test]
fn older_drafts_are_told_in_the_words_of_today() {
    check(
        json!({
            "$schema": "http://json-schema.org/draft-04/schema#",
            "id": "x",
            "type": "object",
            "properties": {
                "n": {"type": "number", "minimum": 0, "exclusiveMinimum": true},
                "m": {"type": "number", "maximum": 9, "exclusiveMaximum": false},
                "t": {"type": "array", "items": [{"type": "string"}], "additionalItems": false},
                "l": {"type": "array"}
            }
        }),
        json!({
            "type": "object",
            "properties": {
                "n": {"type": "number", "exclusiveMinimum": 0},
                "m": {"type": "number", "maximum": 9},
                "t": {"type": "array", "prefixItems": [{"type": "string"}], "items": false},
                "l": {"type": "array", "items": {}}
            }
        }),
    );
}

#[test]
fn names_of_members_are_legal_and_lead_back() {
    let schema = json!({
        "type": "object",
        "properties": {
            "filter[id]": {"type": "string"}, "filter_id_": {"type": "integer"}, "a.b": {"type": "null"}
        },
        "required": ["filter[id]"],
        "dependentRequired": {"filter[id]": ["filter_id_"]}
    });
    let lowered = lower_all(Dialect::Anthropic, [tool("a").with_parameters(schema)]);
    let told = &lowered.definitions()[0]["input_schema"];
    let names: Vec<_> = told["properties"].as_object().unwrap().keys().collect();
    assert!(
        names[0].starts_with("filter_id__") && names[1..] == ["filter_id_", "a.b"],
        "{names:?}"
    );
    assert_eq!(told["required"], json!([names[0]]));
    assert!(told.get("dependentRequired").is_none());

    let raised = lowered.find("a").unwrap().raise(json!({names[0]: "x", "filter_id_": 1}));
    assert_eq!(raised, json!({"filter[id]": "x", "filter_id_": 1}));
    let both = json!({names[0]: "x", "filter[id]": "y"});
    assert_eq!(lowered.find("a").unwrap().raise(both.clone()), both);
    assert_eq!(lowered.find("a").unwrap().raise(json!("text")), json!("text"));
}

/// What refers to a member by its name would lead nowhere.
#[test]
fn a_schema_that_is_still_none_is_replaced_by_any_object() {
    let any = json!({"type": "object", "properties": {}});
    check(
        json!({
            "type": "object",
            "properties": {"a@b": {"type": "string"}, "c": {"$ref": "#/properties/a@b"}}
        }),
        any,
    );
}
