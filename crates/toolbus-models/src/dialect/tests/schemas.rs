//! Schemas of all sorts, and values that fit them.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value, json};

/// Schemas as servers write them, and as they should not. The registry accepts most.
pub(super) fn any_schema() -> impl Strategy<Value = Value> {
    let definitions = (part(), part());
    let draft = select(vec![
        Value::Null,
        json!("https://json-schema.org/draft/2020-12/schema"),
        json!("http://json-schema.org/draft-07/schema#"),
    ]);
    (object(part().boxed()), definitions, draft, top()).prop_map(|(object, (a, b), draft, top)| {
        let mut schema = object;
        let definitions = json!({"a": a, "b c": b});
        let members = schema.as_object_mut().expect("it is one");
        members.insert("$defs".to_owned(), definitions.clone());
        members.insert("definitions".to_owned(), definitions);
        if !draft.is_null() {
            members.insert("$schema".to_owned(), draft);
        }
        members.extend(top);
        schema
    })
}

/// What stands at the top beside an object's own keywords.
fn top() -> impl Strategy<Value = Map<String, Value>> {
    let keyword = select(vec!["anyOf", "oneOf", "allOf", "not", "if", "$ref", "x-own"]);
    let branch = prop_oneof![Just(json!({"required": ["a"]})), object(leaf().boxed())];
    prop_oneof![
        6 => Just(Map::new()),
        1 => (keyword, branch).prop_map(|(keyword, branch)| {
            let value = match keyword {
                "anyOf" | "oneOf" | "allOf" => json!([branch, {"properties": {"z": true}}]),
                "$ref" => json!("#/$defs/a"),
                _ => branch,
            };
            Map::from_iter([(keyword.to_owned(), value)])
        })
    ]
}

fn part() -> impl Strategy<Value = Value> {
    leaf().prop_recursive(3, 24, 4, |part| {
        let part = part.boxed();
        let branches = vec(part.clone(), 1..4);
        prop_oneof![
            4 => object(part.clone()),
            2 => list(part.clone()),
            2 => (select(vec!["anyOf", "oneOf", "allOf"]), branches)
                .prop_map(|(keyword, branches)| json!({keyword: branches})),
            1 => tagged(part.clone()),
            1 => (select(vec!["not", "if", "contains", "propertyNames"]), part)
                .prop_map(|(keyword, part)| json!({keyword: part})),
        ]
    })
}

fn leaf() -> impl Strategy<Value = Value> {
    let plain = select(vec![
        json!({"type": "string"}),
        json!({"type": "string", "title": "T", "description": "D", "default": "x"}),
        json!({"type": "string", "enum": ["x", "y"]}),
        json!({"type": "string", "pattern": "^[a-z]+$"}),
        json!({"type": "string", "format": "date"}),
        json!({"type": "string", "format": "uri"}),
        json!({"type": "integer"}),
        json!({"type": "integer", "minimum": 1, "maximum": 9}),
        json!({"type": "number", "exclusiveMinimum": 0, "multipleOf": 0.5}),
        json!({"type": "boolean"}),
        json!({"type": "null"}),
        json!({"type": ["string", "null"]}),
        json!({"type": ["string", "null"], "default": null}),
        json!({"type": ["integer", "string", "boolean"], "maximum": 3}),
        json!({"anyOf": [{"type": "string"}, {"type": "null"}], "default": null}),
        json!({"const": "k"}),
        json!({"enum": [1, "one", null]}),
        json!({"enum": [1.5, 2, true]}),
    ]);
    let odd = select(vec![
        json!(true),
        json!(false),
        json!({}),
        json!({"type": "array"}),
        json!({"type": "object"}),
        json!({"type": "string", "minLength": 1}),
        json!({"type": "array", "uniqueItems": true, "items": {"type": "integer"}}),
        json!({"const": {"a": [1]}}),
        json!({"$ref": "#/$defs/a"}),
        json!({"$ref": "#/definitions/b c", "description": "D"}),
        json!({"$ref": "#/$defs/b c"}),
        json!({"$ref": "#"}),
        json!({"type": "array", "items": {"$ref": "#"}}),
    ]);
    prop_oneof![5 => plain, 1 => odd]
}

fn object(part: BoxedStrategy<Value>) -> impl Strategy<Value = Value> {
    let name = select(vec!["a", "b", "c", "kind", "filter[id]", "ä ö", "$top"]);
    let more = select(vec![
        Value::Null,
        Value::Null,
        Value::Null,
        json!(false),
        json!(true),
        json!({"type": "string"}),
    ]);
    let other = select(vec![
        ("x-own", json!(1)),
        ("title", json!("T")),
        ("minProperties", json!(1)),
        ("patternProperties", json!({"^x": {"type": "string"}})),
        ("unevaluatedProperties", json!(false)),
        ("dependentRequired", json!({"a": ["b"]})),
    ]);
    let other = prop_oneof![6 => Just(None), 1 => other.prop_map(Some)];
    (vec((name, part, any::<bool>()), 0..4), more, other).prop_map(|(members, more, other)| {
        let required: std::collections::BTreeSet<_> =
            members.iter().filter(|member| member.2).map(|member| member.0).collect();
        let properties: Map<_, _> =
            members.into_iter().map(|(name, schema, _)| (name.to_owned(), schema)).collect();
        let mut schema = json!({"type": "object", "properties": properties, "required": required});
        if !more.is_null() {
            schema["additionalProperties"] = more;
        }
        if let Some((keyword, value)) = other {
            schema[keyword] = value;
        }
        schema
    })
}

/// A choice between objects that a literal value tells apart.
fn tagged(part: BoxedStrategy<Value>) -> impl Strategy<Value = Value> {
    let branch = move |tag: &'static str| {
        object(part.clone()).prop_map(move |mut branch| {
            branch["properties"]["kind"] = json!({"const": tag});
            let mut names = branch["required"].as_array().cloned().unwrap_or_default();
            names.retain(|name| name != "kind");
            names.push(json!("kind"));
            branch["required"] = json!(names);
            branch
        })
    };
    (select(vec!["anyOf", "oneOf"]), branch("one"), branch("two"))
        .prop_map(|(keyword, one, two)| json!({keyword: [one, two]}))
}

fn list(part: BoxedStrategy<Value>) -> impl Strategy<Value = Value> {
    prop_oneof![
        4 => part.clone().prop_map(|items| json!({"type": "array", "items": items, "maxItems": 3})),
        1 => vec(part, 1..3).prop_map(|items| json!({"type": "array", "prefixItems": items})),
    ]
}

/// Numbers that look random and are the same each time.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn below(&mut self, count: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or(0) % count.max(1)
    }

    fn pick<'a>(&mut self, values: &'a [Value]) -> &'a Value {
        &values[self.below(values.len())]
    }
}

/// A value that fits a schema in strict mode, but for patterns and bounds, which it often meets.
pub(super) fn value_of(schema: &Value, root: &Value, dice: &mut Dice, left: usize) -> Value {
    let Some(left) = left.checked_sub(1) else { return Value::Null };
    if let Some(pointer) = schema["$ref"].as_str() {
        return value_of(root.pointer(&pointer[1..]).expect("it is there"), root, dice, left);
    }
    if let Some(branches) = schema["anyOf"].as_array() {
        // Near the end, what ends.
        let null = branches.iter().find(|branch| branch["type"] == "null" && left < 8);
        return value_of(null.unwrap_or(dice.pick(branches)), root, dice, left);
    }
    if let Some(values) = schema["enum"].as_array() {
        return dice.pick(values).clone();
    }

    let types = std::slice::from_ref(&schema["type"]);
    let types = schema["type"].as_array().map_or(types, Vec::as_slice);
    let is_null = left < 8 && types.iter().any(|kind| kind == "null");
    let kind = if is_null { "null" } else { dice.pick(types).as_str().unwrap_or_default() };
    match kind {
        "string" => dice.pick(&[json!("abc"), json!("x"), json!("2026-11-26"), json!("")]).clone(),
        "integer" => dice.pick(&[json!(1), json!(3), json!(-7), json!(9)]).clone(),
        "number" => dice.pick(&[json!(0.5), json!(2), json!(1.25)]).clone(),
        "boolean" => json!(dice.below(2) == 0),
        "array" => {
            let count = if left < 8 { 0 } else { dice.below(3) };
            (0..count).map(|_| value_of(&schema["items"], root, dice, left)).collect()
        }
        "object" => {
            let properties = schema["properties"].as_object().into_iter().flatten();
            let members =
                properties.map(|(name, schema)| (name.clone(), value_of(schema, root, dice, left)));
            Value::Object(members.collect())
        }
        _ => Value::Null,
    }
}
