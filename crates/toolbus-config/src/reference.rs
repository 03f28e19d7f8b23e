//! The reference page of a settings struct, from its schema and doc comments.

use std::fmt::Write;

use serde_json::Value;

use super::environment::{self, Alias};
use super::schema::{self, ANY_ITEM, ANY_KEY, Leaf};
use super::values::FORMATS;
use super::{Settings, print};

/// A Markdown page: one table of every key, and one of the other names that are read.
#[must_use]
pub fn reference<T: Settings>(title: &str, aliases: &[Alias]) -> String {
    let schema = schema::of::<T>();
    let defaults = serde_json::to_value(T::default()).unwrap_or(Value::Null);
    let mut page = format!(
        "# {title}\n\n\
         Later wins: defaults, the file `toolbus.toml`, the environment, the command line.\n\n\
         | key | environment | type | default | meaning |\n|---|---|---|---|---|\n"
    );

    for leaf in schema::list_leaves(&schema) {
        let variable = if leaf.is_in_list() {
            String::new()
        } else {
            as_code(&environment::name_of(&leaf.path))
        };
        let cells = [
            as_code(&schema::key_of_path(&leaf.path)),
            variable,
            type_name(leaf.node),
            default_of(&defaults, &leaf.path),
            describe_leaf(&leaf),
        ];
        push_row(&mut page, &cells);
    }

    let known: Vec<&Alias> = aliases.iter().filter(|alias| is_known(&schema, alias)).collect();
    if !known.is_empty() {
        page.push_str(
            "\nRead below the names above, a later line winning over an earlier one:\n\n\
             | environment | key |\n|---|---|\n",
        );
        known
            .iter()
            .for_each(|alias| push_row(&mut page, &[as_code(alias.name), as_code(alias.key)]));
    }

    page
}

fn is_known(schema: &Value, alias: &Alias) -> bool {
    !schema::candidates(schema, &schema::path_of_key(alias.key)).is_empty()
}

fn default_of(defaults: &Value, path: &[String]) -> String {
    if path.iter().any(|key| key == ANY_KEY || key == ANY_ITEM) {
        return String::new();
    }
    let value = path.iter().try_fold(defaults, |value, key| value.get(key));
    value.and_then(print::to_literal).map_or_else(|| "not set".to_owned(), |text| as_code(&text))
}

fn type_name(node: &Value) -> String {
    let text = |key| node.get(key).and_then(Value::as_str).unwrap_or_default();
    if let Some(options) = node.get("enum").and_then(Value::as_array) {
        let options: Vec<String> = options.iter().filter_map(Value::as_str).map(as_code).collect();
        return options.join(" or ");
    }

    if let Some(known) = FORMATS.iter().find(|known| known.name == text("format")) {
        return format!("{}, such as {}", known.what, as_code(known.examples[0]));
    }

    let base = match schema::type_of(node) {
        "array" => {
            let items = node.get("items").map(type_name).unwrap_or_default();
            return format!("list of {items}");
        }
        "string" if schema::is_sensitive(node) => return "secret text".to_owned(),
        "string" => "text",
        "integer" => "whole number",
        "boolean" => "true or false",
        "object" => "table",
        other => other,
    };

    match (node.get("minimum"), node.get("maximum")) {
        (Some(least), Some(most)) => format!("{base}, {least} to {most}"),
        (Some(least), None) => format!("{base}, at least {least}"),
        (None, Some(most)) => format!("{base}, at most {most}"),
        (None, None) => base.to_owned(),
    }
}

/// What the doc comment says, and with which variants the key is there.
fn describe_leaf(leaf: &Leaf<'_>) -> String {
    let description = one_line(schema::description(leaf.node));
    let Some(choice) = &leaf.only_with else { return description };

    let variants: Vec<String> = choice.variants.iter().map(|name| as_code(name)).collect();
    let condition = format!("Where {} is {}.", as_code(choice.tag), variants.join(" or "));
    format!("{condition} {description}").trim_end().to_owned()
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn as_code(text: &str) -> String {
    format!("`{text}`")
}

fn push_row(page: &mut String, cells: &[String]) {
    let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
    writeln!(page, "| {} |", cells.join(" | ")).expect("a string takes any text");
}
