//! Example calls of endpoints, for their guide.

use serde_json::{Map, Value, json};
use toolbus_tools::Tool;
use toolbus_tools::schema::Schema;

/// How deep an example is nested.
const DEPTH_MAX: usize = 6;
/// Longest example, in bytes.
const EXAMPLE_BYTES_MAX: usize = 400;

/// A call of a tool with what it needs, in a line; `None` where a schema asks for more than can be
/// made up.
pub(super) fn example_call(tool: &Tool) -> Option<String> {
    let arguments = example_of(&tool.parameters, 0)?;
    let is_right = Schema::compile(&tool.parameters).is_ok_and(|s| s.check(&arguments).is_ok());
    let line = format!("{} {arguments}", tool.name);
    (is_right && line.len() <= EXAMPLE_BYTES_MAX).then_some(line)
}

/// A value that a schema may take.
fn example_of(schema: &Value, depth: usize) -> Option<Value> {
    if depth > DEPTH_MAX {
        return None;
    }
    if let Some(given) = schema.get("const").or_else(|| schema.get("default")) {
        return Some(given.clone());
    }
    if let Some(first) = schema.get("enum").and_then(Value::as_array).and_then(|all| all.first()) {
        return Some(first.clone());
    }

    let kind = match schema.get("type") {
        Some(Value::String(kind)) => kind.as_str(),
        Some(Value::Array(kinds)) => kinds.first().and_then(Value::as_str).unwrap_or_default(),
        _ => "",
    };
    match kind {
        "object" => object_of(schema, depth),
        "array" => {
            let items = schema.get("items").cloned().unwrap_or_else(|| json!({}));
            Some(json!([example_of(&items, depth + 1)?]))
        }
        "integer" | "number" => Some(schema.get("minimum").cloned().unwrap_or_else(|| json!(1))),
        "boolean" => Some(json!(true)),
        "null" => Some(Value::Null),
        _ => Some(json!("text")),
    }
}

fn object_of(schema: &Value, depth: usize) -> Option<Value> {
    let properties = schema.get("properties").and_then(Value::as_object);
    let required = schema.get("required").and_then(Value::as_array);
    let required: Option<Vec<&str>> =
        required.map(|names| names.iter().filter_map(Value::as_str).collect());

    let mut object = Map::new();
    for (name, property) in properties.into_iter().flatten() {
        // Where nothing is needed, all of it shows what there is.
        let is_shown = match &required {
            Some(required) if !required.is_empty() => required.contains(&name.as_str()),
            _ => depth == 0,
        };
        if is_shown {
            object.insert(name.clone(), example_of(property, depth + 1)?);
        }
    }
    Some(Value::Object(object))
}
