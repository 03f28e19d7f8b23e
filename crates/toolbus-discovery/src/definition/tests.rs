//! Which definitions can be found, and by what.

use std::sync::Arc;

use serde_json::{Value, json};
use toolbus_tools::call::{Invocation, Output};
use toolbus_tools::{Registry, Tool};

use super::{PARAMETERS_BYTES_MAX, parameter_text, problems_of};

fn problems(description: &str, schema: Value) -> Vec<(&'static str, String)> {
    let registry = Arc::new(Registry::new());
    let tool = Tool::new("work", description, "test").with_parameters(schema);
    let nothing = |_: Invocation| std::future::ready(Ok(Output::default()));
    registry.register(tool, nothing).expect("a tool");
    let entry = registry.find("work").expect("it is there");
    let found = problems_of(&entry, false);
    found.into_iter().map(|problem| (problem.field, problem.problem)).collect()
}

#[test]
fn cx_r1_what_is_missing_is_reported_by_its_field() {
    let whole = json!({"type": "object", "properties": {"a": {}}, "required": ["a"]});
    assert!(problems("works", whole.clone()).is_empty());
    assert!(problems("works", json!({"type": "object", "properties": {}})).is_empty());

    let fields = |description: &str, schema: Value| -> Vec<_> {
        problems(description, schema).into_iter().map(|(field, _)| field).collect()
    };
    assert_eq!(fields(" ", whole), ["description"]);
    assert_eq!(fields("works", json!({"type": "object"})), ["inputSchema.properties"]);
    let no_required = json!({"type": "object", "properties": {"a": {}}});
    assert_eq!(fields("works", no_required), ["inputSchema.required"]);
    let no_type = json!({"properties": {"a": {}}, "required": []});
    assert_eq!(fields("works", no_type), ["inputSchema.type"]);
}

#[test]
fn cx_r3_every_required_name_is_a_property() {
    let schema = json!({"type": "object", "properties": {"a": {}}, "required": ["a", "b", "c"]});
    let expected = ["names 'b', which is no property", "names 'c', which is no property"];
    let expected = expected.map(|problem| ("inputSchema.required", problem.to_owned()));
    assert_eq!(problems("works", schema), expected);
}

#[test]
fn parameters_are_found_by_names_and_descriptions_within_a_bound() {
    let schema = json!({"type": "object", "properties": {
        "repository": {"type": "string", "description": "owner and name"},
        "labels": {"type": "array", "items": {"properties": {"colour": {}}}},
    }});
    assert_eq!(parameter_text(&schema), "repository owner and name labels colour");

    let long = "x".repeat(3 * PARAMETERS_BYTES_MAX);
    let schema = json!({"properties": {"a": {"description": long}, "b": {"description": long}}});
    assert_eq!(parameter_text(&schema).len(), PARAMETERS_BYTES_MAX);
}
