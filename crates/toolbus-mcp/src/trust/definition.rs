//! The definition of a tool in one canonical text, and its digest: what is pinned.
//!
//! Two definitions that mean the same have the same text, in whatever order their members come.
//! It is taken from what was cleaned, so it is what models have read.

use std::fmt::Write as _;

use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

/// A tool's definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Definition {
    /// SHA-256 of the text, in hexadecimal.
    pub(crate) digest: String,
    /// Canonical JSON.
    pub(crate) text: String,
}

impl Definition {
    /// The definition that these members make.
    pub(crate) fn new(members: Map<String, Value>) -> Self {
        let mut text = String::new();
        write_canonical(&Value::Object(members), &mut text);
        Self { digest: digest(text.as_bytes()), text }
    }
}

/// SHA-256 in hexadecimal.
pub(crate) fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::with_capacity(64), |mut hexadecimal, byte| {
        let _ = write!(hexadecimal, "{byte:02x}");
        hexadecimal
    })
}

/// Members by name, the names in `required` too: those are a set, and servers that keep them in
/// one list them in another order each time. Everything else keeps its order, which may mean
/// something. Values are as deep as the parser lets them be, which is not deep.
fn write_canonical(value: &Value, text: &mut String) {
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_unstable_by_key(|(name, _)| *name);
            write_enclosed(text, ['{', '}'], members, |(name, value), text| {
                text.push_str(&Value::from(name.as_str()).to_string());
                text.push(':');
                match value {
                    Value::Array(names) if name == "required" => write_set(names, text),
                    value => write_canonical(value, text),
                }
            });
        }
        Value::Array(items) => write_enclosed(text, ['[', ']'], items, write_canonical),
        plain => text.push_str(&plain.to_string()),
    }
}

fn write_set(items: &[Value], text: &mut String) {
    let mut items: Vec<String> = items
        .iter()
        .map(|item| {
            let mut text = String::new();
            write_canonical(item, &mut text);
            text
        })
        .collect();
    items.sort_unstable();
    write_enclosed(text, ['[', ']'], items, |item, text| text.push_str(&item));
}

fn write_enclosed<T>(
    text: &mut String,
    [open, close]: [char; 2],
    items: impl IntoIterator<Item = T>,
    write: impl Fn(T, &mut String),
) {
    text.push(open);
    for (index, item) in items.into_iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        write(item, text);
    }
    text.push(close);
}

#[cfg(test)]
mod tests;
