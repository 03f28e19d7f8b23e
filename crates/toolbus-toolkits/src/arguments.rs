//! Arguments of tools, as models write them.

use serde_json::{Map, Value};

/// The text of an argument; none where it is not given.
pub(crate) fn text<'a>(arguments: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    arguments.get(name).and_then(Value::as_str)
}

/// The number of an argument.
pub(crate) fn number(arguments: &Map<String, Value>, name: &str) -> Option<u64> {
    arguments.get(name).and_then(Value::as_u64)
}

/// Whether a switch is on.
pub(crate) fn is_on(arguments: &Map<String, Value>, name: &str) -> bool {
    arguments.get(name).and_then(Value::as_bool).unwrap_or_default()
}

/// Forgives what models do: null for what is not given, a JSON value in place of its text, and a
/// number or a switch as a text. What else does not fit stays for the check to refuse.
pub(crate) fn coerce(arguments: &mut Map<String, Value>) {
    arguments.retain(|_, value| !value.is_null());

    for (name, value) in arguments.iter_mut() {
        match (name.as_str(), &*value) {
            ("content", Value::Object(_) | Value::Array(_)) => {
                *value = Value::String(value.to_string());
            }
            ("offset" | "limit" | "context" | "max_matches" | "skip", written) => {
                if let Some(number) = whole_number(written) {
                    *value = number.into();
                }
            }
            ("replace_all" | "fixed" | "ignore_case" | "files_only", Value::String(text)) => {
                if let Ok(switch) = text.trim().to_ascii_lowercase().parse::<bool>() {
                    *value = switch.into();
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
