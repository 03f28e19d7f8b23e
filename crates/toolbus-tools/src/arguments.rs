//! Arguments of tools, as models write them.

use serde_json::{Map, Value};

/// The text of an argument; none where it is not given, or is no text.
#[must_use]
pub fn text<'a>(arguments: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    arguments.get(name).and_then(Value::as_str)
}

/// The whole number of an argument that is not negative.
#[must_use]
pub fn number(arguments: &Map<String, Value>, name: &str) -> Option<u64> {
    arguments.get(name).and_then(Value::as_u64)
}

/// The number that a text or a number with a point stands for, where it is a whole one.
#[must_use]
pub fn whole_number(value: &Value) -> Option<u64> {
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
