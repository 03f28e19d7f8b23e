//! The table `data`, which gets its columns while rows come in.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use rusqlite::types::{ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, Statement};

use super::super::Refusal;
use super::internal;

/// Most columns, which is SQLite's own limit.
const COLUMNS_MAX: usize = 2_000;
/// Longest name of a column, in characters.
const NAME_CHARS_MAX: usize = 200;
/// The column of rows that are no objects.
pub(super) const VALUE_COLUMN: &str = "value";

/// What is in a column of a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Cell<'a> {
    Null,
    Integer(i64),
    Real(f64),
    /// UTF-8.
    Text(&'a str),
}

impl ToSql for Cell<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        let value = match self {
            Self::Null => ValueRef::Null,
            Self::Integer(number) => ValueRef::Integer(*number),
            Self::Real(number) => ValueRef::Real(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
        };
        Ok(ToSqlOutput::Borrowed(value))
    }
}

pub(super) struct Table<'c> {
    connection: &'c Connection,
    /// The columns by their names in SQL.
    names: Vec<String>,
    /// The same without a difference between upper and lower case, as SQLite has it.
    taken: HashSet<String>,
    /// The columns by the keys of the value.
    places: HashMap<Vec<u8>, usize>,
    /// The columns that the database knows.
    created: usize,
    insert: Option<Statement<'c>>,
    renamed: u64,
    /// What the reader of rows has to say.
    pub(super) remarks: Vec<String>,
}

impl<'c> Table<'c> {
    pub(super) fn new(connection: &'c Connection) -> Self {
        Self {
            connection,
            names: Vec::new(),
            taken: HashSet::new(),
            places: HashMap::new(),
            created: 0,
            insert: None,
            renamed: 0,
            remarks: Vec::new(),
        }
    }

    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = self.remarks.clone();
        if self.renamed > 0 {
            notes.push(format!("{} columns got a number behind their name", self.renamed));
        }
        notes
    }

    /// The column of a key, which is added if there is none.
    pub(super) fn column(&mut self, key: &[u8]) -> Result<usize, Refusal> {
        if let Some(place) = self.places.get(key) {
            return Ok(*place);
        }
        let name = String::from_utf8_lossy(key);
        let place = self.add_column(&name)?;
        self.places.insert(key.to_vec(), place);
        Ok(place)
    }

    /// Adds a column whose name may be taken.
    pub(super) fn add_column(&mut self, name: &str) -> Result<usize, Refusal> {
        if self.names.len() == COLUMNS_MAX {
            return Err(Refusal::Invalid(format!("the value has more than {COLUMNS_MAX} columns")));
        }

        let wanted: String =
            name.chars().filter(|char| *char != '\0').take(NAME_CHARS_MAX).collect();
        let mut unique = wanted.clone();
        let mut number = 1;
        while unique.is_empty() || !self.taken.insert(unique.to_ascii_lowercase()) {
            number += 1;
            unique = if wanted.is_empty() {
                format!("column_{}", self.names.len() + number - 1)
            } else {
                format!("{wanted}_{number}")
            };
        }
        self.renamed += u64::from(number > 1 && !wanted.is_empty());
        self.names.push(unique);
        Ok(self.names.len() - 1)
    }

    /// Adds a row. Where a column comes twice, the last one counts.
    pub(super) fn insert(&mut self, cells: &[(usize, Cell<'_>)]) -> Result<(), Refusal> {
        if self.created < self.names.len() || self.insert.is_none() {
            self.create_columns()?;
        }
        let Some(insert) = &mut self.insert else { return Ok(()) };

        insert.clear_bindings();
        for (place, cell) in cells {
            insert.raw_bind_parameter(place + 1, cell).map_err(internal)?;
        }
        insert.raw_execute().map_err(internal)?;
        Ok(())
    }

    /// Says that there are no more rows.
    pub(super) fn finish(&mut self) -> Result<(), Refusal> {
        if self.names.is_empty() {
            return Err(Refusal::Invalid("the value has no rows".to_owned()));
        }
        if self.created == 0 {
            self.create_columns()?;
        }
        self.insert = None;
        Ok(())
    }

    fn create_columns(&mut self) -> Result<(), Refusal> {
        if self.names.is_empty() {
            self.column(VALUE_COLUMN.as_bytes())?;
        }

        self.insert = None;
        let mut statements = String::new();
        let new = self.names[self.created..].iter().map(|name| quoted(name));
        if self.created == 0 {
            let columns = new.collect::<Vec<_>>().join(",");
            statements = format!("CREATE TABLE data ({columns})");
        } else {
            for column in new {
                // Writing to a string cannot fail.
                let _ = writeln!(statements, "ALTER TABLE data ADD COLUMN {column};");
            }
        }
        self.connection.execute_batch(&statements).map_err(internal)?;
        self.created = self.names.len();

        let places = vec!["?"; self.created].join(",");
        let insert = self.connection.prepare(&format!("INSERT INTO data VALUES ({places})"));
        self.insert = Some(insert.map_err(internal)?);
        Ok(())
    }
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
