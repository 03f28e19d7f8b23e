//! The JSON Schema of a settings struct, made plain, and questions asked of it.
//!
//! Settings know no null: a value is there or not. So the schema is simplified until each value
//! has one type, options are what they hold and an enum is a list of texts, and the rest of the
//! crate walks a plain tree of `properties`. Key paths are lists of names; only this module knows
//! how they appear in the schema.
//!
//! A tagged enum, which schemars writes as `oneOf` of objects, becomes an object with its tag as
//! the one property and a condition for each variant: `allOf: [{if: {tag is a}, then: {variant a}},
//! …]`. So validation reports what is wrong with the variant that was chosen. A key may be a field
//! of several variants; [`at`] knows which variant a value is of, [`candidates`] gives all of them.

use schemars::generate::SchemaSettings;
use schemars::transform::transform_subschemas;
use schemars::{JsonSchema, Schema};
use serde_json::{Value, json};

/// Where a value is: the keys from the root of the settings down to it.
pub(super) type Path = Vec<String>;

/// The name that stands for any key of a map.
pub(super) const ANY_KEY: &str = "<name>";
/// The key that stands for any item of a list.
pub(super) const ANY_ITEM: &str = "[]";

/// The simplified schema of `T`.
pub(super) fn of<T: JsonSchema>() -> Value {
    SchemaSettings::draft2020_12()
        .with(|settings| settings.inline_subschemas = true)
        .with_transform(simplify_schema)
        .into_generator()
        .into_root_schema_for::<T>()
        .to_value()
}

/// The schema of the value at `path`, when the settings have such a value. `values` are the
/// settings so far: where a tagged enum stands, they choose the variant.
pub(super) fn at<'a>(schema: &'a Value, values: &Value, path: &[String]) -> Option<&'a Value> {
    let mut node = schema;
    let mut value = Some(values);

    for key in path {
        node = match chosen_variant(node, value) {
            Some(variant) => child(variant, key).or_else(|| child(node, key))?,
            None => child(node, key)?,
        };
        value = value.and_then(|value| match value {
            Value::Array(items) => items.get(key.parse::<usize>().ok()?),
            _ => value.get(key),
        });
    }

    Some(node)
}

/// Every schema that the value at `path` may have: one, but for fields of tagged enums whose
/// variants mean different things by the same name. Empty when the settings have no such value.
pub(super) fn candidates<'a>(schema: &'a Value, path: &[String]) -> Vec<&'a Value> {
    path.iter().fold(vec![schema], |nodes, key| {
        nodes.into_iter().flat_map(|node| children(node, key)).collect()
    })
}

/// Finds the path that an environment name's parts mean: names of fields in any case, names of map
/// entries as they are written.
pub(super) fn find(schema: &Value, parts: &[&str]) -> Option<Path> {
    let mut nodes = vec![schema];
    let mut path = Path::new();

    for part in parts {
        let mut fields = nodes.iter().flat_map(|node| fields(node)).map(|(key, _)| key);
        let field = fields.find(|key| key.eq_ignore_ascii_case(part));
        let key = field.map_or_else(|| (*part).to_owned(), str::to_owned);

        nodes = nodes.into_iter().flat_map(|node| children(node, &key)).collect();
        if nodes.is_empty() {
            return None;
        }
        path.push(key);
    }

    Some(path)
}

/// A value that can be set.
#[derive(Debug)]
pub(super) struct Leaf<'a> {
    pub(super) path: Path,
    pub(super) node: &'a Value,
    /// The variants that have this value, where it is a field of some variants of a tagged enum.
    pub(super) only_with: Option<Choice<'a>>,
}

/// Variants of a tagged enum.
#[derive(Debug, Clone)]
pub(super) struct Choice<'a> {
    pub(super) tag: &'a str,
    pub(super) variants: Vec<&'a str>,
}

impl Leaf<'_> {
    /// Whether it is a part of a list's items, which the environment cannot set one by one.
    pub(super) fn is_in_list(&self) -> bool {
        self.path.iter().any(|key| key == ANY_ITEM)
    }
}

/// Every value that can be set, in the order of declaration.
pub(super) fn list_leaves(schema: &Value) -> Vec<Leaf<'_>> {
    let mut found = Vec::new();
    collect_leaves(schema, &mut Path::new(), None, &mut found);
    found
}

/// The keys of a table of this schema; with `value`, those of its variant alone.
pub(super) fn keys_of<'a>(node: &'a Value, value: Option<&Value>) -> Vec<&'a str> {
    let node = chosen_variant(node, value).unwrap_or(node);
    let mut keys: Vec<&str> = Vec::new();
    for (key, _) in fields(node) {
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    keys
}

/// The key that says which variant of a tagged enum a value is; `None` for any other schema.
pub(super) fn tag_of(node: &Value) -> Option<&str> {
    list_variants(node).next()?;
    node.get("required")?.get(0)?.as_str()
}

/// The name of the variant that `value` is of, as its tag says.
pub(super) fn variant_name<'a>(node: &Value, value: &'a Value) -> Option<&'a str> {
    value.get(tag_of(node)?)?.as_str()
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
pub(super) fn key_of_path(path: &[String]) -> String {
    let mut dotted = String::new();
    for key in path {
        if key == ANY_ITEM {
            dotted.push_str(key);
            continue;
        }
        if !dotted.is_empty() {
            dotted.push('.');
        }
        dotted.push_str(&toml_key(key));
    }
    dotted
}

/// The path that a key such as `servers.one.ports[2]` names.
pub(super) fn path_of_key(key: &str) -> Path {
    let parts = key.split('.').flat_map(|part| part.split('['));
    parts.map(|part| part.trim_end_matches(']').to_owned()).collect()
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
    children(node, key).into_iter().next()
}

/// The schemas of what is below `key`: one for each variant that has it, else one at most.
fn children<'a>(node: &'a Value, key: &str) -> Vec<&'a Value> {
    let fields: Vec<&Value> =
        fields(node).filter(|(name, _)| *name == key).map(|(_, schema)| schema).collect();
    if !fields.is_empty() {
        return fields;
    }

    let entry = if type_of(node) == "array" { node.get("items") } else { any_entry(node) };
    entry.into_iter().collect()
}

/// The fields of a table, then those of its variants, where it has any.
fn fields(node: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let tag = tag_of(node);
    let of_variants = list_variants(node).flat_map(|(_, variant)| properties(variant));
    properties(node).chain(of_variants.filter(move |(key, _)| Some(*key) != tag))
}

/// The variants of a tagged enum, by name.
fn list_variants(node: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let conditions = node.get("allOf").and_then(Value::as_array);
    conditions.into_iter().flatten().filter_map(|condition| {
        let (_, tag) = properties(condition.get("if")?).next()?;
        Some((tag.get("const")?.as_str()?, condition.get("then")?))
    })
}

fn chosen_variant<'a>(node: &'a Value, value: Option<&Value>) -> Option<&'a Value> {
    let name = variant_name(node, value?)?;
    list_variants(node).find(|(variant, _)| *variant == name).map(|(_, schema)| schema)
}

fn properties(node: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let properties = node.get("properties").and_then(Value::as_object);
    properties.into_iter().flatten().map(|(key, schema)| (key.as_str(), schema))
}

/// The schema of a map's entries.
fn any_entry(node: &Value) -> Option<&Value> {
    node.get("additionalProperties").filter(|entry| entry.is_object())
}

fn collect_leaves<'a>(
    node: &'a Value,
    path: &mut Path,
    only_with: Option<&Choice<'a>>,
    found: &mut Vec<Leaf<'a>>,
) {
    let items = node.get("items").filter(|items| fields(items).next().is_some());
    let parts = parts_of(node);

    if parts.is_empty() || items.is_some() {
        found.push(Leaf { path: path.clone(), node, only_with: only_with.cloned() });
    }
    if let Some(items) = items {
        path.push(ANY_ITEM.to_owned());
        collect_leaves(items, path, only_with, found);
        path.pop();
    }
    for part in parts {
        path.push(part.key.to_owned());
        collect_leaves(part.node, path, part.only_with.as_ref().or(only_with), found);
        path.pop();
    }
}

/// A part of a table: a field, or the entries of a map.
struct Part<'a> {
    key: &'a str,
    node: &'a Value,
    only_with: Option<Choice<'a>>,
}

/// The parts of a table. A field that several variants have in the same way is one part.
fn parts_of(node: &Value) -> Vec<Part<'_>> {
    let mut parts: Vec<Part<'_>> =
        properties(node).map(|(key, node)| Part { key, node, only_with: None }).collect();
    parts.extend(any_entry(node).map(|node| Part { key: ANY_KEY, node, only_with: None }));

    let Some(tag) = tag_of(node) else { return parts };
    for (name, variant) in list_variants(node) {
        for (key, field) in properties(variant).filter(|(key, _)| *key != tag) {
            let same = parts.iter_mut().find(|part| part.key == key && part.node == field);
            match same.and_then(|part| part.only_with.as_mut()) {
                Some(choice) => choice.variants.push(name),
                None => {
                    let only_with = Some(Choice { tag, variants: vec![name] });
                    parts.push(Part { key, node: field, only_with });
                }
            }
        }
    }

    // What every variant has needs no word on when it holds.
    let count = list_variants(node).count();
    for part in &mut parts {
        part.only_with.take_if(|choice| choice.variants.len() == count);
    }
    parts
}

fn simplify_schema(schema: &mut Schema) {
    transform_subschemas(&mut simplify_schema, schema);
    drop_null(schema);
    join_constants(schema);
    close(schema);
    split_variants(schema);
}

/// Makes unknown keys of a struct mistakes, also where its `deny_unknown_fields` was forgotten.
fn close(schema: &mut Schema) {
    let is_plain = schema.get("allOf").is_none();
    let has_fields = schema.get("properties").is_some();
    if is_plain && has_fields && schema.get("additionalProperties").is_none() {
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
        merge_into(schema, only);
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

/// Makes a tagged enum, `oneOf` of objects with a constant, into an object with conditions.
fn split_variants(schema: &mut Schema) {
    let Some(Value::Array(choices)) = schema.get("oneOf") else { return };
    let Some(tag) = choices.first().and_then(|first| {
        properties(first).find(|(_, field)| field.get("const").is_some()).map(|(key, _)| key)
    }) else {
        return;
    };
    let names: Option<Vec<&Value>> =
        choices.iter().map(|choice| choice.get("properties")?.get(tag)?.get("const")).collect();
    let Some(names) = names else { return };

    let conditions: Vec<Value> = choices
        .iter()
        .zip(&names)
        .map(|(choice, name)| {
            let is_it = json!({ "required": [tag], "properties": { tag: { "const": name } } });
            json!({ "if": is_it, "then": choice })
        })
        .collect();
    let what = json!({
        "type": "object",
        "required": [tag],
        "properties": { tag: { "type": "string", "enum": names } },
        "allOf": conditions,
    });

    schema.remove("oneOf");
    if let Value::Object(what) = what {
        merge_into(schema, what);
    }
}

/// Takes over what the inner schema says, except where the field itself says something.
fn merge_into(schema: &mut Schema, inner: serde_json::Map<String, Value>) {
    for (key, value) in inner {
        if schema.get(&key).is_none() {
            schema.insert(key, value);
        }
    }
}
