//! Schemas without strict mode: whatever the registry accepts, in a form that APIs accept.
//!
//! APIs refuse a request for a schema that is not of today's draft, that has a choice or anything
//! but an object at its top, or a list without items. So older keywords get their names of today,
//! and choices at the top are merged into one object. That object may take more than the tool does;
//! the gate checks arguments against the tool's own schema. A schema that is still none that an API
//! takes is replaced by any object.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::keywords::{LISTS, MAPS, SCHEMAS};
use super::names::property_names;

/// How many references and choices at the top are followed.
const MERGES_MAX: usize = 16;

/// What must not stand at the top.
const DROPPED_AT_TOP: [&str; 10] =
    ["allOf", "anyOf", "oneOf", "not", "enum", "const", "if", "then", "else", "$ref"];
/// What names members at the top, beside their descriptions.
const NAMING: [&str; 5] =
    ["dependentRequired", "dependentSchemas", "dependencies", "propertyNames", "patternProperties"];

/// Which names of properties an API takes at the top.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PropertyNames {
    /// Any.
    Any,
    /// Letters, digits, `_`, `.` and `-`, up to 64 of them.
    Restricted,
}

/// A schema as an API takes it.
#[derive(Debug)]
pub(super) struct Loose {
    pub(super) schema: Value,
    /// The tool's own names of members, by those that the model is told, where they are others.
    pub(super) renamed: HashMap<String, String>,
}

/// Lowers the schema of a tool's arguments.
pub(super) fn lower(schema: &Value, names: PropertyNames) -> Loose {
    let modern = modernize(schema);
    let mut members = flatten(&modern);
    let renamed = match names {
        PropertyNames::Any => HashMap::new(),
        PropertyNames::Restricted => rename_properties(&mut members),
    };

    let schema = Value::Object(members);
    if is_usable(&schema) {
        return Loose { schema, renamed };
    }
    Loose { schema: json!({"type": "object", "properties": {}}), renamed: HashMap::new() }
}

/// A schema with the keywords of today's draft. It is as deep as the schema, which is bounded.
fn modernize(schema: &Value) -> Value {
    let Value::Object(members) = schema else {
        // Some APIs take only objects for schemas.
        return if *schema == json!(false) { json!({"not": {}}) } else { json!({}) };
    };

    let mut modern = Map::new();
    for (keyword, value) in members {
        let keyword = keyword.as_str();
        let value = match value {
            Value::Object(schemas) if MAPS.contains(&keyword) => {
                schemas.iter().map(|(name, schema)| (name.clone(), modernize(schema))).collect()
            }
            Value::Array(schemas) if LISTS.contains(&keyword) || keyword == "items" => {
                schemas.iter().map(modernize).collect()
            }
            Value::Bool(_) if keyword != "items" => value.clone(),
            _ if SCHEMAS.contains(&keyword) => modernize(value),
            // It may be any text, and then says nothing of the document.
            Value::String(_) if matches!(keyword, "$schema" | "$id" | "id") => continue,
            _ => value.clone(),
        };
        modern.insert(keyword.to_owned(), value);
    }

    modernize_bounds(&mut modern);
    modernize_items(&mut modern);
    Value::Object(modern)
}

/// Once a bound was exclusive by a mark beside it.
fn modernize_bounds(members: &mut Map<String, Value>) {
    for (bound, exclusive) in [("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")] {
        let Some(Value::Bool(is_exclusive)) = members.get(exclusive) else { continue };
        let is_exclusive = *is_exclusive;
        members.shift_remove(exclusive);
        if is_exclusive && let Some(value) = members.shift_remove(bound) {
            members.insert(exclusive.to_owned(), value);
        }
    }
}

/// Once a list of schemas for the first items was called as the schema of all. A list always says
/// what is in it.
fn modernize_items(members: &mut Map<String, Value>) {
    if let Some(Value::Array(first)) = members.get("items") {
        let first = first.clone();
        members.shift_remove("items");
        if !first.is_empty() {
            members.insert("prefixItems".to_owned(), Value::Array(first));
        }
        if let Some(more) = members.shift_remove("additionalItems") {
            members.insert("items".to_owned(), more);
        }
    }

    let is_list = match members.get("type") {
        Some(Value::String(one)) => one == "array",
        Some(Value::Array(types)) => types.iter().any(|kind| kind == "array"),
        _ => false,
    };
    if is_list {
        members.entry("items").or_insert_with(|| json!({}));
    }
}

/// The schema as one of an object, with what its choices and references at the top say.
fn flatten(schema: &Value) -> Map<String, Value> {
    let mut top = Top::default();
    top.add(schema, schema, MERGES_MAX);

    let mut members = schema.as_object().cloned().unwrap_or_default();
    members.retain(|keyword, _| !DROPPED_AT_TOP.contains(&keyword.as_str()));
    members.insert("type".to_owned(), json!("object"));
    members.insert("properties".to_owned(), Value::Object(top.properties));
    if !top.required.is_empty() {
        members.insert("required".to_owned(), json!(top.required));
    }
    members
}

/// The members that arguments may have, and those that they must.
#[derive(Default)]
struct Top {
    properties: Map<String, Value>,
    required: Vec<String>,
}

impl Top {
    fn of(schema: &Value, root: &Value, left: usize) -> Self {
        let mut top = Self::default();
        top.add(schema, root, left);
        top
    }

    /// Adds what a schema says that has to hold as well.
    fn add(&mut self, schema: &Value, root: &Value, left: usize) {
        for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
            self.properties.entry(name.as_str()).or_insert_with(|| schema.clone());
        }
        for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            self.require(name);
        }
        let Some(left) = left.checked_sub(1) else { return };

        let target = schema["$ref"].as_str().and_then(|pointer| pointer.strip_prefix('#'));
        if let Some(target) = target.and_then(|pointer| root.pointer(pointer)) {
            self.add(target, root, left);
        }
        for branch in schema["allOf"].as_array().into_iter().flatten() {
            self.add(branch, root, left);
        }
        for keyword in ["anyOf", "oneOf"] {
            if let Some(branches) = schema[keyword].as_array() {
                let tops = branches.iter().map(|branch| Self::of(branch, root, left)).collect();
                self.add_one_of(tops);
            }
        }
    }

    /// Adds what one of several says: any of their members, and what all of them require.
    fn add_one_of(&mut self, tops: Vec<Self>) {
        let mut choices: Map<String, Value> = Map::new();
        for (name, schema) in tops.iter().flat_map(|top| &top.properties) {
            match choices.get_mut(name) {
                None => drop(choices.insert(name.clone(), json!([schema]))),
                Some(Value::Array(schemas)) if !schemas.contains(schema) => {
                    schemas.push(schema.clone());
                }
                Some(_) => {}
            }
        }
        for (name, schemas) in choices {
            let schema = match schemas {
                Value::Array(mut one) if one.len() == 1 => one.remove(0),
                several => json!({"anyOf": several}),
            };
            self.properties.entry(name).or_insert(schema);
        }

        let Some((first, others)) = tops.split_first() else { return };
        for name in &first.required {
            if others.iter().all(|top| top.required.contains(name)) {
                self.require(name);
            }
        }
    }

    fn require(&mut self, name: &str) {
        if !self.required.iter().any(|known| known == name) {
            self.required.push(name.to_owned());
        }
    }
}

/// Gives properties at the top names that the API takes, and answers what they were.
fn rename_properties(members: &mut Map<String, Value>) -> HashMap<String, String> {
    let Some(Value::Object(properties)) = members.get("properties") else {
        return HashMap::new();
    };
    let names = property_names(properties);
    if names.is_empty() {
        return HashMap::new();
    }

    let legal = |name: &str| names.get(name).map_or(name, String::as_str).to_owned();
    let properties: Map<_, _> =
        properties.iter().map(|(name, schema)| (legal(name), schema.clone())).collect();
    members.insert("properties".to_owned(), Value::Object(properties));
    if let Some(Value::Array(required)) = members.get_mut("required") {
        for name in required {
            *name = json!(legal(name.as_str().unwrap_or_default()));
        }
    }
    // They would name what is called otherwise now.
    members.retain(|keyword, _| !NAMING.contains(&keyword.as_str()));
    names.into_iter().map(|(own, legal)| (legal, own)).collect()
}

/// Whether it is a schema of today's draft whose references lead somewhere.
fn is_usable(schema: &Value) -> bool {
    jsonschema::draft202012::meta::is_valid(schema)
        && jsonschema::draft202012::options()
            .with_pattern_options(jsonschema::PatternOptions::regex())
            .build(schema)
            .is_ok()
}
