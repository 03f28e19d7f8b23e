//! Choices: is it clear which of several schemas a value is of?

use std::collections::HashMap;

use serde_json::Value;

use super::raise::{Raiser, Shape};
use super::{Node, NotStrict, REFERENCES_MAX, literal_type, not_strict};

/// Most branches of a choice, and most schemas that they are choices of in turn.
const BRANCHES_MAX: usize = 64;
const LEAVES_MAX: usize = 256;

/// Refuses choices where it would not be clear how a value is raised: where two branches may fit
/// the same value by its look, and one of them has something to raise.
pub(super) fn check(
    choices: &[Vec<Node>],
    root: &Value,
    root_shape: &Shape,
    definitions: &HashMap<String, Shape>,
) -> Result<(), NotStrict> {
    let raiser = Raiser::new(root, root_shape, definitions);
    for nodes in choices {
        let schemas: Vec<_> = nodes.iter().map(|node| Value::Object(node.schema.clone())).collect();
        let Some(leaves) = leaves_of_each(&schemas, root) else {
            return not_strict("a choice has too many branches");
        };
        let needs_raising: Vec<_> =
            nodes.iter().map(|node| raiser.needs_raising(&node.shape)).collect();

        let looks_like = |one: usize, other: usize| {
            let overlaps = |a: &&Value| leaves[other].iter().any(|b| may_overlap(a, b));
            (needs_raising[one] || needs_raising[other]) && leaves[one].iter().any(overlaps)
        };
        if (0..nodes.len()).any(|one| (0..one).any(|other| looks_like(one, other))) {
            return not_strict("the branches of a choice look alike");
        }
    }
    Ok(())
}

/// The leaves of each of some schemas. `None` where they are too many to compare.
fn leaves_of_each<'a>(schemas: &'a [Value], root: &'a Value) -> Option<Vec<Vec<&'a Value>>> {
    if schemas.len() > BRANCHES_MAX {
        return None;
    }
    let leaves: Option<Vec<_>> = schemas.iter().map(|schema| leaves_of(schema, root)).collect();
    leaves.filter(|leaves| leaves.iter().map(Vec::len).sum::<usize>() <= LEAVES_MAX)
}

/// The schemas that a schema is a choice of, without references. `None` where they are too many.
fn leaves_of<'a>(schema: &'a Value, root: &'a Value) -> Option<Vec<&'a Value>> {
    let mut leaves = Vec::new();
    let mut open = vec![(schema, REFERENCES_MAX)];
    while let Some((schema, left)) = open.pop() {
        if left == 0 || leaves.len() + open.len() > LEAVES_MAX {
            return None;
        }
        if let Some(pointer) = schema["$ref"].as_str() {
            open.push((root.pointer(pointer.get(1..)?)?, left - 1));
            continue;
        }
        let branches = ["anyOf", "oneOf", "allOf"].into_iter().find_map(|k| schema[k].as_array());
        match branches {
            // Of several that all hold, each is taken for one that may hold alone.
            Some(branches) => open.extend(branches.iter().map(|branch| (branch, left - 1))),
            None => leaves.push(schema),
        }
    }
    Some(leaves)
}

/// Whether a value may fit both of two lowered schemas, by its look.
fn may_overlap(one: &Value, other: &Value) -> bool {
    let (ones, others) = (kinds_of(one), kinds_of(other));
    let shared: Vec<_> = ones.iter().filter(|kind| others.contains(kind)).collect();
    let is_structured = |kind: &&&&str| matches!(***kind, "object" | "array");
    // What is no object and no list is not changed.
    match shared.iter().filter(is_structured).collect::<Vec<_>>()[..] {
        [] => false,
        [&&"object"] => has_same_look(one, other),
        _ => true,
    }
}

/// Whether two closed objects, whose members are all required, have the same names and may have the
/// same literal values.
fn has_same_look(one: &Value, other: &Value) -> bool {
    let (Some(ones), Some(others)) =
        (one["properties"].as_object(), other["properties"].as_object())
    else {
        return true;
    };
    let has_same_names = ones.len() == others.len() && ones.keys().all(|k| others.contains_key(k));
    has_same_names
        && !ones.iter().any(|(name, schema)| are_apart_by_literals(schema, &others[name]))
}

fn are_apart_by_literals(one: &Value, other: &Value) -> bool {
    match (literals_of(one), literals_of(other)) {
        (Some(ones), Some(others)) => !ones.iter().any(|value| others.contains(value)),
        _ => false,
    }
}

fn literals_of(schema: &Value) -> Option<Vec<&Value>> {
    match (schema.get("const"), schema["enum"].as_array()) {
        (Some(one), _) => Some(vec![one]),
        (None, values) => values.map(|values| values.iter().collect()),
    }
}

/// The kinds of values that a schema is for; integers are numbers.
fn kinds_of(schema: &Value) -> Vec<&str> {
    let as_kind = |kind: &'static str| if kind == "integer" { "number" } else { kind };
    if let Some(values) = literals_of(schema) {
        return values.into_iter().map(|value| as_kind(literal_type(value))).collect();
    }
    let types = std::slice::from_ref(&schema["type"]);
    let types = schema["type"].as_array().map_or(types, Vec::as_slice);
    let types = types.iter().filter_map(Value::as_str);
    types.map(|kind| if kind == "integer" { "number" } else { kind }).collect()
}

/// Whether no value fits two of a tool's own schemas: they are for other kinds of values, or for
/// objects that a required member with other literal values tells apart. Members that are not
/// there, or not named, tell nothing: objects may be open.
pub(super) fn are_apart(branches: &[Value], root: &Value) -> bool {
    let Some(leaves) = leaves_of_each(branches, root) else { return false };
    leaves.iter().enumerate().all(|(at, ones)| {
        leaves[..at].iter().all(|others| {
            ones.iter().all(|one| others.iter().all(|other| are_schemas_apart(one, other)))
        })
    })
}

fn are_schemas_apart(one: &Value, other: &Value) -> bool {
    let (ones, others) = (kinds_of(one), kinds_of(other));
    if ones.is_empty() || others.is_empty() {
        return false;
    }
    if are_apart_by_literals(one, other) {
        return true;
    }
    let shared: Vec<_> = ones.iter().filter(|kind| others.contains(kind)).collect();
    shared.iter().all(|kind| **kind == "object" && has_tag(one, other))
}

/// Whether both require a member whose literal values tell them apart.
fn has_tag(one: &Value, other: &Value) -> bool {
    let requires = |schema: &Value, name: &str| {
        schema["required"].as_array().is_some_and(|names| names.iter().any(|known| known == name))
    };
    one["properties"].as_object().is_some_and(|properties| {
        properties.iter().any(|(name, schema)| {
            requires(one, name)
                && requires(other, name)
                && are_apart_by_literals(schema, &other["properties"][name])
        })
    })
}

/// Whether a tool's own schema takes null.
pub(super) fn accepts_null(schema: &Value, root: &Value, left: usize) -> bool {
    if left == 0 {
        return true;
    }
    if let Some(pointer) = schema["$ref"].as_str() {
        let definition = pointer.get(1..).and_then(|pointer| root.pointer(pointer));
        return definition.is_none_or(|schema| accepts_null(schema, root, left - 1));
    }
    let accepts = |branch: &Value| accepts_null(branch, root, left - 1);
    for keyword in ["anyOf", "oneOf"] {
        if let Some(branches) = schema[keyword].as_array() {
            return branches.iter().any(accepts);
        }
    }
    if let Some(branches) = schema["allOf"].as_array() {
        return branches.iter().all(accepts);
    }

    let has_type = schema.get("type").is_some();
    let is_typed_null = kinds_of_type(schema).contains(&"null");
    match literals_of(schema) {
        Some(values) => values.iter().any(|value| value.is_null()) && (is_typed_null || !has_type),
        None => is_typed_null,
    }
}

fn kinds_of_type(schema: &Value) -> Vec<&str> {
    let types = std::slice::from_ref(&schema["type"]);
    let types = schema["type"].as_array().map_or(types, Vec::as_slice);
    types.iter().filter_map(Value::as_str).collect()
}
