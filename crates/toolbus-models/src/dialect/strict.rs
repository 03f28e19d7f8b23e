//! Strict mode of OpenAI's APIs: a schema that a model's arguments are held to while they are
//! written.
//!
//! It knows a part of JSON Schema: closed objects whose members are all required, no `allOf` or
//! `not`, and few assertions. An optional member is lowered to a required one that may be null, and
//! [`Strict::raise`] takes the null away again. Whatever fits the lowered schema fits the tool's
//! own once it is raised, but for a number such as `1.0`, which is no integer in draft 4. So
//! annotations are dropped, and a schema with an assertion that strict mode does not know, or where
//! a null would be ambiguous, is not lowered at all.

mod choices;
mod limits;
mod raise;

use std::collections::HashMap;
use std::fmt;

use serde_json::{Map, Value, json};

use limits::Limits;
use raise::Shape;

/// Most schemas in one another, lists and choices among them.
const DEPTH_MAX: usize = 50;
/// How many references are followed to find out what a schema is for.
const REFERENCES_MAX: usize = 32;

/// Formats of texts that strict mode knows.
const FORMATS: [&str; 9] =
    ["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"];

/// Assertions that strict mode knows, by type.
const NUMBER_ASSERTIONS: [&str; 5] =
    ["multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"];
const STRING_ASSERTIONS: [&str; 2] = ["pattern", "format"];
const ARRAY_ASSERTIONS: [&str; 3] = ["items", "minItems", "maxItems"];
const OBJECT_ASSERTIONS: [&str; 4] =
    ["properties", "required", "additionalProperties", "unevaluatedProperties"];

/// What says by itself what a value is. Nothing but annotations may stand beside one of them.
const ALONE: [&str; 4] = ["$ref", "anyOf", "oneOf", "allOf"];

/// What strict mode cannot say.
const UNKNOWN: [&str; 23] = [
    "not",
    "if",
    "then",
    "else",
    "dependentRequired",
    "dependentSchemas",
    "dependencies",
    "patternProperties",
    "propertyNames",
    "minProperties",
    "maxProperties",
    "unevaluatedItems",
    "contains",
    "minContains",
    "maxContains",
    "uniqueItems",
    "prefixItems",
    "additionalItems",
    "minLength",
    "maxLength",
    "$dynamicRef",
    "$recursiveRef",
    "contentSchema",
];
/// What strict mode cannot say either, where it is an assertion: in older drafts.
const UNKNOWN_IN_OLDER_DRAFTS: [&str; 2] = ["contentMediaType", "contentEncoding"];

/// A schema in strict mode, and how arguments that fit it are raised.
#[derive(Debug)]
pub(super) struct Strict {
    schema: Value,
    shape: Shape,
    definitions: HashMap<String, Shape>,
}

/// Why a schema cannot be said in strict mode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NotStrict(String);

impl fmt::Display for NotStrict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A schema that was lowered.
#[derive(Debug, Clone)]
struct Node {
    schema: Map<String, Value>,
    shape: Shape,
}

type Lowered = Result<Node, NotStrict>;

fn not_strict<T>(reason: impl Into<String>) -> Result<T, NotStrict> {
    Err(NotStrict(reason.into()))
}

impl Strict {
    /// Lowers the schema of a tool's arguments.
    pub(super) fn lower(schema: &Value) -> Result<Self, NotStrict> {
        let mut lowering = Lowering {
            root: schema,
            is_of_older_draft: is_of_older_draft(schema),
            limits: Limits::default(),
            definitions: Definitions::default(),
            choices: Vec::new(),
            depth: 0,
        };
        let Value::Object(members) = schema else { return not_strict("it is a boolean") };
        if let Some(keyword) = ALONE.iter().chain(&["enum", "const"]).find(|k| has(members, k)) {
            return not_strict(format!("it has '{keyword}' at its top"));
        }
        check_keywords(members, Place::Top)?;
        // Arguments are an object, whatever else the schema would take.
        let Node { schema: mut lowered, shape } = lowering.object(members, 1, Place::Top)?;
        lowered = of_kind(json!("object"), lowered);

        let definitions = lowering.finish_definitions(&mut lowered)?;
        let root = Value::Object(lowered);
        choices::check(&lowering.choices, &root, &shape, &definitions)?;
        Ok(Self { schema: root, shape, definitions })
    }

    /// The lowered schema.
    pub(super) fn schema(&self) -> &Value {
        &self.schema
    }

    /// Whether arguments may be changed by raising them.
    pub(super) fn needs_raising(&self) -> bool {
        self.raiser().needs_raising(&self.shape)
    }

    /// Takes away the nulls that stand for what is absent.
    pub(super) fn raise(&self, arguments: &mut Value) {
        self.raiser().raise(&self.shape, arguments);
    }

    fn raiser(&self) -> raise::Raiser<'_> {
        raise::Raiser::new(&self.schema, &self.shape, &self.definitions)
    }
}

/// Where a schema stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Top,
    Within,
}

/// Lowers one schema with its definitions.
struct Lowering<'a> {
    root: &'a Value,
    /// Whether the tool's own check looks at formats, and at what is encoded in texts.
    is_of_older_draft: bool,
    limits: Limits,
    definitions: Definitions,
    /// The branches of each choice, to be looked at when all definitions are known.
    choices: Vec<Vec<Node>>,
    /// How many schemas around the one that is being lowered.
    depth: usize,
}

/// Definitions that are referred to.
#[derive(Default)]
struct Definitions {
    /// The name of each in the lowered schema, by its pointer in the tool's own.
    names: HashMap<String, String>,
    /// In the order in which they were first referred to; `None` while one is being lowered.
    nodes: Vec<(String, Option<Node>)>,
}

impl Lowering<'_> {
    fn node(&mut self, schema: &Value, level: usize) -> Lowered {
        let Value::Object(members) = schema else { return not_strict("a part is a boolean") };
        check_keywords(members, Place::Within)?;
        self.check_draft(schema, members)?;
        if self.depth >= DEPTH_MAX {
            return not_strict("it is nested too deep");
        }

        self.depth += 1;
        let mut node = if let Some(keyword) = ALONE.iter().find(|k| has(members, k)) {
            check_alone(members, keyword)?;
            match (*keyword, &members[*keyword]) {
                ("$ref", Value::String(pointer)) => self.reference(pointer, level)?,
                ("allOf", Value::Array(branches)) if branches.len() == 1 => {
                    self.node(&branches[0], level)?
                }
                ("anyOf" | "oneOf", Value::Array(branches)) => {
                    self.choice(keyword, branches, level)?
                }
                _ => return not_strict(format!("'{keyword}' cannot be said")),
            }
        } else if has(members, "enum") || has(members, "const") {
            self.literal(members)?
        } else {
            self.typed(members, level)?
        };
        self.depth -= 1;
        add_description(&mut node.schema, members);
        Ok(node)
    }

    /// Refuses what older drafts assert and strict mode cannot say.
    fn check_draft(&self, part: &Value, members: &Map<String, Value>) -> Result<(), NotStrict> {
        if !self.is_of_older_draft {
            return match is_of_older_draft(part) {
                true => not_strict("a part is of an older draft"),
                false => Ok(()),
            };
        }
        match UNKNOWN_IN_OLDER_DRAFTS.iter().find(|keyword| has(members, keyword)) {
            Some(keyword) => not_strict(format!("'{keyword}' cannot be said")),
            None => Ok(()),
        }
    }

    /// A reference to a definition of the schema.
    fn reference(&mut self, pointer: &str, level: usize) -> Lowered {
        if pointer == "#" {
            return Ok(Node::reference("#".to_owned(), String::new()));
        }
        let name = pointer.strip_prefix("#/$defs/").or(pointer.strip_prefix("#/definitions/"));
        let Some(name) = name.filter(|name| !name.contains(['/', '~', '%'])) else {
            return not_strict(format!("'{pointer}' is no definition"));
        };

        if let Some(known) = self.definitions.names.get(pointer) {
            return Ok(Node::reference(format!("#/$defs/{known}"), known.clone()));
        }
        let Some(definition) = self.root.pointer(&pointer[1..]) else {
            return not_strict(format!("'{pointer}' leads nowhere"));
        };
        let given = self.definitions.add(pointer, name);
        self.limits.add_text(&given)?;

        let at = self.definitions.nodes.len() - 1;
        let node = self.node(definition, level)?;
        self.definitions.nodes[at].1 = Some(node);
        Ok(Node::reference(format!("#/$defs/{given}"), given))
    }

    /// One of several schemas.
    fn choice(&mut self, keyword: &str, branches: &[Value], level: usize) -> Lowered {
        if keyword == "oneOf" && !choices::are_apart(branches, self.root) {
            return not_strict("more than one branch of a 'oneOf' may fit");
        }
        let nodes: Result<Vec<_>, _> =
            branches.iter().map(|branch| self.node(branch, level)).collect();
        let nodes = nodes?;
        self.choices.push(nodes.clone());
        Ok(Node::choice(nodes))
    }

    /// One of some values.
    fn literal(&mut self, members: &Map<String, Value>) -> Lowered {
        let assertions = [&NUMBER_ASSERTIONS[..], &STRING_ASSERTIONS, &ARRAY_ASSERTIONS].concat();
        let other = assertions.iter().chain(&OBJECT_ASSERTIONS).find(|k| has(members, k));
        if let Some(keyword) = other {
            return not_strict(format!("'{keyword}' stands beside literal values"));
        }

        let given: Vec<&Value> = match (members.get("const"), members.get("enum")) {
            (Some(one), None) => vec![one],
            (None, Some(Value::Array(values))) => values.iter().collect(),
            _ => return not_strict("its literal values cannot be said"),
        };
        let types = types_of(members);
        let fits = |value: &&Value| {
            types.as_ref().is_none_or(|types| types.iter().any(|kind| is_of_type(value, kind)))
        };
        let values: Vec<Value> = given.into_iter().filter(fits).cloned().collect();
        if values.is_empty() || values.iter().any(|value| value.is_object() || value.is_array()) {
            return not_strict("its literal values are none, or not simple");
        }
        self.limits.add_literals(&values)?;

        let mut kinds: Vec<&str> = Vec::new();
        for kind in values.iter().map(literal_type) {
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        if kinds.iter().filter(|kind| **kind != "null").count() > 1 {
            let of_kind = |kind: &&str| {
                let of_kind = values.iter().filter(|value| literal_type(value) == *kind);
                Node::literals(&[kind], of_kind.cloned().collect())
            };
            return Ok(Node::choice(kinds.iter().map(of_kind).collect()));
        }
        Ok(Node::literals(&kinds, values))
    }

    /// A schema that says which types it is for.
    fn typed(&mut self, members: &Map<String, Value>, level: usize) -> Lowered {
        let types = match types_of(members) {
            Some(types) => types,
            // Stricter than it was: everything else would fit as well.
            None if has(members, "properties") => vec!["object".to_owned()],
            None if has(members, "items") => vec!["array".to_owned()],
            None => return not_strict("a part says no type"),
        };
        let is_nullable = types.iter().any(|kind| kind == "null");
        let others: Vec<_> = types.iter().filter(|kind| *kind != "null").collect();

        let mut nodes = Vec::new();
        for kind in &others {
            let mut node = self.of_type(kind, members, level)?;
            let is_alone = is_nullable && others.len() == 1;
            let kind = if is_alone { json!([kind, "null"]) } else { json!(kind) };
            node.schema = of_kind(kind, node.schema);
            nodes.push(node);
        }
        match nodes.len() {
            1 => Ok(nodes.remove(0)),
            0 => Ok(Node::null()),
            _ => {
                nodes.extend(is_nullable.then(Node::null));
                Ok(Node::choice(nodes))
            }
        }
    }

    /// What a schema says of values of one type.
    fn of_type(&mut self, kind: &str, members: &Map<String, Value>, level: usize) -> Lowered {
        match kind {
            "object" => self.object(members, level + 1, Place::Within),
            "array" => self.array(members, level),
            "string" => self.text(members),
            "number" | "integer" => {
                let schema = copy(members, &NUMBER_ASSERTIONS);
                if !schema.values().all(Value::is_number) {
                    return not_strict("a bound of a number is none");
                }
                Ok(Node::simple(schema))
            }
            "boolean" | "null" => Ok(Node::simple(Map::new())),
            other => not_strict(format!("'{other}' is no type")),
        }
    }

    fn text(&self, members: &Map<String, Value>) -> Lowered {
        let format = members.get("format").and_then(Value::as_str);
        let is_known = format.is_none_or(|format| FORMATS.contains(&format));
        if !is_known && self.is_of_older_draft {
            return not_strict("a text has a format that strict mode does not know");
        }
        let kept = STRING_ASSERTIONS.iter().filter(|k| is_known || **k != "format");
        Ok(Node::simple(copy(members, kept)))
    }

    fn array(&mut self, members: &Map<String, Value>, level: usize) -> Lowered {
        let Some(items @ Value::Object(_)) = members.get("items") else {
            return not_strict("a list does not say what is in it");
        };
        let Node { schema: items, shape } = self.node(items, level)?;

        let mut schema = copy(members, &["minItems", "maxItems"]);
        schema.insert("items".to_owned(), Value::Object(items));
        Ok(Node { schema, shape: Shape::List(Box::new(shape)) })
    }

    fn object(&mut self, members: &Map<String, Value>, level: usize, place: Place) -> Lowered {
        self.limits.check_level(level)?;
        let none = Map::new();
        let properties = members.get("properties").and_then(Value::as_object).unwrap_or(&none);
        let is_closed = members.get("additionalProperties") == Some(&Value::Bool(false))
            || members.get("unevaluatedProperties") == Some(&Value::Bool(false));
        let is_free = members.get("additionalProperties").is_some_and(|more| *more != json!(false))
            || (properties.is_empty() && place == Place::Within && !is_closed);
        if is_free {
            return not_strict("an object may have members that it does not name");
        }

        let required = members.get("required").and_then(Value::as_array);
        let required: Vec<&str> =
            required.into_iter().flatten().filter_map(Value::as_str).collect();
        if let Some(name) = required.iter().find(|name| !properties.contains_key(**name)) {
            return not_strict(format!("'{name}' is required and not described"));
        }

        let mut lowered = Map::new();
        let mut shapes = Vec::new();
        for (name, schema) in properties {
            self.limits.add_property(name)?;
            let is_optional = !required.contains(&name.as_str());
            let node = self.member(schema, is_optional, level)?;
            lowered.insert(name.clone(), Value::Object(node.schema));
            shapes.push(raise::Member { name: name.clone(), is_optional, shape: node.shape });
        }

        let names: Vec<&String> = properties.keys().collect();
        let mut schema = Map::new();
        schema.insert("properties".to_owned(), Value::Object(lowered));
        schema.insert("required".to_owned(), json!(names));
        schema.insert("additionalProperties".to_owned(), Value::Bool(false));
        Ok(Node { schema, shape: Shape::Object(shapes) })
    }

    /// A member of an object, which may be null where it is optional.
    fn member(&mut self, schema: &Value, is_optional: bool, level: usize) -> Lowered {
        let mut node = self.node(schema, level)?;
        if !is_optional {
            return Ok(node);
        }
        if choices::accepts_null(schema, self.root, REFERENCES_MAX) {
            // Where null is what an absent member counts for, it says nothing else.
            return match schema.get("default") {
                Some(Value::Null) => Ok(node),
                _ => not_strict("null would be both a value and the lack of one"),
            };
        }
        node.add_null();
        Ok(node)
    }

    /// Puts the definitions into the schema, and answers how each is raised.
    fn finish_definitions(
        &mut self,
        schema: &mut Map<String, Value>,
    ) -> Result<HashMap<String, Shape>, NotStrict> {
        let mut shapes = HashMap::new();
        let mut definitions = Map::new();
        for (name, node) in std::mem::take(&mut self.definitions.nodes) {
            let Some(node) = node else { return not_strict("a definition has no end") };
            definitions.insert(name.clone(), Value::Object(node.schema));
            shapes.insert(name, node.shape);
        }
        if !definitions.is_empty() {
            schema.insert("$defs".to_owned(), Value::Object(definitions));
        }
        Ok(shapes)
    }
}

impl Definitions {
    /// Gives a definition a name that an API takes, and that no other has.
    fn add(&mut self, pointer: &str, name: &str) -> String {
        let is_legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let is_free = !self.nodes.iter().any(|(taken, _)| taken == name);
        let name = if !name.is_empty() && name.len() <= 64 && name.chars().all(is_legal) && is_free
        {
            name.to_owned()
        } else {
            let numbered = (self.nodes.len() + 1..).map(|number| format!("definition_{number}"));
            let is_free = |name: &String| !self.nodes.iter().any(|(taken, _)| taken == name);
            numbered.into_iter().find(is_free).unwrap_or_default()
        };
        self.names.insert(pointer.to_owned(), name.clone());
        self.nodes.push((name.clone(), None));
        name
    }
}

impl Node {
    fn simple(schema: Map<String, Value>) -> Self {
        Self { schema, shape: Shape::Simple }
    }

    fn null() -> Self {
        Self::simple(object(json!({"type": "null"})))
    }

    fn literals(types: &[&str], values: Vec<Value>) -> Self {
        let types = if let [one] = types { json!(one) } else { json!(types) };
        Self::simple(object(json!({"type": types, "enum": values})))
    }

    fn reference(pointer: String, name: String) -> Self {
        let schema = object(json!({"$ref": pointer}));
        Self { schema, shape: Shape::Reference(name) }
    }

    fn choice(nodes: Vec<Self>) -> Self {
        let schemas: Vec<_> = nodes.iter().map(|node| node.schema.clone()).collect();
        let branches = nodes.into_iter().map(|node| (Value::Object(node.schema), node.shape));
        let shape = Shape::Choice(branches.collect());
        Self { schema: object(json!({"anyOf": schemas})), shape }
    }

    /// Has the schema take null as well.
    fn add_null(&mut self) {
        if let Some(Value::Array(values)) = self.schema.get_mut("enum") {
            values.push(Value::Null);
        }
        if let Some(Value::Array(branches)) = self.schema.get_mut("anyOf") {
            branches.push(json!({"type": "null"}));
        } else if let Some(kind) = self.schema.get_mut("type") {
            *kind = json!([kind.take(), "null"]);
        } else {
            let description = self.schema.remove("description");
            let schema = std::mem::take(&mut self.schema);
            self.schema = object(json!({"anyOf": [schema, {"type": "null"}]}));
            if let Some(description) = description {
                self.schema.insert("description".to_owned(), description);
            }
        }
    }
}

/// Adds the description to a schema. A reference may have nothing beside it.
fn add_description(schema: &mut Map<String, Value>, members: &Map<String, Value>) {
    let Some(description @ Value::String(_)) = members.get("description") else { return };
    if schema.contains_key("$ref") {
        let reference = std::mem::take(schema);
        *schema = object(json!({"anyOf": [reference]}));
    }
    schema.insert("description".to_owned(), description.clone());
}

/// Refuses what strict mode cannot say, but where it says nothing.
fn check_keywords(members: &Map<String, Value>, place: Place) -> Result<(), NotStrict> {
    let says_nothing = |keyword: &str, value: &Value| match keyword {
        "minLength" | "minProperties" => *value == json!(0),
        "uniqueItems" => *value == json!(false),
        _ => false,
    };
    for (keyword, value) in members {
        if UNKNOWN.contains(&keyword.as_str()) && !says_nothing(keyword, value) {
            return not_strict(format!("'{keyword}' cannot be said"));
        }
        // References in it would begin somewhere else.
        if place == Place::Within && matches!(keyword.as_str(), "$id" | "id") && value.is_string() {
            return not_strict("a part is a document of its own");
        }
    }
    Ok(())
}

/// Refuses assertions beside a keyword that says by itself what a value is.
fn check_alone(members: &Map<String, Value>, alone: &str) -> Result<(), NotStrict> {
    let assertions = [&NUMBER_ASSERTIONS[..], &STRING_ASSERTIONS, &ARRAY_ASSERTIONS].concat();
    let mut others = assertions.iter().chain(&OBJECT_ASSERTIONS).chain(&ALONE);
    let other = others.find(|keyword| **keyword != alone && has(members, keyword));
    let other = other.or(["type", "enum", "const"].iter().find(|keyword| has(members, keyword)));
    match other {
        Some(other) => not_strict(format!("'{other}' stands beside '{alone}'")),
        None => Ok(()),
    }
}

/// Whether a schema says that it is of one of the older drafts, where formats, and what is encoded
/// in texts, are assertions.
fn is_of_older_draft(schema: &Value) -> bool {
    let draft = schema["$schema"].as_str().unwrap_or_default();
    !draft.is_empty() && !draft.contains("2020-12") && !draft.contains("2019-09")
}

fn has(members: &Map<String, Value>, keyword: &str) -> bool {
    members.contains_key(keyword)
}

fn copy<'a>(
    members: &Map<String, Value>,
    keywords: impl IntoIterator<Item = &'a &'a str>,
) -> Map<String, Value> {
    let copied = keywords
        .into_iter()
        .filter_map(|keyword| Some(((*keyword).to_owned(), members.get(*keyword)?.clone())));
    copied.collect()
}

/// The types that a schema names.
fn types_of(members: &Map<String, Value>) -> Option<Vec<String>> {
    match members.get("type")? {
        Value::String(one) => Some(vec![one.clone()]),
        Value::Array(types) => types.iter().map(|kind| kind.as_str().map(str::to_owned)).collect(),
        _ => None,
    }
}

/// A schema for this type, which comes first: models read it so.
fn of_kind(kind: Value, schema: Map<String, Value>) -> Map<String, Value> {
    std::iter::once(("type".to_owned(), kind)).chain(schema).collect()
}

fn literal_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Whether a value is of a type of JSON Schema.
fn is_of_type(value: &Value, kind: &str) -> bool {
    match (kind, value) {
        ("integer", Value::Number(number)) => {
            !number.is_f64() || number.as_f64().is_some_and(|number| number.fract() == 0.0)
        }
        ("number", Value::Number(_)) => true,
        _ => literal_type(value) == kind,
    }
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}
