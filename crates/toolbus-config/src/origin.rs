//! Values on their way together: what each layer gives, merged so that a later layer wins, with
//! where every value came from.
//!
//! Tables are merged key by key; anything else replaces what was there, arrays too.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Bound;
use std::path::PathBuf;

use serde_json::{Map, Value};

use super::schema::Path;

/// Where a value comes from, as a person would look for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Nobody set it.
    Default,
    /// A line of a settings file.
    File {
        /// The file as it was named.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
    },
    /// An environment variable or a command-line flag, by its name.
    Named(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Named(name) => f.write_str(name),
        }
    }
}

/// One value of a layer.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) path: Path,
    pub(super) value: Value,
    pub(super) origin: Origin,
    /// Where parts of the value come from, by their path within it: the items of a list in a file
    /// have lines of their own.
    pub(super) parts: Vec<PartOrigin>,
    /// Whether the value is text that is read when the merged settings say of which type it is.
    pub(super) is_unread: bool,
}

/// Where a part of a value comes from.
#[derive(Debug)]
pub(super) struct PartOrigin {
    pub(super) path: Path,
    pub(super) origin: Origin,
}

impl Entry {
    /// A value of one origin.
    pub(super) fn new(path: Path, value: Value, origin: Origin) -> Self {
        Self { path, value, origin, parts: Vec::new(), is_unread: false }
    }
}

/// All layers so far.
#[derive(Debug, Default)]
pub(super) struct Merged {
    values: Map<String, Value>,
    origins: BTreeMap<Path, Origin>,
    /// Where text is that is still to be read.
    unread: BTreeSet<Path>,
}

impl Merged {
    /// Puts `entry` over what is there; a table is merged key by key.
    pub(super) fn put(&mut self, entry: Entry) {
        match entry.value {
            Value::Object(table) if !table.is_empty() => {
                for (key, value) in table {
                    let mut path = entry.path.clone();
                    path.push(key);
                    self.put(Entry::new(path, value, entry.origin.clone()));
                }
            }
            _ => self.put_leaf(entry),
        }
    }

    fn put_leaf(&mut self, entry: Entry) {
        let Some((last, tables)) = entry.path.split_last() else { return };
        let mut table = &mut self.values;
        for key in tables {
            let slot = table.entry(key.clone()).or_insert_with(|| Value::Object(Map::new()));
            if !slot.is_object() {
                *slot = Value::Object(Map::new());
            }
            let Value::Object(inner) = slot else { return };
            table = inner;
        }
        table.insert(last.clone(), entry.value);

        self.forget(&entry.path);
        for part in entry.parts {
            self.origins.insert([&entry.path[..], &part.path].concat(), part.origin);
        }
        if entry.is_unread {
            self.unread.insert(entry.path.clone());
        }
        self.origins.insert(entry.path, entry.origin);
    }

    /// Forgets what a value at this path replaces: what is in it, and what it is in.
    fn forget(&mut self, path: &[String]) {
        for length in 1..path.len() {
            self.origins.remove(&path[..length]);
            self.unread.remove(&path[..length]);
        }
        while let Some(inner) = first_below(&self.origins, path).map(|(inner, _)| inner.clone()) {
            self.origins.remove(&inner);
        }

        let below = self.unread.range::<[String], _>(onwards(path));
        let below: Vec<_> = below.take_while(|inner| inner.starts_with(path)).cloned().collect();
        for inner in below {
            self.unread.remove(&inner);
        }
    }

    /// The values of all layers as one object. `read` reads text whose type depends on other
    /// values: it is given all of them, the path and the text.
    pub(super) fn into_parts(
        self,
        read: impl Fn(&Value, &Path, &str) -> Value,
    ) -> (Value, Origins) {
        let mut values = Value::Object(self.values);
        for path in self.unread {
            let place = path.iter().try_fold(&values, |value, key| value.get(key));
            let Some(Value::String(text)) = place else { continue };
            let value = read(&values, &path, text);

            let place = path.iter().try_fold(&mut values, |value, key| value.get_mut(key));
            if let Some(place) = place {
                *place = value;
            }
        }
        (values, Origins(self.origins))
    }
}

/// Everything from this path on, in which what is below it comes first.
fn onwards(path: &[String]) -> (Bound<&[String]>, Bound<&[String]>) {
    (Bound::Included(path), Bound::Unbounded)
}

/// The first origin at this path or below it.
fn first_below<'a>(
    origins: &'a BTreeMap<Path, Origin>,
    path: &[String],
) -> Option<(&'a Path, &'a Origin)> {
    let mut rest = origins.range::<[String], _>(onwards(path));
    rest.next().filter(|(inner, _)| inner.starts_with(path))
}

/// Where every value that was set came from.
#[derive(Debug, Clone, Default)]
pub(super) struct Origins(BTreeMap<Path, Origin>);

impl Origins {
    /// Every origin by its name: files, then variables and arguments.
    pub(super) fn sources(&self) -> Vec<String> {
        let mut files = BTreeSet::new();
        let mut names = BTreeSet::new();
        for origin in self.0.values() {
            match origin {
                Origin::Default => {}
                Origin::File { path, .. } => drop(files.insert(path.display().to_string())),
                Origin::Named(name) => drop(names.insert(name.clone())),
            }
        }
        files.into_iter().chain(names).collect()
    }

    /// The origin of the value at `path`: its own, else that of the value it is a part of, else
    /// that of its first part. `None` when nobody set any of these.
    pub(super) fn of(&self, path: &[String]) -> Option<&Origin> {
        let own_or_whole = (1..=path.len()).rev().find_map(|length| self.0.get(&path[..length]));

        own_or_whole.or_else(|| first_below(&self.0, path).map(|(_, origin)| origin))
    }
}
