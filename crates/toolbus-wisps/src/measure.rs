//! How large a JSON value is, found without recursion: it may be nested by a stranger.

use serde_json::Value;

/// How large a value is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Size {
    /// Bytes of its texts and of the names of its members.
    pub(crate) bytes: usize,
    /// Values in it, itself among them.
    pub(crate) values: usize,
    /// How deep it is nested: 1 for a value without others in it.
    pub(crate) depth: usize,
}

/// Measures a value.
pub(crate) fn measure(value: &Value) -> Size {
    let mut size = Size::default();
    let mut open = vec![(value, 1)];
    while let Some((value, depth)) = open.pop() {
        size.values += 1;
        size.depth = size.depth.max(depth);
        match value {
            Value::String(text) => size.bytes += text.len(),
            Value::Array(items) => open.extend(items.iter().map(|item| (item, depth + 1))),
            Value::Object(members) => {
                size.bytes += members.keys().map(String::len).sum::<usize>();
                open.extend(members.values().map(|member| (member, depth + 1)));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    size
}

#[cfg(test)]
mod tests;
