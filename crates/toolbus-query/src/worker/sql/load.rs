//! Finds out what kind of rows a value has, and loads them.

use std::io::{Cursor, Read};

use rusqlite::Connection;
#[cfg(not(feature = "parquet"))]
use toolbus_config::build_features::{BuildFeature, LeftOut};

use super::super::source::Source;
use super::super::value_stream::ValueStream;
use super::super::{Refusal, Task};
#[cfg(feature = "parquet")]
use super::parquet_rows;
use super::table::Table;
use super::{csv_rows, internal, json_rows};
use crate::question::RowSource;

/// Bytes that are looked at to tell what the value is.
const BEGINNING_BYTES: usize = 4 << 10;
/// How Parquet begins.
const PARQUET: &[u8] = b"PAR1";

/// The beginning of a value, which was looked at, and the rest of it.
pub(super) type Whole = std::io::Chain<Cursor<Vec<u8>>, Source>;

/// Loads the value as the table `data`.
pub(super) fn load<'c>(
    connection: &'c Connection,
    wanted: Option<RowSource>,
    mut task: Task,
) -> Result<Table<'c>, Refusal> {
    let mut beginning = vec![0; BEGINNING_BYTES];
    let length = task.source.fill(&mut beginning)?;
    beginning.truncate(length);
    let kind = match wanted {
        Some(kind) => kind,
        None => guess(&beginning, task.media_type.as_deref())?,
    };

    let mut table = Table::new(connection);
    connection.execute_batch("BEGIN").map_err(internal)?;
    match kind {
        RowSource::Json => {
            let stream = ValueStream::after(beginning, task.source)?;
            json_rows::load(stream, &mut table)?;
        }
        #[cfg(not(feature = "parquet"))]
        RowSource::Parquet => return Err(refuse_parquet()),
        #[cfg(feature = "parquet")]
        RowSource::Parquet => parquet_rows::load(beginning, task.source, &mut table)?,
        RowSource::Csv | RowSource::Tsv => {
            let delimiter = delimiter(kind, &beginning);
            let whole = Cursor::new(beginning).chain(task.source);
            csv_rows::load(whole, delimiter, &mut table)?;
        }
    }
    table.finish()?;
    connection.execute_batch("COMMIT").map_err(internal)?;
    Ok(table)
}

#[cfg(not(feature = "parquet"))]
fn refuse_parquet() -> Refusal {
    Refusal::Invalid(LeftOut(BuildFeature::Parquet).to_string())
}

fn guess(beginning: &[u8], media_type: Option<&str>) -> Result<RowSource, Refusal> {
    let media_type = media_type.unwrap_or_default();
    if beginning.starts_with(PARQUET) {
        return Ok(RowSource::Parquet);
    }
    if super::super::text::is_binary(beginning) {
        return Err(Refusal::Invalid("the value is binary and has no rows".to_owned()));
    }

    let first = beginning.iter().find(|byte| !byte.is_ascii_whitespace());
    let json = media_type.contains("json") || matches!(first, Some(b'{' | b'['));
    if media_type.contains("tab-separated") {
        Ok(RowSource::Tsv)
    } else if json && !media_type.contains("csv") {
        Ok(RowSource::Json)
    } else {
        Ok(RowSource::Csv)
    }
}

/// What is between cells: the one of the usual that the header has most of.
fn delimiter(kind: RowSource, beginning: &[u8]) -> u8 {
    if kind == RowSource::Tsv {
        return b'\t';
    }
    let header = beginning.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let count = |delimiter: u8| memchr::memchr_iter(delimiter, header).count();
    // Of equals the last one is taken.
    [b'|', b'\t', b';', b','].into_iter().max_by_key(|delimiter| count(*delimiter)).unwrap_or(b',')
}

#[cfg(all(test, not(feature = "parquet")))]
mod tests;
