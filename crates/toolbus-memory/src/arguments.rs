//! Arguments of the memory's tools, as models write them.

use serde_json::{Map, Value};

/// The text of an argument; none where it is not given, or null.
pub(crate) fn text<'a>(arguments: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    arguments.get(name).and_then(Value::as_str)
}

/// The number of an argument.
pub(crate) fn number(arguments: &Map<String, Value>, name: &str) -> Option<u64> {
    arguments.get(name).and_then(Value::as_u64)
}

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

/// The number that a text or a number with a point stands for, where it is a whole one.
fn whole_number(value: &Value) -> Option<u64> {
    match value {
        Value::String(text) => text.trim().parse().ok(),
        Value::Number(number) => {
            let number = number.as_f64().filter(|number| number.fract() == 0.0)?;
            // Numbers beyond are not exact, and are left as they are.
            (0.0..9e15).contains(&number).then_some(number as u64)
        }
        _ => None,
    }
}

fn plain_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
