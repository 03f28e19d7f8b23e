//! Schemas of types, as callers of a tool see them.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Value, json};
use toolbus_tools::schema::hide_optional_nulls;

/// The schema of a tool's arguments. An optional one is told without null, which is read as not
/// given all the same. Whether it describes an object, and is within the bounds of
/// schemas, is for the registry to say.
pub(super) fn schema_of_arguments<A: JsonSchema>() -> Value {
    let mut schema = generate::<A>(schema_settings().for_deserialize().into_generator());
    hide_optional_nulls(&mut schema);
    // Some APIs of models want it there, be it empty.
    if let Value::Object(members) = &mut schema
        && members.get("type") == Some(&json!("object"))
    {
        members.entry("properties").or_insert_with(|| json!({}));
    }
    schema
}

/// The schema of a tool's structured output, where that is always an object.
pub(super) fn schema_of_output<R: JsonSchema>() -> Option<Value> {
    let schema = generate::<R>(schema_settings().for_serialize().into_generator());
    (schema.get("type") == Some(&json!("object"))).then_some(schema)
}

/// Without references, which not every model's API takes; only a type that holds itself has them.
fn schema_settings() -> SchemaSettings {
    SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    })
}

fn generate<T: JsonSchema>(generator: SchemaGenerator) -> Value {
    let mut schema = generator.into_root_schema_for::<T>();
    // The name and the comment of a Rust type say nothing to a caller; the tool has its own.
    schema.remove("title");
    schema.remove("description");
    schema.to_value()
}
