//! What a caller sees of a value that it gets by reference.

use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};
use toolbus_tools::ArtifactRef;

/// Longest preview, in bytes.
const PREVIEW_BYTES_MAX: usize = 512;
/// Members of an object that a summary names.
const NAMED_MEMBERS_MAX: usize = 20;
/// Longest name of a member in a summary, in bytes.
const NAME_BYTES_MAX: usize = 64;

/// The beginning of a text on one line, of at most `limit` bytes and the sign that there is more.
pub(crate) fn of_text(text: &str, limit: usize) -> String {
    let limit = limit.min(PREVIEW_BYTES_MAX);
    let mut preview = String::with_capacity(limit + '…'.len_utf8());
    // Not the whole of a text that is one word of 100 MB.
    let beginning = &text[..text.floor_char_boundary(limit.saturating_mul(4))];

    for word in beginning.split_whitespace() {
        if !preview.is_empty() {
            preview.push(' ');
        }
        preview.push_str(word);
        if preview.len() >= limit {
            break;
        }
    }
    preview.truncate(preview.floor_char_boundary(limit));
    preview.push('…');
    preview
}

/// What stands in the place of a value: its type, its length or its members, and where it is.
pub(crate) fn of_value(text: &str, reference: &ArtifactRef) -> Value {
    let mut summary = Map::new();
    summary.insert("$artifact".to_owned(), json!(reference.as_str()));
    let kind = match text.trim_start().as_bytes().first() {
        Some(b'{') => "object",
        Some(b'[') => "array",
        Some(b'"') => "string",
        Some(b't' | b'f') => "boolean",
        Some(b'n') => "null",
        _ => "number",
    };
    summary.insert("type".to_owned(), json!(kind));
    summary.insert("bytes".to_owned(), json!(text.len()));

    // The values themselves are not built, only counted.
    match kind {
        "array" => {
            if let Ok(items) = toolbus_json::from_checked::<Vec<IgnoredAny>>(text) {
                summary.insert("length".to_owned(), json!(items.len()));
            }
        }
        "object" => {
            if let Ok(members) = toolbus_json::from_checked::<Members>(text) {
                summary.insert("keys".to_owned(), json!(members.names));
                summary.insert("length".to_owned(), json!(members.count));
            }
        }
        _ => {}
    }
    Value::Object(summary)
}

/// The names of an object's first members, and how many it has.
struct Members {
    names: Vec<String>,
    count: usize,
}

impl<'de> serde::Deserialize<'de> for Members {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Members;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(
                self,
                mut map: A,
            ) -> Result<Members, A::Error> {
                let mut members = Members { names: Vec::new(), count: 0 };
                while let Some((mut name, _)) = map.next_entry::<String, IgnoredAny>()? {
                    members.count += 1;
                    if members.names.len() < NAMED_MEMBERS_MAX {
                        name.truncate(name.floor_char_boundary(NAME_BYTES_MAX));
                        members.names.push(name);
                    }
                }
                Ok(members)
            }
        }

        deserializer.deserialize_map(Visitor)
    }
}

#[cfg(test)]
mod tests;
