//! Arguments of tools, as models write them.

use serde_json::{Map, Value};
use toolbus_tools::arguments::whole_number;

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
