//! Arguments as APIs pass them on: text that ought to be a JSON object.

use serde_json::{Map, Value};

use crate::call_arguments::{raised, unreadable};
use crate::dialect::LoweredTool;
use crate::json_text::read_json;
use crate::message::CallArguments;

/// Arguments that were read.
#[derive(Debug)]
pub(crate) struct ReadArguments {
    pub(crate) arguments: CallArguments,
    /// The text, where the arguments would be written in another way.
    pub(crate) written: Option<String>,
}

/// Reads the arguments of a call of this tool; `None` where the model was not told of such a tool.
/// No text at all is an object without members.
pub(crate) fn read_arguments(text: String, tool: Option<&LoweredTool>) -> ReadArguments {
    let empty = || Value::Object(Map::new());
    let (object, text) = if text.trim().is_empty() {
        (Ok(empty()), None)
    } else {
        match read_json(&text) {
            Ok(object @ Value::Object(_)) => (Ok(object), Some(text)),
            Ok(Value::Null) => (Ok(empty()), None),
            // Some models write an object as a text, and that as JSON.
            Ok(Value::String(inner)) => match read_json(&inner) {
                Ok(object @ Value::Object(_)) => (Ok(object), None),
                _ => (Err("they are a text and not a JSON object".to_owned()), Some(text)),
            },
            Ok(other) => {
                (Err(format!("they are {} and not a JSON object", kind(&other))), Some(text))
            }
            Err(error) => (Err(format!("they are not JSON: {error}")), Some(text)),
        }
    };

    match object {
        Ok(object) => {
            let arguments = raised(object, tool);
            let again = arguments.value().map(Value::to_string);
            let written = text.filter(|text| again.as_ref() != Some(text));
            ReadArguments { arguments, written }
        }
        Err(problem) => {
            let arguments = unreadable(&text.unwrap_or_default(), &problem);
            ReadArguments { arguments, written: None }
        }
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests;
