//! The effective settings as TOML that reads back, but for its secrets.

use std::fmt::Write;

use serde_json::{Map, Value};

use super::origin::{Origin, Origins};
use super::schema::{Path, dotted, toml_key};
use super::{Settings, values::MASK};

/// Prints `settings`, every value with its origin. Values that are not set are comments.
pub(super) fn print<T: Settings>(settings: &T, origins: &Origins) -> String {
    // A settings struct whose keys are texts always serialises; masks are part of its values.
    let values = serde_json::to_value(settings).unwrap_or_else(|_| Value::Object(Map::new()));
    let mut printer = Printer { origins, text: String::new() };
    if let Value::Object(table) = &values {
        printer.table(table, &mut Path::new());
    }
    printer.text
}

/// A value as TOML writes it; `None` for null.
pub(super) fn literal(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        _ => Some(toml::Value::try_from(value).map_or_else(|_| MASK.to_owned(), |v| v.to_string())),
    }
}

struct Printer<'a> {
    origins: &'a Origins,
    text: String,
}

impl Printer<'_> {
    fn table(&mut self, table: &Map<String, Value>, path: &mut Path) {
        for (key, value) in table.iter().filter(|(_, value)| !is_table(value)) {
            path.push(key.clone());
            self.line(key, value, path);
            path.pop();
        }
        for (key, value) in table {
            let Value::Object(inner) = value else { continue };
            if !is_table(value) {
                continue;
            }
            path.push(key.clone());
            if inner.values().any(|value| !is_table(value)) {
                let gap = if self.text.is_empty() { "" } else { "\n" };
                self.write(format_args!("{gap}[{}]\n", dotted(path)));
            }
            self.table(inner, path);
            path.pop();
        }
    }

    fn line(&mut self, key: &str, value: &Value, path: &Path) {
        let key = toml_key(key);
        let origin = self.origins.of(path).unwrap_or(&Origin::Default);
        match literal(value) {
            Some(literal) => self.write(format_args!("{key} = {literal}  # {origin}\n")),
            None => self.write(format_args!("# {key} is not set\n")),
        }
    }

    fn write(&mut self, text: std::fmt::Arguments<'_>) {
        self.text.write_fmt(text).expect("a string takes any text");
    }
}

/// A table with entries; an empty one is printed as a value.
fn is_table(value: &Value) -> bool {
    value.as_object().is_some_and(|table| !table.is_empty())
}
