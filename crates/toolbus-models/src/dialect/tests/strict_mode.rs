//! Which schemas are said in strict mode, and how.

use super::*;

/// Lowers a schema of one property, `p`, which is required.
fn lowered(property: Value) -> Result<Value, String> {
    let schema = json!({"type": "object", "properties": {"p": property}, "required": ["p"]});
    let strict = Strict::lower(&schema).map_err(|reason| reason.to_string())?;
    Ok(strict.schema()["properties"]["p"].clone())
}

#[track_caller]
fn check(property: Value, expected: Value) {
    assert_eq!(lowered(property.clone()), Ok(expected), "{property}");
}

#[track_caller]
fn check_not(property: Value, reason: &str) {
    assert_eq!(lowered(property.clone()), Err(reason.to_owned()), "{property}");
}

#[test]
fn what_strict_mode_knows_is_kept_and_annotations_are_dropped() {
    check(
        json!({"type": "string", "title": "T", "default": "x", "description": "D", "x-own": 1}),
        json!({"type": "string", "description": "D"}),
    );
    check(json!({"type": "string", "pattern": "^a$"}), json!({"type": "string", "pattern": "^a$"}));
    check(json!({"type": "string", "format": "date"}), json!({"type": "string", "format": "date"}));
    check(json!({"type": "string", "format": "uri"}), json!({"type": "string"}));
    let bounded = json!({"type": "integer", "minimum": 1, "multipleOf": 2});
    check(bounded.clone(), json!({"multipleOf": 2, "minimum": 1, "type": "integer"}));
    check(json!({"type": "string", "minLength": 0}), json!({"type": "string"}));
    check(
        json!({"type": "array", "items": {"type": "boolean"}, "maxItems": 3}),
        json!({"type": "array", "items": {"type": "boolean"}, "maxItems": 3}),
    );
    check(json!({"const": "a"}), json!({"type": "string", "enum": ["a"]}));
    check(json!({"enum": [1, null]}), json!({"type": ["integer", "null"], "enum": [1, null]}));
    check(json!({"allOf": [{"type": "string"}], "title": "T"}), json!({"type": "string"}));
    check(
        json!({"type": ["string", "integer"], "minimum": 1}),
        json!({"anyOf": [{"type": "string"}, {"type": "integer", "minimum": 1}]}),
    );
    check(json!({"type": ["string", "null"]}), json!({"type": ["string", "null"]}));
}

#[test]
fn what_strict_mode_cannot_say_is_not_lowered() {
    check_not(json!({"type": "string", "minLength": 1}), "'minLength' cannot be said");
    check_not(json!({"not": {"type": "string"}}), "'not' cannot be said");
    check_not(json!({}), "a part says no type");
    check_not(json!(true), "a part is a boolean");
    check_not(json!({"type": "array"}), "a list does not say what is in it");
    let open = "an object may have members that it does not name";
    check_not(json!({"type": "object"}), open);
    check_not(json!({"type": "object", "additionalProperties": {"type": "string"}}), open);
    check_not(
        json!({"type": "object", "properties": {"a": {"type": "null"}}, "additionalProperties": true}),
        open,
    );
    check_not(
        json!({"type": "object", "properties": {"a": {"type": "null"}}, "required": ["b"]}),
        "'b' is required and not described",
    );
    check_not(
        json!({"anyOf": [{"type": "string"}], "type": "string"}),
        "'type' stands beside 'anyOf'",
    );
    check_not(json!({"$ref": "#/properties/p"}), "'#/properties/p' is no definition");
    check_not(
        json!({"oneOf": [{"type": "integer"}, {"type": "number"}]}),
        "more than one branch of a 'oneOf' may fit",
    );
    let mut deep = json!({"type": "object", "properties": {"a": {"type": "null"}}});
    for _ in 0..4 {
        deep = json!({"type": "object", "properties": {"a": deep}, "required": ["a"]});
    }
    check_not(deep, "its objects are nested too deep");
}

/// In the older drafts a format is an assertion.
#[test]
fn an_unknown_format_is_dropped_only_where_nobody_checks_it() {
    let schema = |draft: &str| {
        json!({
            "$schema": draft, "type": "object", "properties": {"p": {"type": "string", "format": "uri"}}
        })
    };
    assert!(Strict::lower(&schema("https://json-schema.org/draft/2020-12/schema")).is_ok());
    assert!(Strict::lower(&schema("http://json-schema.org/draft-07/schema#")).is_err());
}

/// In the older drafts these are assertions, too.
#[test]
fn what_is_encoded_in_a_text_is_dropped_only_where_nobody_checks_it() {
    let lower = |draft: &str, property: &Value| {
        let schema = json!({
            "$schema": draft, "type": "object", "properties": {"p": property}, "required": ["p"]
        });
        Strict::lower(&schema).map(drop).map_err(|reason| reason.to_string())
    };
    let newer = "https://json-schema.org/draft/2020-12/schema";
    let older = "http://json-schema.org/draft-07/schema#";
    for keyword in ["contentMediaType", "contentEncoding"] {
        for property in [
            json!({"type": "string", keyword: "base64"}),
            json!({"enum": ["e30="], keyword: "base64"}),
            json!({"anyOf": [{"type": "string"}], keyword: "base64"}),
        ] {
            assert_eq!(lower(newer, &property), Ok(()), "{property}");
            let reason = format!("'{keyword}' cannot be said");
            assert_eq!(lower(older, &property), Err(reason), "{property}");
        }
    }

    // A part may say that it is of another draft.
    let part = json!({"$schema": older, "type": "string"});
    assert_eq!(lower(older, &part), Ok(()));
    assert_eq!(lower(newer, &part), Err("a part is of an older draft".to_owned()));
}

#[test]
fn an_object_is_closed_and_requires_every_member() {
    let schema = json!({
        "type": "object",
        "properties": {
            "b": {"type": "string"},
            "a": {"type": "integer"},
            "e": {"enum": ["x", "y"]},
            "o": {"type": "object", "properties": {"n": {"type": "boolean"}}}
        },
        "required": ["a"]
    });
    let definition = define(Dialect::OpenAiChat, schema);
    assert_eq!(definition["function"]["strict"], json!(true));
    assert_eq!(
        definition["function"]["parameters"],
        json!({
            "type": "object",
            "properties": {
                "b": {"type": ["string", "null"]},
                "a": {"type": "integer"},
                "e": {"type": ["string", "null"], "enum": ["x", "y", null]},
                "o": {
                    "type": ["object", "null"],
                    "properties": {"n": {"type": ["boolean", "null"]}},
                    "required": ["n"],
                    "additionalProperties": false
                }
            },
            "required": ["b", "a", "e", "o"],
            "additionalProperties": false
        })
    );
}

#[test]
fn a_tool_without_arguments_is_strict() {
    let definition = define(Dialect::OpenAiResponses, json!({"type": "object"}));
    let closed = json!({
        "properties": {}, "required": [], "additionalProperties": false, "type": "object"
    });
    assert_eq!((&definition["parameters"], &definition["strict"]), (&closed, &json!(true)));
}

fn raise(schema: Value, arguments: Value) -> Value {
    let lowered = lower_all(Dialect::OpenAiChat, [tool("a").with_parameters(schema)]);
    assert_eq!(lowered.definitions()[0]["function"]["strict"], json!(true));
    lowered.find("a").unwrap().raise(arguments)
}

#[test]
fn nulls_of_absent_members_are_taken_away() {
    let schema = json!({
        "type": "object",
        "properties": {
            "a": {"type": "string"},
            "n": {"type": ["string", "null"]},
            "d": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": null},
            "l": {"type": "array", "items": {"$ref": "#/$defs/item"}}
        },
        "required": ["n", "l"],
        "$defs": {
            "item": {
                "type": "object",
                "properties": {"x": {"type": "integer"}, "next": {"$ref": "#/$defs/item"}}
            }
        }
    });
    let arguments = json!({
        "a": null, "n": null, "d": null, "l": [{"x": 1, "next": {"x": null, "next": null}}]
    });
    let raised = json!({"n": null, "l": [{"x": 1, "next": {}}]});
    assert_eq!(raise(schema.clone(), arguments), raised);
    // What does not fit stays, for the gate to say so.
    let wrong = json!({"l": [7, null], "extra": null});
    assert_eq!(raise(schema, wrong.clone()), wrong);
}

#[test]
fn a_null_that_would_be_ambiguous_is_not_lowered() {
    let schema = |property: Value| json!({"type": "object", "properties": {"p": property}});
    let check = |property: Value, expected: bool| {
        assert_eq!(Strict::lower(&schema(property.clone())).is_ok(), expected, "{property}");
    };
    check(json!({"type": ["string", "null"]}), false);
    check(json!({"type": ["string", "null"], "default": "x"}), false);
    check(json!({"type": ["string", "null"], "default": null}), true);
    check(json!({"anyOf": [{"type": "string"}, {"type": "null"}]}), false);
}

#[test]
fn a_choice_is_raised_as_the_branch_that_fits() {
    let branch = |tag: &str, more: Value| {
        let mut schema = json!({
            "type": "object",
            "properties": {"kind": {"const": tag}, "b": {"type": "string"}},
            "required": ["kind"]
        });
        merge(&mut schema, more);
        schema
    };
    let either = |keyword: &str, first: Value, second: Value| {
        json!({
            "type": "object", "properties": {"p": {keyword: [first, second]}}, "required": ["p"]
        })
    };
    let one = branch("one", json!({}));
    let two = branch("two", json!({"required": ["kind", "b"]}));
    for keyword in ["anyOf", "oneOf"] {
        let schema = either(keyword, one.clone(), two.clone());
        let raised = raise(schema.clone(), json!({"p": {"kind": "one", "b": null}}));
        assert_eq!(raised, json!({"p": {"kind": "one"}}));
        let other = json!({"p": {"kind": "two", "b": "x"}});
        assert_eq!(raise(schema, other.clone()), other);
    }
    // Nothing tells these apart.
    let alike = either("anyOf", one.clone(), one);
    assert_eq!(
        Strict::lower(&alike).unwrap_err().to_string(),
        "the branches of a choice look alike"
    );
}

#[test]
fn references_stay_references() {
    let schema = json!({
        "type": "object",
        "properties": {
            "p": {"$ref": "#/definitions/a b", "description": "D"},
            "self": {"$ref": "#"}
        },
        "required": ["p"],
        "definitions": {"a b": {"type": "string"}, "unused": {"not": {}}}
    });
    let strict = Strict::lower(&schema).unwrap();
    assert_eq!(
        strict.schema(),
        &json!({
            "properties": {
                "p": {"anyOf": [{"$ref": "#/$defs/definition_1"}], "description": "D"},
                "self": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}
            },
            "required": ["p", "self"],
            "additionalProperties": false,
            "type": "object",
            "$defs": {"definition_1": {"type": "string"}}
        })
    );
    let mut arguments = json!({"p": "x", "self": {"p": "y", "self": null}});
    strict.raise(&mut arguments);
    assert_eq!(arguments, json!({"p": "x", "self": {"p": "y"}}));
}

#[test]
fn limits_of_the_api_are_kept() {
    let check = |schema: Value, reason: &str| {
        assert_eq!(Strict::lower(&schema).unwrap_err().to_string(), reason);
    };
    let object = |properties: Value| json!({"type": "object", "properties": properties});
    let values: Vec<_> = (0..1_001).map(|at| format!("v{at}")).collect();
    check(object(json!({"p": {"enum": values}})), "it has too many literal values");
    let values: Vec<_> = (0..251).map(|at| format!("{at:060}")).collect();
    check(object(json!({"p": {"enum": values}})), "its literal values are too long");
    let many: Value = (0..5_001)
        .map(|at| (at.to_string(), json!({"type": "null"})))
        .collect::<serde_json::Map<_, _>>()
        .into();
    check(object(many), "null would be both a value and the lack of one");
    let branches: Vec<_> = (0..65).map(|_| json!({"type": "string"})).collect();
    check(object(json!({"p": {"anyOf": branches}})), "a choice has too many branches");
    let mut deep = json!({"type": "string"});
    for _ in 0..60 {
        deep = json!({"type": "array", "items": deep});
    }
    check(object(json!({"p": deep})), "it is nested too deep");
}
