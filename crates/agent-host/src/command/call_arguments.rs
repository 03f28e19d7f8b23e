//! The arguments of a call, as they stand on the command line: JSON, or pairs of name and value.

#[cfg(test)]
mod tests;

use std::io::Read as _;

use serde::de::IgnoredAny;
use serde_json::{Value, json};
use toolbus_tools::call::{ARGUMENTS_BYTES_MAX, ARGUMENTS_LIMITS};

/// Arguments that were given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CallArguments {
    /// JSON text, as it was written. Its limits were checked.
    Json(String),
    /// Names and values, which become JSON by the tool's schema.
    Pairs(Vec<(String, String)>),
}

impl CallArguments {
    /// Reads them: nothing, JSON text, `-` for standard input, or `NAME=VALUE` once or more.
    ///
    /// # Errors
    /// What is wrong with them.
    pub(super) async fn read(given: &[String]) -> Result<Self, String> {
        let text = match given {
            [] => return Ok(Self::Json("{}".to_owned())),
            // On a thread of its own, which is left alone when a signal comes first.
            [text] if text == "-" => tokio::task::spawn_blocking(from_stdin)
                .await
                .map_err(|error| format!("standard input cannot be read: {error}"))??,
            [text] if is_meant_as_json(text) => text.clone(),
            pairs => {
                let pairs = pairs.iter().map(|text| read_pair(text)).collect::<Result<_, _>>()?;
                return Ok(Self::Pairs(pairs));
            }
        };

        let check = toolbus_json::from_str::<IgnoredAny>(&text, &ARGUMENTS_LIMITS);
        check.map_err(|error| format!("the arguments are not JSON: {error}"))?;
        Ok(Self::Json(text))
    }

    /// Their JSON text for a tool with this schema. Numbers are as they were written.
    pub(super) fn to_json(&self, schema: Option<&Value>) -> String {
        let pairs = match self {
            Self::Json(text) => return text.clone(),
            Self::Pairs(pairs) => pairs,
        };
        let members = pairs.iter().map(|(name, value)| {
            let takes_text = schema.is_some_and(|schema| takes_only_text(schema, name));
            let is_json = toolbus_json::from_str::<IgnoredAny>(value, &ARGUMENTS_LIMITS).is_ok();
            let value =
                if is_json && !takes_text { value.clone() } else { json!(value).to_string() };
            format!("{}:{value}", json!(name))
        });
        format!("{{{}}}", members.collect::<Vec<_>>().join(","))
    }

    /// The text that one of them is, if it is one.
    pub(super) fn text_of(&self, name: &str) -> Option<String> {
        match self {
            Self::Json(text) => {
                let arguments: Value = toolbus_json::from_trusted(text).ok()?;
                arguments[name].as_str().map(str::to_owned)
            }
            Self::Pairs(pairs) => {
                pairs.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
            }
        }
    }

    /// The names of all of them; none where they are no object.
    pub(super) fn names(&self) -> Vec<String> {
        match self {
            Self::Json(text) => match toolbus_json::from_trusted(text) {
                Ok(Value::Object(members)) => members.into_iter().map(|(name, _)| name).collect(),
                _ => Vec::new(),
            },
            Self::Pairs(pairs) => pairs.iter().map(|(name, _)| name.clone()).collect(),
        }
    }
}

/// Whether one text alone stands for all arguments.
fn is_meant_as_json(text: &str) -> bool {
    let begins = text.trim_start().starts_with(['{', '[', '"']);
    begins || !text.contains('=')
}

fn read_pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(format!("the argument {text:?} is neither NAME=VALUE nor all arguments as JSON")),
    }
}

/// Whether the schema takes nothing but text for this argument.
fn takes_only_text(schema: &Value, name: &str) -> bool {
    let of = &schema["properties"][name];
    let is_text = |value: &Value| value.is_string();
    match &of["type"] {
        Value::String(kind) => kind == "string",
        _ => of["enum"].as_array().is_some_and(|values| values.iter().all(is_text)),
    }
}

fn from_stdin() -> Result<String, String> {
    let mut text = String::new();
    // One byte more than is allowed tells that there is more.
    let limit = ARGUMENTS_BYTES_MAX as u64 + 1;
    std::io::stdin()
        .take(limit)
        .read_to_string(&mut text)
        .map_err(|error| format!("standard input cannot be read: {error}"))?;

    if text.len() > ARGUMENTS_BYTES_MAX {
        return Err(format!("the arguments are over the limit of {ARGUMENTS_BYTES_MAX} bytes"));
    }

    Ok(text)
}
