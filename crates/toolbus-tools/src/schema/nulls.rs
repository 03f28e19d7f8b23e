//! Null in the place of an optional argument.
//!
//! Models write null for an argument that they do not give, and strict modes make them do so. Told
//! in a schema, as a list of types, it costs more than it is worth: some APIs of models take one
//! type for each value and refuse a tool with more. So our schemas do not tell it, and null is read
//! as not given. Where a schema does take null, it means what the tool says.

use serde_json::{Map, Value};

/// Members of a schema whose values are no schemas.
const PLAIN_MEMBERS: [&str; 5] = ["const", "default", "enum", "examples", "required"];

/// Members of a schema that are schemas by names, which are anybody's choice.
const NAMED_SCHEMAS: [&str; 4] = ["$defs", "definitions", "dependentSchemas", "patternProperties"];

/// Takes out each member that is null, where the schema knows it, does not require it and does not
/// take null for it.
pub(crate) fn drop_nulls(schema: &Value, arguments: &mut Map<String, Value>) {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return };

    arguments.retain(|name, value| {
        let is_optional = || !is_required(schema, name);
        let refuses = || properties.get(name).is_some_and(refuses_null);
        !(value.is_null() && refuses() && is_optional())
    });

    for (name, value) in arguments {
        if let Some(schema) = properties.get(name) {
            drop_nulls_within(schema, value);
        }
    }
}

fn drop_nulls_within(schema: &Value, value: &mut Value) {
    match value {
        Value::Object(members) => drop_nulls(schema, members),
        Value::Array(items) => {
            let Some(of_items) = schema.get("items") else { return };
            items.iter_mut().for_each(|item| drop_nulls_within(of_items, item));
        }
        _ => {}
    }
}

/// Makes a schema tell each optional property without null: as one of the type that it has
/// otherwise. One that is required, or is one of several schemas, is left as it is.
pub fn hide_optional_nulls(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            let required = members.get("required").cloned().unwrap_or_default();
            if let Some(Value::Object(properties)) = members.get_mut("properties") {
                for (name, property) in properties {
                    if !has_text(&required, name) {
                        hide_null(property);
                    }
                    hide_optional_nulls(property);
                }
            }

            let others = members.iter_mut().filter(|(name, _)| *name != "properties");
            let schemas = others.filter(|(name, _)| !PLAIN_MEMBERS.contains(&&***name));
            schemas.for_each(|(name, member)| match member {
                Value::Object(named) if NAMED_SCHEMAS.contains(&&**name) => {
                    named.values_mut().for_each(hide_optional_nulls);
                }
                member => hide_optional_nulls(member),
            });
        }
        Value::Array(schemas) => schemas.iter_mut().for_each(hide_optional_nulls),
        _ => {}
    }
}

/// Takes null out of the types of one property.
fn hide_null(property: &mut Value) {
    let Value::Object(property) = property else { return };
    let took_null = hide_null_type(property) || hide_null_choice(property);
    if !took_null {
        return;
    }

    if let Some(Value::Array(values)) = property.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    if property.get("default").is_some_and(Value::is_null) {
        property.remove("default");
    }
}

/// `"type": ["string", "null"]` becomes `"type": "string"`.
fn hide_null_type(property: &mut Map<String, Value>) -> bool {
    let Some(Value::Array(types)) = property.get_mut("type") else { return false };
    let listed = types.len();
    types.retain(|kind| kind != "null");
    let took_null = types.len() < listed;

    if let [only] = &**types {
        let only = only.clone();
        property.insert("type".to_owned(), only);
    }
    took_null
}

/// `"anyOf": [SCHEMA, {"type": "null"}]` becomes that schema. A reference stays: what it leads to
/// may take null itself.
fn hide_null_choice(property: &mut Map<String, Value>) -> bool {
    let Some(Value::Array(choices)) = property.get("anyOf") else { return false };
    let mut others = choices.iter().filter(|choice| !is_null_alone(choice));
    let (Some(Value::Object(only)), None) = (others.next(), others.next()) else { return false };
    if choices.len() < 2 || !only.contains_key("type") {
        return false;
    }

    let only = only.clone();
    property.remove("anyOf");
    for (name, member) in only {
        property.entry(name).or_insert(member);
    }
    true
}

fn is_null_alone(schema: &Value) -> bool {
    let members = schema.as_object();
    members.is_some_and(|members| members.len() == 1 && schema["type"] == "null")
}

/// Whether null fits no value of a schema, as far as its types say.
fn refuses_null(schema: &Value) -> bool {
    match schema.get("type") {
        Some(Value::String(kind)) => kind != "null",
        Some(Value::Array(kinds)) => !kinds.iter().any(|kind| kind == "null"),
        _ => false,
    }
}

fn is_required(schema: &Value, name: &str) -> bool {
    schema.get("required").is_some_and(|required| has_text(required, name))
}

fn has_text(list: &Value, text: &str) -> bool {
    list.as_array().is_some_and(|list| list.iter().any(|item| item == text))
}

#[cfg(test)]
mod tests;
