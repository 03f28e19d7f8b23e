//! The settings file: TOML, read into entries that know their line.
//!
//! The text of a line is never repeated in an error: it may hold a secret.

use std::fs::File;
use std::io::Read;
use std::path::{Path as FilePath, PathBuf};

use serde_json::{Map, Number, Value};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::mistake::Mistake;
use super::origin::{Entry, Origin, PartOrigin};
use super::schema::Path;

/// Largest settings file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Most values of a settings file.
const VALUES_MAX: usize = 16 << 10;
/// Most line breaks, dots, commas, brackets, braces and equals signs of a settings file. The parser
/// makes something of each, before values can be counted. A value has a few of them.
const MARKS_MAX: usize = 8 * VALUES_MAX;
/// Deepest nesting of a settings file, in keys and positions within lists.
const DEPTH_MAX: usize = 64;
/// Most mistakes in the syntax of a file that are told one by one.
const SYNTAX_MISTAKES_MAX: usize = 100;

/// Which file is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettingsFile {
    /// None at all.
    None,
    /// This one, which must be there; `named_by` is the flag or the variable that names it.
    Required {
        /// The file.
        path: PathBuf,
        /// Such as `--config`.
        named_by: &'static str,
    },
    /// This one where it is there.
    IfPresent(PathBuf),
    /// This one, as if it held this text.
    Changed {
        /// The file.
        path: PathBuf,
        /// Its text.
        text: String,
    },
}

/// Reads the file's entries; syntax errors are reported, and a file with any has no entries.
pub(super) fn read(file: &SettingsFile, mistakes: &mut Vec<Mistake>) -> Vec<Entry> {
    let (path, named_by) = match file {
        SettingsFile::None => return Vec::new(),
        SettingsFile::Required { path, named_by } => (path, Some(*named_by)),
        SettingsFile::IfPresent(path) => (path, None),
        SettingsFile::Changed { path, text } => return parse(path, text, mistakes),
    };

    match text_of(path) {
        Ok(text) => parse(path, &text, mistakes),
        Err(error) if named_by.is_none() && error.kind() == std::io::ErrorKind::NotFound => {
            Vec::new()
        }
        Err(error) => {
            let what = format!("cannot be read: {error}");
            let origin = named_by.map(|name| Origin::Named(name.to_owned()));
            mistakes.push(Mistake::new(path.display().to_string(), what).given_by(origin));
            Vec::new()
        }
    }
}

fn text_of(path: &FilePath) -> std::io::Result<String> {
    let mut text = String::new();
    // Reading is bounded rather than the size looked at: a pipe has none.
    let length = File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
    if length as u64 > FILE_BYTES_MAX {
        return Err(std::io::Error::other(format!("it has more than {FILE_BYTES_MAX} bytes")));
    }
    Ok(text)
}

impl SettingsFile {
    /// Where it is, where there is one.
    #[must_use]
    pub fn path(&self) -> Option<&FilePath> {
        match self {
            Self::None => None,
            Self::Required { path, .. } | Self::IfPresent(path) | Self::Changed { path, .. } => {
                Some(path)
            }
        }
    }

    /// What it holds. A file that is not there holds nothing.
    ///
    /// # Errors
    /// When it cannot be read, or is too large.
    pub fn read_text(&self) -> std::io::Result<String> {
        match self {
            Self::None => Ok(String::new()),
            Self::Changed { text, .. } => Ok(text.clone()),
            Self::Required { path, .. } | Self::IfPresent(path) => match text_of(path) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
                read => read,
            },
        }
    }
}

pub(super) fn parse(path: &FilePath, text: &str, mistakes: &mut Vec<Mistake>) -> Vec<Entry> {
    let of_file = |what: String| Mistake::new(path.display().to_string(), what);
    if text.bytes().filter(is_mark).count() > MARKS_MAX {
        let marks = "lines, dots, commas, brackets and equals signs";
        mistakes.push(of_file(format!("has more than {MARKS_MAX} {marks}")));
        return Vec::new();
    }

    let (table, errors) = DeTable::parse_recoverable(text);
    let is_sound = errors.is_empty();
    let lines = Lines::of(text);

    for error in errors.iter().take(SYNTAX_MISTAKES_MAX) {
        let (line, column) = lines.line_and_column(error.span().map_or(0, |span| span.start));
        let place = format!("{}:{line}:{column}", path.display());
        mistakes.push(Mistake::new(place, error.message()));
    }
    if let Some(more @ 1..) = errors.len().checked_sub(SYNTAX_MISTAKES_MAX) {
        mistakes.push(of_file(format!("has {more} more mistakes in its syntax")));
    }
    if let Some(what) = find_excess(table.get_ref()) {
        mistakes.push(of_file(what));
        drop_flat(table.into_inner());
        return Vec::new();
    }

    let mut reader = FileReader { path, lines, entries: Vec::new(), mistakes };
    // What a broken file seems to say would only make mistakes that nobody made.
    if is_sound {
        reader.table(table.get_ref(), &mut Path::new());
    }

    reader.entries
}

fn is_mark(byte: &u8) -> bool {
    matches!(byte, b'\n' | b'.' | b',' | b'[' | b']' | b'{' | b'}' | b'=')
}

/// What a file has more of than is read.
fn find_excess(table: &DeTable<'_>) -> Option<String> {
    let mut count = 0;
    // Without recursion: dotted keys within tables within lists nest deeper than a stack may hold.
    let mut open: Vec<_> = table.values().map(|value| (1, value.get_ref())).collect();
    while let Some((depth, value)) = open.pop() {
        count += 1;
        if count > VALUES_MAX {
            return Some(format!("has more than {VALUES_MAX} values"));
        }
        if depth > DEPTH_MAX {
            return Some(format!("is nested more than {DEPTH_MAX} deep"));
        }

        match value {
            DeValue::Table(table) => {
                open.extend(table.values().map(|value| (depth + 1, value.get_ref())));
            }
            DeValue::Array(items) => {
                open.extend(items.iter().map(|item| (depth + 1, item.get_ref())));
            }
            _ => {}
        }
    }
    None
}

/// Drops values one by one, where each would drop those in it.
fn drop_flat(table: DeTable<'_>) {
    let mut open = vec![DeValue::Table(table)];
    while let Some(value) = open.pop() {
        match value {
            DeValue::Table(table) => {
                open.extend(table.into_iter().map(|(_, value)| value.into_inner()));
            }
            DeValue::Array(items) => open.extend(items.into_iter().map(Spanned::into_inner)),
            _ => {}
        }
    }
}

struct FileReader<'a> {
    path: &'a FilePath,
    lines: Lines<'a>,
    entries: Vec<Entry>,
    mistakes: &'a mut Vec<Mistake>,
}

impl FileReader<'_> {
    fn table(&mut self, table: &DeTable<'_>, path: &mut Path) {
        for (key, value) in table {
            path.push(key.get_ref().to_string());
            match value.get_ref() {
                DeValue::Table(inner) if !inner.is_empty() => self.table(inner, path),
                _ => self.read_leaf(key.span().start, value, path),
            }
            path.pop();
        }
    }

    fn read_leaf(&mut self, offset: usize, value: &Spanned<DeValue<'_>>, path: &Path) {
        let origin = self.origin(offset);
        let Some(json) = to_json(value.get_ref()) else {
            let mistake = Mistake::new(super::schema::key_of_path(path), "a number out of range");
            self.mistakes.push(mistake.given_by(Some(origin)));
            return;
        };

        let mut entry = Entry::new(path.clone(), json, origin);
        self.add_parts(value.get_ref(), &mut Path::new(), &mut entry.parts);
        self.entries.push(entry);
    }

    /// Adds where each item of a list is, and each key of an item.
    fn add_parts(&self, value: &DeValue<'_>, path: &mut Path, parts: &mut Vec<PartOrigin>) {
        let inner: Vec<(String, usize, &DeValue<'_>)> = match value {
            DeValue::Array(items) => items
                .iter()
                .enumerate()
                .map(|(position, item)| (position.to_string(), item.span().start, item.get_ref()))
                .collect(),
            DeValue::Table(table) => table
                .iter()
                .map(|(key, value)| (key.get_ref().to_string(), key.span().start, value.get_ref()))
                .collect(),
            _ => return,
        };

        for (key, offset, value) in inner {
            path.push(key);
            parts.push(PartOrigin { path: path.clone(), origin: self.origin(offset) });
            self.add_parts(value, path, parts);
            path.pop();
        }
    }

    fn origin(&self, offset: usize) -> Origin {
        Origin::File { path: self.path.to_owned(), line: self.lines.line(offset) }
    }
}

/// The value as JSON; `None` for a number that JSON or 64 bits cannot hold.
fn to_json(value: &DeValue<'_>) -> Option<Value> {
    Some(match value {
        DeValue::String(text) => Value::String(text.to_string()),
        DeValue::Boolean(flag) => Value::Bool(*flag),
        DeValue::Datetime(time) => Value::String(time.to_string()),
        DeValue::Integer(number) => {
            i64::from_str_radix(number.as_str(), number.radix()).ok()?.into()
        }
        DeValue::Float(number) => {
            Value::Number(Number::from_f64(number.as_str().parse::<f64>().ok()?)?)
        }

        DeValue::Array(items) => {
            Value::Array(items.iter().map(|item| to_json(item.get_ref())).collect::<Option<_>>()?)
        }
        DeValue::Table(table) => {
            let mut object = Map::new();
            for (key, value) in table {
                object.insert(key.get_ref().to_string(), to_json(value.get_ref())?);
            }
            Value::Object(object)
        }
    })
}

/// The lines of a text, to find a byte offset in.
struct Lines<'a> {
    text: &'a str,
    /// Where each line begins.
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    fn of(text: &'a str) -> Self {
        let after = text.match_indices('\n').map(|(newline, _)| newline + 1);
        Self { text, starts: std::iter::once(0).chain(after).collect() }
    }

    /// The line of a byte offset, counted from 1.
    fn line(&self, offset: usize) -> usize {
        self.starts.partition_point(|start| *start <= offset)
    }

    /// Line and column of a byte offset, both counted from 1, the column in characters.
    fn line_and_column(&self, offset: usize) -> (usize, usize) {
        let line = self.line(offset);
        let start = self.starts[line - 1];
        let before = self.text.get(start..offset).unwrap_or_default();
        (line, before.chars().count() + 1)
    }
}
