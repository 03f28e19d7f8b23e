//! Arguments of the memory's tools, as models write them.

use serde_json::{Map, Value};
use toolbus_tools::arguments::whole_number;

/// Forgives what models do to texts, lists and numbers: a value in place of its JSON text, a list
/// in place of a text with commas, a number as a text, and null for what is not given.
pub(crate) fn coerce(arguments: &mut Map<String, Value>) {
    arguments.retain(|_, value| !value.is_null());
    for (name, value) in arguments.iter_mut() {
        match (name.as_str(), &*value) {
            ("tags", Value::Array(tags)) => {
                let tags: Vec<_> = tags.iter().map(plain_text).collect();
                *value = Value::String(tags.join(","));
            }
            ("data" | "content" | "rule", Value::String(_)) => {}
            ("data" | "content" | "rule", other) => *value = Value::String(other.to_string()),
            ("ttl_minutes" | "offset", written) => {
                if let Some(number) = whole_number(written) {
                    *value = number.into();
                }
            }
            _ => {}
        }
    }
}

fn plain_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
