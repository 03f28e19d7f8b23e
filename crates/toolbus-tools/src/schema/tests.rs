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

/// A hostile server's pattern costs time, but never without end.
#[test]
fn a_pattern_that_explodes_ends() {
    let pattern = "^(?=a)(a|aa|aaa)+(?!b)$";
    let schema = json!({"type": "object", "properties": {"a": {"pattern": pattern}}});
    assert_ne!(check(&schema, &json!({"a": "a".repeat(5_000) + "!"})), "");
}
