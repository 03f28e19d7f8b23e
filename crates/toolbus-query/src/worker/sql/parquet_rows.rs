//! Rows of Parquet.
//!
//! Its columns are found by their places in a file, so a stream is held as a whole. Dates, times
//! and decimals are text, as are nested columns, as JSON.

use std::borrow::Cow;
use std::io::Read as _;
use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::Bytes;
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::reader::{ChunkReader, FileReader as _, Length, SerializedFileReader};
use parquet::record::{Field, Row};
use serde_json::Value;

use super::super::source::Source;
use super::super::{Refusal, bounded};
use super::json_rows::number;
use super::table::{Cell, Table};

/// Loads the rows. `beginning` is what was read of the source already.
pub(super) fn load(
    beginning: Vec<u8>,
    mut source: Source,
    table: &mut Table<'_>,
) -> Result<(), Refusal> {
    // The decoder panics at some of what is wrong with a file.
    let loaded = catch_unwind(AssertUnwindSafe(|| {
        if source.file_size().is_some() {
            return load_from(SourceChunks(source), table);
        }
        let mut whole = beginning;
        source.read_to_end(&mut whole)?;
        load_from(Bytes::from(whole), table)
    }));
    loaded.unwrap_or_else(|_| Err(damaged("it makes no sense")))
}

fn load_from(chunks: impl ChunkReader + 'static, table: &mut Table<'_>) -> Result<(), Refusal> {
    load_rows(chunks, table, usize::MAX)
}

fn load_rows(
    chunks: impl ChunkReader + 'static,
    table: &mut Table<'_>,
    rows_max: usize,
) -> Result<(), Refusal> {
    let reader = SerializedFileReader::new(chunks).map_err(damaged)?;
    for column in reader.metadata().file_metadata().schema().get_fields() {
        table.column(column.name().as_bytes())?;
    }

    for row in reader.get_row_iter(None).map_err(damaged)?.take(rows_max) {
        insert(&row.map_err(damaged)?, table)?;
    }
    Ok(())
}

fn damaged(error: impl std::fmt::Display) -> Refusal {
    Refusal::Invalid(bounded::message(format_args!("the Parquet cannot be read: {error}")))
}

fn insert(row: &Row, table: &mut Table<'_>) -> Result<(), Refusal> {
    let texts: Vec<Cow<'_, str>> = row.get_column_iter().map(|(_, field)| text_of(field)).collect();
    let mut cells = Vec::with_capacity(texts.len());
    for ((name, field), text) in row.get_column_iter().zip(&texts) {
        cells.push((table.column(name.as_bytes())?, cell(field, text)));
    }
    table.insert(&cells)
}

/// The text of what is kept as text.
fn text_of(field: &Field) -> Cow<'_, str> {
    match field {
        Field::Str(text) => Cow::Borrowed(text),
        Field::Null | Field::Bool(_) | Field::Int(_) | Field::Long(_) | Field::Double(_) => {
            Cow::Borrowed("")
        }
        other => match other.to_json_value() {
            Value::String(text) => Cow::Owned(text),
            value => Cow::Owned(value.to_string()),
        },
    }
}

fn cell<'a>(field: &Field, text: &'a str) -> Cell<'a> {
    match field {
        Field::Null => Cell::Null,
        Field::Bool(value) => Cell::Integer((*value).into()),
        Field::Int(value) => Cell::Integer((*value).into()),
        Field::Long(value) => Cell::Integer(*value),
        Field::Double(value) => Cell::Real(*value),
        Field::Float(value) => Cell::Real((*value).into()),
        Field::Float16(value) => Cell::Real((*value).into()),
        Field::Byte(_) | Field::Short(_) | Field::UByte(_) => number(text),
        Field::UShort(_) | Field::UInt(_) | Field::ULong(_) => number(text),
        _ => Cell::Text(text),
    }
}

/// A value that is a file.
struct SourceChunks(Source);

impl Length for SourceChunks {
    fn len(&self) -> u64 {
        self.0.file_size().unwrap_or_default()
    }
}

impl ChunkReader for SourceChunks {
    type T = Source;

    fn get_read(&self, start: u64) -> ParquetResult<Source> {
        let mut source = self.0.clone();
        source.skip_to(start)?;
        Ok(source)
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        let end = start.saturating_add(length as u64);
        if end > self.len() {
            return Err(ParquetError::EOF(format!("there is no byte {end}")));
        }
        let mut bytes = vec![0; length];
        self.get_read(start)?.read_exact(&mut bytes)?;
        Ok(bytes.into())
    }
}

/// Loads the first rows: a few bytes may stand for very many. What panics in [`load`] does here.
#[cfg(feature = "fuzzing")]
pub(crate) fn fuzz(bytes: &[u8], rows_max: usize) {
    let connection = super::open().expect("a database in memory");
    let mut table = Table::new(&connection);
    let chunks = Bytes::copy_from_slice(bytes);
    let _ = catch_unwind(AssertUnwindSafe(|| load_rows(chunks, &mut table, rows_max)));
}
