use std::net::TcpListener;

use serde_json::json;

use super::*;

/// What the check says of the arguments; empty when they fit.
fn check(schema: &Value, arguments: &Value) -> String {
    match Schema::compile(schema).unwrap().check(arguments) {
        Ok(()) => String::new(),
        Err(violations) => describe(&violations, None),
    }
}

fn refusal(schema: &Value) -> String {
    match Schema::compile(schema) {
        Ok(_) => panic!("{schema} is taken"),
        Err(error) => error.to_string(),
    }
}

fn search() -> Value {
    json!({
        "type": "object",
        "properties": {
            "query": {"type": "string", "minLength": 1},
            "count": {"type": "integer", "minimum": 1, "maximum": 20},
            "kind": {"enum": ["web", "news"]},
            "filter": {
                "type": "object",
                "properties": {"tags": {"type": "array", "items": {"type": "string"}}},
                "required": ["site"]
            }
        },
        "required": ["query", "count"],
        "additionalProperties": false
    })
}

#[test]
fn arguments_that_fit_pass() {
    let tags = json!({"site": "x", "tags": ["a", "b"]});
    for good in [
        json!({"query": "x", "count": 1}),
        json!({"query": "x", "count": 20.0, "kind": "news", "filter": tags}),
    ] {
        assert_eq!(check(&search(), &good), "");
    }
    assert_eq!(check(&json!({}), &json!({"anything": null})), "");
}

#[test]
fn every_violation_is_told_at_once() {
    let bad = json!({"count": 21, "kind": "images", "filter": {"tags": ["a", 7]}, "more": true});
    insta::assert_snapshot!(check(&search(), &bad).replace("; ", "\n"), @r#"
    Missing required argument: query
    /count: 21 is greater than the maximum of 20
    /kind: "images" is not one of "web" or "news"
    /filter misses 'site'
    /filter/tags/1: 7 is not of type "string"
    Additional properties are not allowed ('more' was unexpected)
    "#);
}

#[test]
fn missing_arguments_are_told_in_the_words_of_the_tool() {
    let violations = Schema::compile(&search()).unwrap().check(&json!({})).unwrap_err();
    insta::assert_snapshot!(
        describe(&violations, None),
        @"Missing required argument: query; Missing required argument: count"
    );
    insta::assert_snapshot!(
        describe(&violations, Some("Missing '{}' argument")),
        @"Missing 'query' argument; Missing 'count' argument"
    );
    // The tool's words are for its own arguments, not for what is deep inside them.
    let nested = json!({"query": "x", "count": 1, "filter": {}});
    let violations = Schema::compile(&search()).unwrap().check(&nested).unwrap_err();
    insta::assert_snapshot!(
        describe(&violations, Some("Missing '{}' argument")),
        @"/filter misses 'site'"
    );
}

#[test]
fn what_is_told_is_bounded() {
    let schema = json!({"type": "object", "additionalProperties": {"type": "integer"}});
    let many: serde_json::Map<_, _> =
        (0..1_000).map(|number| (number.to_string(), json!("x"))).collect();
    let violations = Schema::compile(&schema).unwrap().check(&Value::Object(many)).unwrap_err();
    assert_eq!(violations.len(), VIOLATIONS_MAX);

    for long in [json!({"a": "é".repeat(1 << 20)}), json!({"é".repeat(1 << 20): "a"})] {
        let text = check(&schema, &long);
        assert!(text.len() < 1_000 && text.contains('…'), "{} bytes", text.len());
    }
}

#[test]
fn a_schema_that_cannot_be_used_is_refused() {
    for bad in [json!(null), json!(true), json!("object"), json!([]), json!(7)] {
        assert_eq!(
            refusal(&bad),
            "not a usable JSON Schema: a schema of arguments describes an object"
        );
    }
    for bad in [
        json!({"type": "string"}),
        json!({"type": ["string", "null"]}),
        json!({"type": "objekt"}),
        json!({"type": 7}),
        json!({"type": "object", "properties": []}),
        json!({"type": "object", "required": "query"}),
        json!({"type": "object", "properties": {"a": {"pattern": "("}}}),
        json!({"type": "object", "properties": {"a": {"$ref": "#/nowhere"}}}),
    ] {
        assert!(refusal(&bad).starts_with("not a usable JSON Schema: "));
    }
    assert_eq!(check(&json!({"type": ["object", "null"]}), &json!({})), "");
}

#[test]
fn no_reference_to_another_document_is_followed() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    server.set_nonblocking(true).unwrap();
    let here = server.local_addr().unwrap();
    for elsewhere in [
        format!("http://{here}/schema.json"),
        format!("https://{here}/schema.json"),
        format!("//{here}/schema.json"),
        "file:///etc/hostname".to_owned(),
        "other.json".to_owned(),
    ] {
        let schema = json!({"type": "object", "properties": {"a": {"$ref": elsewhere}}});
        assert!(refusal(&schema).starts_with("not a usable JSON Schema: "), "{elsewhere}");
        let dialect = json!({"$schema": elsewhere, "type": "object"});
        let _ = Schema::compile(&dialect);
    }
    let nobody = server.accept().unwrap_err();
    assert_eq!(nobody.kind(), std::io::ErrorKind::WouldBlock);
}

#[test]
fn references_inside_a_schema_are_followed() {
    let schema = json!({
        "type": "object",
        "properties": {"tree": {"$ref": "#/$defs/tree"}},
        "$defs": {"tree": {"type": "object", "additionalProperties": {"$ref": "#/$defs/tree"}}}
    });
    assert_eq!(check(&schema, &json!({"tree": {"a": {"b": {}}}})), "");
    insta::assert_snapshot!(check(&schema, &json!({"tree": {"a": {"b": 7}}})), @r#"/tree/a/b: 7 is not of type "object""#);
}

/// Forty definitions, each of them the one before it twice: 4 KB that no check would ever end.
fn doubling(levels: usize) -> Value {
    let mut definitions = serde_json::Map::new();
    definitions.insert("d0".to_owned(), json!({"type": "object"}));
    for level in 1..=levels {
        let before = json!({"$ref": format!("#/$defs/d{}", level - 1)});
        definitions.insert(format!("d{level}"), json!({"allOf": [before.clone(), before]}));
    }
    json!({"type": "object", "$defs": definitions, "$ref": format!("#/$defs/d{levels}")})
}

fn refused(schema: &Value) -> String {
    Schema::compile(schema).err().expect("it is over the bounds").to_string()
}

#[test]
fn a_schema_that_doubles_itself_is_refused() {
    assert!(refused(&doubling(40)).contains("references written out"));
    assert!(Schema::compile(&doubling(8)).is_ok());
}

#[test]
fn a_schema_is_bounded_in_bytes_and_depth() {
    let long = json!({"type": "object", "description": "x".repeat(SCHEMA_BYTES_MAX)});
    assert!(refused(&long).contains("over the limit"));

    let mut definitions = serde_json::Map::new();
    definitions.insert("d0".to_owned(), json!({}));
    for level in 1..=600 {
        let next = json!({"not": {"$ref": format!("#/$defs/d{}", level - 1)}});
        definitions.insert(format!("d{level}"), next);
    }
    let deep = json!({"type": "object", "$defs": definitions, "not": {"$ref": "#/$defs/d600"}});
    assert!(refused(&deep).contains("nested over"));
}

#[test]
fn a_schema_that_leads_back_to_itself_in_one_way_is_taken() {
    let tree = json!({
        "type": "object",
        "properties": {
            "value": {"type": "integer"},
            "left": {"$ref": "#"},
            "right": {"$ref": "#"},
            "others": {"type": "array", "items": {"$ref": "#"}}
        }
    });
    let schema = Schema::compile(&tree).unwrap();
    assert!(schema.check(&json!({"left": {"right": {"value": 1}}})).is_ok());
    assert!(schema.check(&json!({"left": {"right": {"value": "x"}}})).is_err());
    let any_json = json!({
        "type": "object",
        "additionalProperties": {"$ref": "#/$defs/any"},
        "$defs": {"any": {"anyOf": [
            {"type": "string"},
            {"type": "array", "items": {"$ref": "#/$defs/any"}},
            {"type": "object", "additionalProperties": {"$ref": "#/$defs/any"}}
        ]}}
    });
    assert!(Schema::compile(&any_json).is_ok());
}

#[test]
fn a_schema_that_leads_back_to_itself_in_several_ways_is_refused() {
    let back = || json!({"properties": {"x": {"$ref": "#"}}});
    for schema in [
        // Both for the same member: twice as much at each level.
        json!({"type": "object", "allOf": [back(), back()]}),
        // One for a member, one for a member of it.
        json!({"type": "object", "additionalProperties": {
            "allOf": [{"$ref": "#"}], "additionalProperties": {"$ref": "#"}
        }}),
        json!({"type": "object", "properties": {"x": {"$ref": "#"}}, "patternProperties": {"^x": {"$ref": "#"}}}),
        // By way of two others.
        json!({
            "type": "object",
            "allOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}],
            "$defs": {"a": back(), "b": back()}
        }),
        // For the very place that it is for.
        json!({"type": "object", "allOf": [{"$ref": "#"}]}),
        json!({"type": "object", "$ref": "#/$defs/a", "$defs": {
            "a": {"anyOf": [{"$ref": "#/$defs/b"}]}, "b": {"not": {"$ref": "#/$defs/a"}}
        }}),
    ] {
        assert!(Schema::compile(&schema).is_err(), "{schema}");
    }
}

#[test]
fn a_reference_that_cannot_be_followed_is_refused() {
    for target in ["#anchor", "other.json", "https://example.org/schema", "#/$defs/none"] {
        let schema = json!({"type": "object", "properties": {"a": {"$ref": target}}});
        assert!(Schema::compile(&schema).is_err(), "{target}");
    }
    // A member that is called so is no reference.
    let schema = json!({"type": "object", "properties": {"$ref": {"type": "string"}}});
    assert!(Schema::compile(&schema).is_ok());
}

#[test]
fn only_what_a_linear_engine_can_match_is_taken() {
    let with = |pattern: &str| {
        Schema::compile(&json!({"type": "object", "properties": {"a": {"pattern": pattern}}}))
    };
    let schema = with("^(a+)+$").unwrap();
    assert!(schema.check(&json!({"a": "a".repeat(100_000)})).is_ok());
    assert!(schema.check(&json!({"a": "a".repeat(100_000) + "b"})).is_err());
    assert!(with("(?=a)b").is_err());
    assert!(with("^[a-z]{1,64}@.{1,200}$").is_ok());
    assert!(with("(.{1000}){1000}").is_err());
}

/// The larger the pattern, the less text is matched against it; what no pattern is for is free.
#[test]
fn what_a_check_matches_is_bounded() {
    let path = |pattern: &str| {
        let properties = json!({"path": {"pattern": pattern}, "text": {"type": "string"}});
        Schema::compile(&json!({"type": "object", "properties": properties})).unwrap()
    };
    let text = "x".repeat(8 << 20);
    for (pattern, bytes_max) in [("x+$", 512 << 10), ("^[xy]*x[xy]{30}$", 128 << 10)] {
        let schema = path(pattern);
        assert_eq!(schema.budget.bytes_max(), bytes_max, "{pattern}");
        let arguments = |bytes| json!({"path": "x".repeat(bytes), "text": text});
        assert_eq!(schema.check(&arguments(bytes_max)), Ok(()));
        check_too_much_text(&schema, &arguments(bytes_max + 1));
        // One check takes nothing from the next.
        assert_eq!(schema.check(&arguments(bytes_max)), Ok(()));
    }
}

#[track_caller]
fn check_too_much_text(schema: &Schema, arguments: &Value) {
    let violations = schema.check(arguments).unwrap_err();
    let text = describe(&violations, None);
    assert_eq!(text, "the arguments have too much text to match the schema's patterns");
}

#[test]
fn each_pattern_counts_for_each_text() {
    let compile = |schema: Value| Schema::compile(&schema).unwrap();
    let patterns = vec![json!({"pattern": "x$"}); 200];
    let schema = compile(json!({"type": "object", "properties": {"a": {"allOf": patterns}}}));
    let share = schema.budget.bytes_max() / 200;
    assert!(schema.check(&json!({"a": "x".repeat(share)})).is_ok());
    check_too_much_text(&schema, &json!({"a": "x".repeat(share + 1)}));

    // What was not matched is neither right nor wrong.
    let not = json!({"type": "object", "properties": {"a": {"not": {"pattern": "y$"}}}});
    let schema = compile(not);
    assert!(schema.check(&json!({"a": "x"})).is_ok());
    check_too_much_text(&schema, &json!({"a": "x".repeat(8 << 20)}));

    let few = vec![json!({"pattern": "x$"}); 5];
    let schema = compile(json!({"type": "object", "properties": {"a": {"allOf": few}}}));
    check_too_much_text(&schema, &json!({"a": "x".repeat(8 << 20)}));

    // Names are texts too.
    let names: serde_json::Map<_, _> = (0..200).map(|n| (format!("x{n}$"), json!(true))).collect();
    let schema = compile(json!({"type": "object", "patternProperties": names}));
    assert!(schema.check(&json!({"x".repeat(share): 1})).is_ok());
    check_too_much_text(&schema, &json!({"x".repeat(share + 1): 1}));
}

#[test]
fn patterns_are_bounded_together() {
    let schema = |count, pattern: &str| {
        let patterns = vec![json!({"pattern": pattern}); count];
        json!({"type": "object", "properties": {"a": {"allOf": patterns}}})
    };
    assert!(Schema::compile(&schema(1_000, "x")).is_ok());
    assert!(refused(&schema(1_100, "x")).contains("1100 patterns are too many"));
    assert!(Schema::compile(&schema(30, "(x|y)*x.{40}$")).is_ok());
    assert!(Schema::compile(&schema(40, "(x|y)*x.{40}$")).is_err());
}

/// Whatever is left unevaluated is found by evaluating again, twice as much at each level.
#[test]
fn a_schema_of_what_is_unevaluated_counts_as_a_multiple() {
    let nested = |levels: usize| {
        let mut schema = json!({"properties": {"a": true}});
        for _ in 0..levels {
            schema = json!({"anyOf": [schema], "unevaluatedProperties": {"type": "integer"}});
        }
        schema["type"] = json!("object");
        schema
    };
    assert_eq!(check(&nested(2), &json!({"a": "x", "b": 1})), "");
    assert!(refused(&nested(10)).contains("references written out"));
}

#[test]
fn a_long_text_counts_as_many_values() {
    let alike = vec![json!({"uniqueItems": true}); 100];
    let schema = json!({"type": "object", "properties": {"list": {"allOf": alike}}});
    let texts = |bytes: usize| json!({"list": ["x".repeat(bytes), "y".repeat(bytes)]});
    assert_eq!(check(&schema, &texts(1 << 20)), "");
    assert!(check(&schema, &texts(8 << 20)).contains("too many to check"));
}

#[test]
fn what_is_wrong_with_many_values_is_not_looked_for() {
    let items = json!({"items": {"anyOf": vec![json!({"type": "integer"}); 100]}});
    let schema = json!({"type": "object", "properties": {"list": items}});
    assert_eq!(check(&schema, &json!({"list": vec![1; 10_000]})), "");
    insta::assert_snapshot!(
        check(&schema, &json!({"list": vec!["x"; 10_000]})),
        @"the arguments do not fit the schema, and are too large to say where"
    );
    assert!(check(&schema, &json!({"list": ["x"]})).starts_with("/list/0: "));
}

#[test]
fn arguments_that_are_too_many_for_their_schema_are_refused_unchecked() {
    let properties: serde_json::Map<_, _> =
        (0..4_000).map(|n| (format!("p{n}"), json!({}))).collect();
    let schema =
        json!({"type": "object", "properties": {"list": {"items": {"properties": properties}}}});
    let schema = Schema::compile(&schema).unwrap();
    assert!(schema.check(&json!({"list": vec![0; 1_000]})).is_ok());
    let violations = schema.check(&json!({"list": vec![0; 5_000]})).unwrap_err();
    assert!(describe(&violations, None).contains("too many to check"));
}
