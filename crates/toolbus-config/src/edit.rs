//! Changes of one value in the text of a settings file: its comments and its order stay.

use serde_json::Value as Json;
use toml_edit::{Array, DocumentMut, InlineTable, Item, Key, Table, TableLike, Value};

use super::Settings;
use super::environment::coerce;
use super::mistake::describe_unknown_key;
use super::schema::{self, Path};

/// Most keys that lead to a value.
const KEYS_MAX: usize = 16;

/// A text with another value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edited {
    /// The text.
    pub text: String,
    /// The key that was set, as mistakes name it.
    pub key: String,
    /// Whether its value, or a part of it, is a secret.
    pub is_secret: bool,
}

/// Why a value was not set. None of these texts shows it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EditError {
    /// The key cannot be read.
    #[error("'{0}' is no key such as bus.prefetch")]
    Key(String),
    /// The settings have no such key.
    #[error("{place}: {what}")]
    Unknown {
        /// The key.
        place: String,
        /// What is known there.
        what: String,
    },
    /// The text is not TOML.
    #[error("the file is not TOML: mend it by hand first")]
    NotToml,
    /// The value cannot be set so.
    #[error("{key}: {what}")]
    Value {
        /// The key.
        key: String,
        /// Why.
        what: &'static str,
    },
}

/// Sets the value at a key such as `bus.prefetch` in the text of a settings file. The value is
/// written as in the environment: the schema says how it is read. It is not checked here.
///
/// # Errors
/// When the settings have no such key, or the text cannot be changed.
pub fn set_value<T: Settings>(text: &str, key: &str, value: &str) -> Result<Edited, EditError> {
    let schema = schema::of::<T>();
    let path = path_of(key)?;
    check_path(&schema, &path)?;
    let nodes = schema::candidates(&schema, &path);
    let is_secret = nodes.iter().any(|node| schema::is_sensitive(node));
    let key = schema::key_of_path(&path);
    let wrong = |what| EditError::Value { key: key.clone(), what };

    let mut values: Vec<Json> = nodes.iter().map(|node| coerce(node, value)).collect();
    values.dedup();
    let json = match (values.pop(), values.is_empty()) {
        (Some(only), true) => only,
        _ => Json::String(value.to_owned()),
    };
    let written = to_toml(&json).ok_or_else(|| wrong("TOML has no such value"))?;

    let mut document: DocumentMut = text.parse().map_err(|_| EditError::NotToml)?;
    let (last, tables) = path.split_last().ok_or_else(|| EditError::Key(String::new()))?;
    let is_empty = document.as_table().is_empty();
    let table = open_table(document.as_table_mut(), tables, is_empty).map_err(wrong)?;
    put(table, last, written).map_err(wrong)?;
    Ok(Edited { text: document.to_string(), key, is_secret })
}

fn path_of(key: &str) -> Result<Path, EditError> {
    let wrong = || EditError::Key(key.chars().filter(|c| !c.is_control()).take(100).collect());
    let keys = Key::parse(key).map_err(|_| wrong())?;
    let path: Path = keys.iter().map(|key| key.get().to_owned()).collect();
    if path.is_empty() || path.len() > KEYS_MAX { Err(wrong()) } else { Ok(path) }
}

/// Finds the first key that the settings do not have.
fn check_path(schema: &Json, path: &[String]) -> Result<(), EditError> {
    for depth in 0..path.len() {
        if !schema::candidates(schema, &path[..=depth]).is_empty() {
            continue;
        }
        let node = schema::candidates(schema, &path[..depth]).into_iter().next();
        let place = schema::key_of_path(&path[..=depth]);
        let what = describe_unknown_key(node.unwrap_or(&Json::Null), &path[depth]);
        return Err(EditError::Unknown { place, what });
    }
    Ok(())
}

/// The table that these keys lead to; those that are missing are made, with headers of their own.
fn open_table<'a>(
    root: &'a mut Table,
    keys: &[String],
    is_first: bool,
) -> Result<&'a mut dyn TableLike, &'static str> {
    let mut table: &mut dyn TableLike = root;
    for (depth, key) in keys.iter().enumerate() {
        if !table.contains_key(key) {
            let mut made = Table::new();
            made.set_implicit(depth + 1 < keys.len());
            if !is_first {
                made.decor_mut().set_prefix("\n");
            }
            table.insert(key, Item::Table(made));
        }
        let item = table.get_mut(key).ok_or("it cannot be reached")?;
        if item.is_array_of_tables() || item.is_array() {
            return Err("it is in a list: change the file by hand");
        }
        table = item.as_table_like_mut().ok_or("what it is in is no table in the file")?;
    }
    Ok(table)
}

/// Puts a value into a table. What stands around one that was there stays.
fn put(table: &mut dyn TableLike, key: &str, mut value: Value) -> Result<(), &'static str> {
    match table.get_mut(key) {
        Some(Item::Value(before)) => {
            *value.decor_mut() = before.decor().clone();
            *before = value;
        }
        Some(Item::Table(_) | Item::ArrayOfTables(_)) => {
            return Err("it is a table in the file: set its keys one by one, or change the file");
        }
        _ => {
            table.insert(key, Item::Value(value));
        }
    }
    Ok(())
}

/// A value as TOML has it; `None` where it has none such.
fn to_toml(json: &Json) -> Option<Value> {
    Some(match json {
        Json::Null => return None,
        Json::Bool(flag) => (*flag).into(),
        Json::Number(number) => match number.as_i64() {
            Some(whole) => whole.into(),
            None if number.is_f64() => number.as_f64()?.into(),
            None => return None,
        },
        Json::String(text) => text.as_str().into(),
        Json::Array(items) => Value::Array(items.iter().map(to_toml).collect::<Option<Array>>()?),
        Json::Object(members) => {
            let mut table = InlineTable::new();
            for (name, member) in members {
                table.insert(name, to_toml(member)?);
            }
            Value::InlineTable(table)
        }
    })
}
