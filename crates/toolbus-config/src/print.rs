//! The effective settings as TOML that reads back, but for its secrets.

use std::fmt::Write;

use serde_json::{Map, Value};

use super::origin::{Origin, Origins};
use super::schema::{Path, key_of_path, toml_key};
use super::{Settings, values::MASK};

/// Prints `settings`, every value with its origin. Values that are not set are comments.
pub(super) fn print<T: Settings>(settings: &T, origins: &Origins) -> String {
    // A settings struct whose keys are texts always serialises; masks are part of its values.
    let values = serde_json::to_value(settings).unwrap_or_else(|_| Value::Object(Map::new()));
    let mut printer = Printer { origins, text: String::new() };
    if let Value::Object(table) = &values {
        printer.table(table, &mut Path::new(), &mut Path::new());
    }
    printer.text
}

/// A value as TOML writes it; `None` for null.
pub(super) fn to_literal(value: &Value) -> Option<String> {
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
    /// Prints the values of a table, then the tables in it. `header` is the table's name in TOML,
    /// `path` where it is: within lists these differ.
    fn table(&mut self, table: &Map<String, Value>, header: &mut Path, path: &mut Path) {
        for (key, value) in table.iter().filter(|(_, value)| !is_section(value)) {
            path.push(key.clone());
            self.line(key, value, path);
            path.pop();
        }

        for (key, value) in table.iter().filter(|(_, value)| is_section(value)) {
            header.push(key.clone());
            path.push(key.clone());
            match value {
                Value::Object(inner) => self.write_section(inner, header, path),
                Value::Array(items) => self.list(items, header, path),
                _ => {}
            }
            path.pop();
            header.pop();
        }
    }

    fn write_section(&mut self, table: &Map<String, Value>, header: &mut Path, path: &mut Path) {
        if table.values().any(|value| !is_section(value)) {
            self.gap();
            self.write(format_args!("[{}]\n", key_of_path(header)));
        }
        self.table(table, header, path);
    }

    /// Prints a list of tables, each with a header of its own.
    fn list(&mut self, items: &[Value], header: &mut Path, path: &mut Path) {
        for (position, item) in items.iter().enumerate() {
            let Value::Object(table) = item else { continue };
            self.gap();
            self.write(format_args!("[[{}]]\n", key_of_path(header)));

            path.push(position.to_string());
            self.table(table, header, path);
            path.pop();
        }
    }

    fn line(&mut self, key: &str, value: &Value, path: &Path) {
        let key = toml_key(key);
        let origin = self.origins.of(path).unwrap_or(&Origin::Default);
        match to_literal(value) {
            Some(literal) => self.write(format_args!("{key} = {literal}  # {origin}\n")),
            None => self.write(format_args!("# {key} is not set\n")),
        }
    }

    /// Separates a table from what is above it.
    fn gap(&mut self) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
    }

    fn write(&mut self, text: std::fmt::Arguments<'_>) {
        self.text.write_fmt(text).expect("a string takes any text");
    }
}

/// Whether the value is printed below a header: a table, or a list of tables.
fn is_section(value: &Value) -> bool {
    match value {
        Value::Array(items) => !items.is_empty() && items.iter().all(is_table),
        _ => is_table(value),
    }
}

/// A table with entries; an empty one is printed as a value.
fn is_table(value: &Value) -> bool {
    value.as_object().is_some_and(|table| !table.is_empty())
}
