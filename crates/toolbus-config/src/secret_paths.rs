//! Files of secrets in settings, found by the names of their keys.

use std::path::PathBuf;

use serde::Serialize;
use serde_json::Value;

#[cfg(test)]
mod tests;

/// Returns the files of passwords, keys and tokens in settings: values of keys that end with
/// `_file`, and all values in tables whose keys end with `_files`.
#[must_use]
pub fn secret_paths(settings: &impl Serialize) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    // A settings struct with string keys always serializes.
    if let Ok(settings) = serde_json::to_value(settings) {
        collect_paths("", &settings, &mut paths);
    }
    paths
}

/// Adds the paths in the value of a key.
fn collect_paths(key: &str, value: &Value, paths: &mut Vec<PathBuf>) {
    const OF_FILE: &str = "_file";
    let holds_files = key.ends_with("_files");

    match value {
        Value::String(path) if key.ends_with(OF_FILE) => paths.push(path.into()),
        Value::Object(members) => {
            for (name, member) in members {
                let key = if holds_files { OF_FILE } else { name.as_str() };
                collect_paths(key, member, paths);
            }
        }
        Value::Array(items) => {
            for item in items {
                let key = if holds_files { OF_FILE } else { key };
                collect_paths(key, item, paths);
            }
        }
        _ => {}
    }
}
