//! The JSON Schema of a settings struct, made plain, and questions asked of it.
//!
//! Settings know no null: a value is there or not. So the schema is simplified until each value
//! has one type, options are what they hold and an enum is a list of texts, and the rest of the
//! crate walks a plain tree of `properties`. Key paths are lists of names; only this module knows
//! how they appear in the schema.

use schemars::generate::SchemaSettings;
use schemars::transform::transform_subschemas;
use schemars::{JsonSchema, Schema};
use serde_json::Value;

/// Where a value is: the keys from the root of the settings down to it.
pub(super) type Path = Vec<String>;

/// The name that stands for any key of a map.
pub(super) const ANY_KEY: &str = "<name>";

/// The simplified schema of `T`.
pub(super) fn of<T: JsonSchema>() -> Value {
    SchemaSettings::draft2020_12()
        .with(|settings| settings.inline_subschemas = true)
        .with_transform(simplify)
        .into_generator()
        .into_root_schema_for::<T>()
        .to_value()
}

/// The schema of the value at `path`, when the settings have such a value.
pub(super) fn at<'a>(schema: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(schema, |node, key| child(node, key))
}

/// Finds the path that an environment name's parts mean: names of fields in any case, names of map
/// entries as they are written.
pub(super) fn find(schema: &Value, parts: &[&str]) -> Option<Path> {
    let mut node = schema;
    let mut path = Path::new();
    for part in parts {
        let field = properties(node).map(|(key, _)| key).find(|key| key.eq_ignore_ascii_case(part));
        let key = field.map_or_else(|| (*part).to_owned(), str::to_owned);
        node = child(node, &key)?;
        path.push(key);
    }
    Some(path)
}

/// Every value that can be set, in the order of declaration, with the schema of each.
pub(super) fn leaves(schema: &Value) -> Vec<(Path, &Value)> {
    let mut found = Vec::new();
    collect_leaves(schema, &mut Path::new(), &mut found);
    found
}

/// The names that may stand directly below `path`.
pub(super) fn keys_below<'a>(schema: &'a Value, path: &[String]) -> Vec<&'a str> {
    at(schema, path).map(|node| properties(node).map(|(key, _)| key).collect()).unwrap_or_default()
}

/// The name of the node's type as JSON Schema has it; empty when any type will do.
pub(super) fn type_of(node: &Value) -> &str {
    node.get("type").and_then(Value::as_str).unwrap_or_default()
}

/// Whether values of this node must not be shown: it is a secret, or one may be inside it.
pub(super) fn is_sensitive(node: &Value) -> bool {
    match node {
        Value::Object(keywords) => {
            keywords.get("writeOnly") == Some(&Value::Bool(true))
                || keywords.values().any(is_sensitive)
        }
        Value::Array(items) => items.iter().any(is_sensitive),
        _ => false,
    }
}

/// What the doc comment of the field says.
pub(super) fn description(node: &Value) -> &str {
    node.get("description").and_then(Value::as_str).unwrap_or_default()
}

/// `a.b.c`, with quotes where TOML needs them.
pub(super) fn dotted(path: &[String]) -> String {
    path.iter().map(|key| toml_key(key)).collect::<Vec<_>>().join(".")
}

/// A key as TOML writes it: bare where it can be, quoted otherwise.
pub(super) fn toml_key(key: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if key == ANY_KEY || (!key.is_empty() && key.chars().all(bare)) {
        key.to_owned()
    } else {
        toml::Value::String(key.to_owned()).to_string()
    }
}

fn child<'a>(node: &'a Value, key: &str) -> Option<&'a Value> {
    properties(node).find(|(name, _)| *name == key).map(|(_, schema)| schema).or_else(|| {
        if type_of(node) == "array" {
            return node.get("items");
        }
        any_entry(node)
    })
}

fn properties(node: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let properties = node.get("properties").and_then(Value::as_object);
    properties.into_iter().flatten().map(|(key, schema)| (key.as_str(), schema))
}

/// The schema of a map's entries.
fn any_entry(node: &Value) -> Option<&Value> {
    node.get("additionalProperties").filter(|entry| entry.is_object())
}

fn collect_leaves<'a>(node: &'a Value, path: &mut Path, found: &mut Vec<(Path, &'a Value)>) {
    let mut inner: Vec<(&str, &Value)> = properties(node).collect();
    inner.extend(any_entry(node).map(|entry| (ANY_KEY, entry)));
    if inner.is_empty() {
        found.push((path.clone(), node));
        return;
    }
    for (key, schema) in inner {
        path.push(key.to_owned());
        collect_leaves(schema, path, found);
        path.pop();
    }
}

fn simplify(schema: &mut Schema) {
    transform_subschemas(&mut simplify, schema);
    drop_null(schema);
    join_constants(schema);
    close(schema);
}

/// Makes unknown keys of a struct mistakes, also where its `deny_unknown_fields` was forgotten.
fn close(schema: &mut Schema) {
    if schema.get("properties").is_some() && schema.get("additionalProperties").is_none() {
        schema.insert("additionalProperties".to_owned(), false.into());
    }
}

/// Makes "this or null" into "this".
fn drop_null(schema: &mut Schema) {
    if schema.get("default").is_some_and(Value::is_null) {
        schema.remove("default");
    }
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = types.as_mut_slice() {
            let only = only.take();
            schema.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(options)) = schema.get_mut("enum") {
        options.retain(|option| !option.is_null());
    }
    let Some(Value::Array(choices)) = schema.get_mut("anyOf") else { return };
    choices.retain(|choice| type_of(choice) != "null");
    if let [Value::Object(only)] = choices.as_mut_slice() {
        let only = std::mem::take(only);
        schema.remove("anyOf");
        adopt(schema, only);
    }
}

/// Makes an enum whose variants have doc comments, which is one schema a variant, into one list.
fn join_constants(schema: &mut Schema) {
    let Some(Value::Array(variants)) = schema.get("oneOf") else { return };
    let constants: Option<Vec<Vec<Value>>> = variants
        .iter()
        .map(|variant| match (variant.get("const"), variant.get("enum")) {
            (Some(constant), _) => Some(vec![constant.clone()]),
            (None, Some(Value::Array(options))) => Some(options.clone()),
            _ => None,
        })
        .collect();
    if let Some(constants) = constants {
        schema.remove("oneOf");
        schema.insert("type".to_owned(), "string".into());
        schema.insert("enum".to_owned(), Value::Array(constants.concat()));
    }
}

/// Takes over what the inner schema says, except where the field itself says something.
fn adopt(schema: &mut Schema, inner: serde_json::Map<String, Value>) {
    for (key, value) in inner {
        if schema.get(&key).is_none() {
            schema.insert(key, value);
        }
    }
}
