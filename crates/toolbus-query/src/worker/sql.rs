//! What a SQL statement makes of rows, by SQLite.
//!
//! The value becomes the table `data` of a database in memory. Then the database is closed to
//! everything but reading, thrice: by SQLite's own switch, by an authorizer that is asked while a
//! statement is compiled, and by the word that a statement begins with.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rusqlite::config::DbConfig;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode, Row, Statement};

use super::bounded::{self, BoundedBytes, Pieces};
use super::text::lossy;
use super::{Refusal, Task};
use crate::question::{RowFormat, Sql};
use crate::{Answer, More};

mod csv_rows;
mod json_rows;
mod load;
#[cfg(feature = "parquet")]
pub(crate) mod parquet_rows;
mod table;

use table::Table;

/// Longest text or blob, and longest row.
const CELL_BYTES_MAX: i32 = 64 << 20;
/// How many columns an error lists.
const LISTED_COLUMNS: usize = 50;
/// What a statement may begin with.
const FIRST_WORDS: [&str; 3] = ["SELECT", "WITH", "EXPLAIN"];
/// Functions that are not for statements of strangers.
const REFUSED_FUNCTIONS: [&str; 2] = ["load_extension", "fts3_tokenizer"];
/// How SQLite writes a number that JSON has no word for.
const INFINITE: &str = "9e999";

pub(super) fn answer(sql: &Sql, task: Task) -> Result<Answer, Refusal> {
    let first = first_word(&sql.statement);
    if !FIRST_WORDS.iter().any(|word| first.eq_ignore_ascii_case(word)) {
        let words = FIRST_WORDS.join(", ");
        return Err(Refusal::Invalid(format!("a statement begins with one of {words}")));
    }

    let answer_bytes = task.answer_bytes;
    let connection = open().map_err(internal)?;
    let table = load::load(&connection, sql.source, task)?;
    close_for_writing(&connection).map_err(internal)?;

    let prepared = connection.prepare(&sql.statement);
    let mut statement = prepared.map_err(|error| explain(error, &table))?;
    if !statement.readonly() {
        return Err(Refusal::Invalid("the statement would write".to_owned()));
    }
    let mut answer = show_rows(&mut statement, sql.format, answer_bytes, &table)?;
    answer.notes.extend(table.notes());
    Ok(answer)
}

fn open() -> rusqlite::Result<Connection> {
    let connection = Connection::open_in_memory()?;
    connection.execute_batch(
        "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA temp_store = MEMORY;",
    )?;
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, CELL_BYTES_MAX)?;
    connection.set_limit(Limit::SQLITE_LIMIT_WORKER_THREADS, 0)?;
    Ok(connection)
}

fn close_for_writing(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.execute_batch("PRAGMA query_only = ON")?;
    connection.authorizer(Some(authorize))
}

fn authorize(context: AuthContext<'_>) -> Authorization {
    match context.action {
        AuthAction::Select | AuthAction::Read { .. } | AuthAction::Recursive => {
            Authorization::Allow
        }
        AuthAction::Function { function_name } => {
            let refused = |name: &&str| function_name.eq_ignore_ascii_case(name);
            if REFUSED_FUNCTIONS.iter().any(refused) {
                Authorization::Deny
            } else {
                Authorization::Allow
            }
        }
        _ => Authorization::Deny,
    }
}

/// The word that a statement begins with, after comments.
fn first_word(statement: &str) -> &str {
    let mut rest = statement.trim_start();
    loop {
        let comment = if rest.starts_with("--") {
            rest.find('\n')
        } else if rest.starts_with("/*") {
            rest.find("*/").map(|at| at + 1)
        } else {
            break;
        };
        let Some(end) = comment else { return "" };
        rest = rest[end + 1..].trim_start();
    }
    let end = rest.find(|char: char| !char.is_ascii_alphabetic()).unwrap_or(rest.len());
    &rest[..end]
}

fn show_rows(
    statement: &mut Statement<'_>,
    format: RowFormat,
    answer_bytes: usize,
    table: &Table<'_>,
) -> Result<Answer, Refusal> {
    let names = unique_names(statement);
    // The brackets around rows, or the header.
    let header = match format {
        RowFormat::Json => "[".to_owned(),
        RowFormat::Csv => csv_line(names.iter().map(String::as_bytes)),
    };
    let mut pieces = Pieces::new(answer_bytes.saturating_sub("]\n".len()));

    let mut rows = statement.raw_query();
    let mut has_more = !pieces.push_uncounted(&header);
    while !has_more {
        let Some(row) = rows.next().map_err(|error| explain(error, table))? else { break };
        let piece = match format {
            RowFormat::Json => {
                let separator = if pieces.count() == 0 { "" } else { ",\n" };
                format!("{separator}{}", json_row(row, &names, answer_bytes))
            }
            RowFormat::Csv => csv_row(row, names.len(), answer_bytes),
        };
        has_more = !pieces.push(&piece);
    }

    let shown = pieces.count();
    let more = has_more.then(|| More {
        hint: format!(
            "{shown} rows are shown; select less, or go on with LIMIT and OFFSET {shown}"
        ),
        skip: Some(shown),
        ..More::default()
    });
    let mut answer = pieces.into_answer(more);
    if format == RowFormat::Json {
        answer.text.push_str("]\n");
    }
    Ok(answer)
}

/// The names of the columns of a result, each once.
fn unique_names(statement: &Statement<'_>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for name in statement.column_names() {
        let mut unique = name.to_owned();
        let mut number = 1;
        while names.contains(&unique) {
            number += 1;
            unique = format!("{name}:{number}");
        }
        names.push(unique);
    }
    names
}

/// A row as an object, no longer than what can be shown.
fn json_row(row: &Row<'_>, names: &[String], max: usize) -> String {
    let mut object = BoundedBytes::new(max + 1);
    // Fails when it is too long to be shown as a whole.
    let _ = write_json_row(&mut object, row, names);
    lossy(&object.bytes).0.into_owned()
}

fn write_json_row(
    mut to: &mut BoundedBytes,
    row: &Row<'_>,
    names: &[String],
) -> std::io::Result<()> {
    use std::io::Write as _;

    for (at, name) in names.iter().enumerate() {
        to.write_all(if at == 0 { b"{" } else { b"," })?;
        serde_json::to_writer(&mut to, name)?;
        to.write_all(b":")?;
        match row.get_ref(at).unwrap_or(ValueRef::Null) {
            ValueRef::Null => to.write_all(b"null")?,
            ValueRef::Integer(number) => write!(to, "{number}")?,
            ValueRef::Real(number) => to.write_all(real(number).as_bytes())?,
            ValueRef::Text(text) => serde_json::to_writer(&mut to, &lossy(text).0)?,
            ValueRef::Blob(bytes) => serde_json::to_writer(&mut to, &STANDARD.encode(bytes))?,
        }
    }
    to.write_all(b"}")
}

fn csv_row(row: &Row<'_>, columns: usize, max: usize) -> String {
    let cells = (0..columns).map(|at| match row.get_ref(at).unwrap_or(ValueRef::Null) {
        ValueRef::Null => Vec::new(),
        ValueRef::Integer(number) => number.to_string().into_bytes(),
        ValueRef::Real(number) => real(number).into_bytes(),
        ValueRef::Text(text) => text[..text.len().min(max + 1)].to_vec(),
        ValueRef::Blob(bytes) => STANDARD.encode(bytes).into_bytes(),
    });
    csv_line(cells)
}

fn csv_line(cells: impl Iterator<Item = impl AsRef<[u8]>>) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    // Writing to memory cannot fail, and a record of one writer has as many cells as it has.
    let _ = writer.write_record(cells);
    let bytes = writer.into_inner().unwrap_or_default();
    lossy(&bytes).0.into_owned()
}

/// A real number such that it stays one.
fn real(number: f64) -> String {
    if number.is_infinite() {
        let sign = if number < 0.0 { "-" } else { "" };
        return format!("{sign}{INFINITE}");
    }
    // As short as it can be, with a point.
    format!("{number:?}")
}

/// What is wrong with a statement, and where; with the columns that there are, where one of them
/// may have been meant.
fn explain(error: rusqlite::Error, table: &Table<'_>) -> Refusal {
    let code = error.sqlite_error_code();
    if code == Some(ErrorCode::OutOfMemory) {
        return Refusal::OutOfMemory;
    }

    let mut message = match &error {
        rusqlite::Error::SqlInputError { msg, sql, offset, .. } => {
            let place = usize::try_from(*offset).ok().and_then(|offset| sql.get(..offset));
            match place {
                Some(before) => {
                    format!("the statement, character {}: {msg}", before.chars().count() + 1)
                }
                None => format!("the statement: {msg}"),
            }
        }
        rusqlite::Error::SqliteFailure(_, Some(message)) => format!("the statement: {message}"),
        rusqlite::Error::MultipleStatement => "there is more than one statement".to_owned(),
        other => format!("the statement: {other}"),
    };
    message = bounded::message(message);

    if code == Some(ErrorCode::AuthorizationForStatementDenied) {
        message.push_str("; statements may only read");
    }
    if message.contains("no such") {
        let names = table.names();
        let listed = names.iter().take(LISTED_COLUMNS).map(String::as_str).collect::<Vec<_>>();
        // Writing to a string cannot fail.
        let _ = write!(message, "; the table data has the columns {}", listed.join(", "));
        if names.len() > LISTED_COLUMNS {
            let _ = write!(message, " and {} more", names.len() - LISTED_COLUMNS);
        }
    }
    Refusal::Invalid(message)
}

/// What went wrong before there was a statement of the caller's.
fn internal(error: rusqlite::Error) -> Refusal {
    match error.sqlite_error_code() {
        Some(ErrorCode::OutOfMemory) => Refusal::OutOfMemory,
        Some(ErrorCode::TooBig) => {
            Refusal::Invalid(format!("a row is longer than {CELL_BYTES_MAX} bytes"))
        }
        _ => Refusal::Failed(bounded::message(error)),
    }
}
