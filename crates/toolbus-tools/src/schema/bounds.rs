//! Bounds of schemas: no check of arguments may take longer than what reading them took, whatever a
//! provider wrote into its schema.
//!
//! Three things make a small schema expensive. References that double what they refer to, level by
//! level, are found by counting what the schema is when every reference is written out. References
//! that lead back to themselves have no such count; they are taken only where at most one of them
//! applies to any one place of the arguments, so that each place is looked at once. And what is
//! left unevaluated is found by evaluating again, so such a schema counts as a multiple of itself.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::Error;

/// Longest schema, in bytes of JSON.
pub const SCHEMA_BYTES_MAX: usize = 64 << 10;
/// Most values in a schema whose references are all written out.
pub const EXPANDED_VALUES_MAX: usize = 100_000;
/// How deep a schema may be nested when its references are written out.
const DEPTH_MAX: usize = 500;
/// Most references that one definition has to definitions that lead back to it.
const CYCLIC_REFERENCES_MAX: usize = 64;

/// Keywords whose value is a schema, or a list or a map of schemas, for the very place that the
/// schema itself is for.
const IN_PLACE: [&str; 9] =
    ["allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies"];
/// Keywords whose value is a schema for any member of an object.
const ANY_MEMBER: [&str; 4] =
    ["additionalProperties", "unevaluatedProperties", "patternProperties", "propertyNames"];
/// Keywords whose value is a schema, or a list of schemas, for any item of an array.
const ANY_ITEM: [&str; 5] =
    ["items", "prefixItems", "additionalItems", "unevaluatedItems", "contains"];

/// Keywords for what no other keyword of their schema is for.
const UNEVALUATED: [&str; 2] = ["unevaluatedProperties", "unevaluatedItems"];

/// Keywords that look at each of the arguments' values more closely than others, and how many
/// values of the schema they count for.
const COSTLY: [&str; 2] = ["uniqueItems", "format"];
const COSTLY_SIZE: usize = 4;

/// One step from a value to a value in it.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step<'a> {
    Member(&'a str),
    AnyMember,
    AnyItem,
}

/// A reference, and the place that it applies to as seen from its definition.
struct Reference<'a> {
    target: &'a str,
    place: Vec<Step<'a>>,
}

/// A schema that a reference may lead to, and the references in it.
struct Definition<'a> {
    pointer: &'a str,
    references: Vec<Reference<'a>>,
}

/// Checks the bounds, and answers how large the schema is when it is written out.
pub(super) fn check(schema: &Value) -> Result<Extent, Error> {
    let bytes = schema.to_string().len();
    if bytes > SCHEMA_BYTES_MAX {
        return Err(Error(format!("{bytes} bytes are over the limit of {SCHEMA_BYTES_MAX}")));
    }

    let mut expansion = Expansion { root: schema, known: HashMap::new(), open: HashSet::new() };
    let extent = expansion.extent_of(schema, 0)?;
    if extent.height > DEPTH_MAX {
        return Err(too_deep());
    }
    if extent.size > EXPANDED_VALUES_MAX {
        return Err(Error(format!(
            "with its references written out it has over {EXPANDED_VALUES_MAX} values"
        )));
    }

    check_cycles(schema)?;
    Ok(extent)
}

fn too_deep() -> Error {
    Error(format!("with its references written out it is nested over {DEPTH_MAX} deep"))
}

/// How large a schema is when its references are written out.
#[derive(Debug, Clone, Copy)]
pub(super) struct Extent {
    /// How many values it has, each counted as often as a check may look at it.
    pub(super) size: usize,
    /// How deep they are nested.
    pub(super) height: usize,
    /// How many patterns there are among them.
    pub(super) patterns: usize,
    /// How many of those are for names, each counted as often as a check may match it.
    pub(super) name_patterns: usize,
}

impl Extent {
    const NONE: Self = Self { size: 0, height: 0, patterns: 0, name_patterns: 0 };
    const ONE: Self = Self { size: 1, height: 1, ..Self::NONE };

    /// A value beside others in one that holds them all.
    fn holding(self, value: Self) -> Self {
        Self {
            size: self.size.saturating_add(value.size),
            height: self.height.max(value.height.saturating_add(1)),
            patterns: self.patterns.saturating_add(value.patterns),
            name_patterns: self.name_patterns.saturating_add(value.name_patterns),
        }
    }

    /// The same schema with one keyword more, of which only the value was counted.
    fn with_keyword(mut self, keyword: &str, value: &Value) -> Self {
        match (keyword, value) {
            ("pattern", Value::String(_)) => self.patterns = self.patterns.saturating_add(1),
            ("patternProperties", Value::Object(patterns)) => {
                self.patterns = self.patterns.saturating_add(patterns.len());
                self.name_patterns = self.name_patterns.saturating_add(patterns.len());
            }
            _ if COSTLY.contains(&keyword) => self.size = self.size.saturating_add(COSTLY_SIZE),
            _ => {}
        }
        self
    }

    /// The same schema with `unevaluatedProperties` or `unevaluatedItems`: to say what is
    /// evaluated, a check looks again at each schema in it, at those in it again, and so on. A
    /// level of schemas is two levels of values.
    fn with_unevaluated(self) -> Self {
        let times = 2 + self.height / 2;
        Self {
            size: self.size.saturating_mul(times),
            name_patterns: self.name_patterns.saturating_mul(times),
            ..self
        }
    }
}

/// Measures a schema with its references written out, each definition once.
struct Expansion<'a> {
    root: &'a Value,
    known: HashMap<&'a str, Extent>,
    /// Definitions that are being measured. One that refers to itself adds nothing.
    open: HashSet<&'a str>,
}

impl<'a> Expansion<'a> {
    fn extent_of(&mut self, value: &'a Value, depth: usize) -> Result<Extent, Error> {
        if depth > DEPTH_MAX {
            return Err(too_deep());
        }

        let mut extent = Extent::ONE;
        match value {
            Value::Array(items) => {
                for item in items {
                    extent = extent.holding(self.extent_of(item, depth + 1)?);
                }
            }
            Value::Object(members) => {
                for (name, member) in members {
                    let extent_of_member = match reference_in(name, member)? {
                        Some(pointer) => self.extent_of_definition(pointer, depth + 1)?,
                        None => self.extent_of(member, depth + 1)?,
                    };
                    extent = extent.holding(extent_of_member).with_keyword(name, member);
                }
                if UNEVALUATED.iter().any(|keyword| members.contains_key(*keyword)) {
                    extent = extent.with_unevaluated();
                }
            }
            _ => {}
        }
        Ok(extent)
    }

    fn extent_of_definition(&mut self, pointer: &'a str, depth: usize) -> Result<Extent, Error> {
        if let Some(extent) = self.known.get(pointer) {
            return Ok(*extent);
        }
        if !self.open.insert(pointer) {
            return Ok(Extent::NONE);
        }

        let extent = self.extent_of(find_definition(self.root, pointer)?, depth)?;

        self.open.remove(pointer);
        self.known.insert(pointer, extent);
        Ok(extent)
    }
}

/// Refuses definitions that lead back to themselves in more than one way for one place, or for the
/// very place that they are for.
fn check_cycles(schema: &Value) -> Result<(), Error> {
    let definitions = collect_definitions(schema)?;
    let numbers: HashMap<&str, usize> =
        definitions.iter().map(|definition| definition.pointer).zip(0..).collect();
    let targets_of = |is_taken: fn(&Reference<'_>) -> bool| -> Vec<Vec<usize>> {
        let targets = |definition: &Definition<'_>| -> Vec<usize> {
            let taken = definition.references.iter().filter(|reference| is_taken(reference));
            taken.map(|reference| numbers[reference.target]).collect()
        };
        definitions.iter().map(targets).collect()
    };

    // A reference leads back where it leads to what leads here.
    let groups = groups_of(&targets_of(|_| true));
    for (definition, group) in definitions.iter().zip(&groups) {
        let leads_back = |reference: &&Reference<'_>| groups[numbers[reference.target]] == *group;
        let cyclic: Vec<_> = definition.references.iter().filter(leads_back).collect();
        check_places(definition.pointer, &cyclic)?;
    }

    // Without a step between them, definitions that refer to each other in place never end.
    let in_place = targets_of(|reference| reference.place.is_empty());
    let groups = groups_of(&in_place);
    for (number, targets) in in_place.iter().enumerate() {
        if targets.iter().any(|target| groups[*target] == groups[number]) {
            let pointer = definitions[number].pointer;
            return Err(Error(format!("'{pointer}' is defined as itself")));
        }
    }
    Ok(())
}

/// The schema itself, and every definition that it refers to, or that one of those refers to.
fn collect_definitions(schema: &Value) -> Result<Vec<Definition<'_>>, Error> {
    let mut definitions = Vec::new();
    let mut known = HashSet::from(["#"]);
    let mut to_read = vec!["#"];
    while let Some(pointer) = to_read.pop() {
        let mut references = Vec::new();
        collect_references(find_definition(schema, pointer)?, &mut Vec::new(), &mut references)?;
        let targets = references.iter().map(|reference| reference.target);
        to_read.extend(targets.filter(|target| known.insert(*target)));
        definitions.push(Definition { pointer, references });
    }
    Ok(definitions)
}

/// Groups the nodes of a graph, of which each is given by the nodes that it has an edge to: two
/// have the same group where each of them leads to the other. It looks at each edge twice.
fn groups_of(targets: &[Vec<usize>]) -> Vec<Option<usize>> {
    // First the nodes in the order in which all that they lead to was seen.
    let mut finished = Vec::with_capacity(targets.len());
    let mut is_seen = vec![false; targets.len()];
    for (start, nodes) in targets.iter().enumerate() {
        if std::mem::replace(&mut is_seen[start], true) {
            continue;
        }
        let mut open = vec![(start, nodes.iter())];
        while let Some((node, rest)) = open.last_mut() {
            match rest.next() {
                Some(&target) if !is_seen[target] => {
                    is_seen[target] = true;
                    open.push((target, targets[target].iter()));
                }
                Some(_) => {}
                None => {
                    finished.push(*node);
                    open.pop();
                }
            }
        }
    }

    let mut sources = vec![Vec::new(); targets.len()];
    for (source, targets) in targets.iter().enumerate() {
        targets.iter().for_each(|target| sources[*target].push(source));
    }

    // From the last of them, against the edges, there is the way to its own group alone.
    let mut groups = vec![None; targets.len()];
    for &start in finished.iter().rev() {
        let mut open = vec![start];
        while let Some(node) = open.pop() {
            if groups[node].is_none() {
                groups[node] = Some(start);
                open.extend(&sources[node]);
            }
        }
    }
    groups
}

fn check_places(pointer: &str, cyclic: &[&Reference<'_>]) -> Result<(), Error> {
    if cyclic.len() > CYCLIC_REFERENCES_MAX {
        return Err(Error(format!(
            "'{pointer}' leads back to itself in over {CYCLIC_REFERENCES_MAX} ways"
        )));
    }
    for (index, reference) in cyclic.iter().enumerate() {
        if cyclic[..index].iter().any(|other| may_meet(&reference.place, &other.place)) {
            return Err(Error(format!("'{pointer}' leads back to itself in several ways")));
        }
    }
    Ok(())
}

/// Whether two places may be the same one, or one within the other.
fn may_meet(one: &[Step<'_>], other: &[Step<'_>]) -> bool {
    let meet = |(one, other): (&Step<'_>, &Step<'_>)| match (one, other) {
        (Step::Member(one), Step::Member(other)) => one == other,
        (Step::AnyItem, step) | (step, Step::AnyItem) => *step == Step::AnyItem,
        _ => true,
    };
    one.iter().zip(other).all(meet)
}

/// The references of a schema, without those of what it refers to.
fn collect_references<'a>(
    schema: &'a Value,
    place: &mut Vec<Step<'a>>,
    into: &mut Vec<Reference<'a>>,
) -> Result<(), Error> {
    let Value::Object(members) = schema else { return Ok(()) };
    for (keyword, value) in members {
        if let Some(target) = reference_in(keyword, value)? {
            into.push(Reference { target, place: place.clone() });
        } else if keyword == "properties" {
            for (name, schema) in value.as_object().into_iter().flatten() {
                place.push(Step::Member(name));
                collect_references(schema, place, into)?;
                place.pop();
            }
        } else if IN_PLACE.contains(&keyword.as_str()) {
            collect_each(value, place, into)?;
        } else if let Some(step) = step_of(keyword) {
            place.push(step);
            collect_each(value, place, into)?;
            place.pop();
        }
    }
    Ok(())
}

fn step_of(keyword: &str) -> Option<Step<'static>> {
    if ANY_MEMBER.contains(&keyword) {
        Some(Step::AnyMember)
    } else {
        ANY_ITEM.contains(&keyword).then_some(Step::AnyItem)
    }
}

/// The value of a keyword may be a schema, or a list or map of them; a schema's own members are
/// read as a map's as well, which finds no less.
fn collect_each<'a>(
    value: &'a Value,
    place: &mut Vec<Step<'a>>,
    into: &mut Vec<Reference<'a>>,
) -> Result<(), Error> {
    match value {
        Value::Array(schemas) => {
            schemas.iter().try_for_each(|schema| collect_references(schema, place, into))
        }
        Value::Object(members) if is_map_of_schemas(members) => {
            members.values().try_for_each(|schema| collect_references(schema, place, into))
        }
        schema => collect_references(schema, place, into),
    }
}

/// Whether this is a map of schemas, such as `patternProperties` has, and no schema itself.
fn is_map_of_schemas(members: &Map<String, Value>) -> bool {
    let is_keyword = |name: &str| {
        name.starts_with('$')
            || matches!(name, "type" | "properties" | "enum" | "const")
            || IN_PLACE.contains(&name)
            || step_of(name).is_some()
    };
    !members.is_empty()
        && members.values().all(Value::is_object)
        && !members.keys().any(|name| is_keyword(name))
}

/// The pointer of a reference. Only pointers into the schema itself can be followed.
fn reference_in<'a>(keyword: &str, value: &'a Value) -> Result<Option<&'a str>, Error> {
    match (keyword, value) {
        ("$ref", Value::String(pointer)) if pointer == "#" || pointer.starts_with("#/") => {
            Ok(Some(pointer))
        }
        ("$ref" | "$dynamicRef" | "$recursiveRef", Value::String(target)) => {
            Err(Error(super::cut_text(format!("'{target}' refers to no place in the schema"))))
        }
        _ => Ok(None),
    }
}

fn find_definition<'a>(root: &'a Value, pointer: &str) -> Result<&'a Value, Error> {
    let path = pointer.trim_start_matches('#').replace("%25", "%");
    root.pointer(&path).ok_or_else(|| {
        Error(super::cut_text(format!("'{pointer}' refers to nothing in the schema")))
    })
}

#[cfg(test)]
mod tests;
