//! Rows of JSON: objects one after the other, or in arrays. A row that is no object has the column
//! `value`.

use std::borrow::Cow;

use super::super::Refusal;
use super::super::json::{Fail, Reader, unescape};
use super::super::value_stream::ValueStream;
use super::table::{Cell, Table, VALUE_COLUMN};

/// Keys and values as they are written.
type RawRow<'a> = Vec<(&'a [u8], &'a [u8])>;

/// What was read.
enum Step {
    Row,
    ArrayBegins,
    ArrayEnds,
}

pub(super) fn load(mut stream: ValueStream, table: &mut Table<'_>) -> Result<(), Refusal> {
    let mut in_array = false;
    let mut is_first = true;
    loop {
        let mut inserted = Ok(());
        let step = stream.next(|reader| {
            if !in_array && reader.take(b'[') {
                return Ok(Step::ArrayBegins);
            }
            if in_array && reader.take(b']') {
                return Ok(Step::ArrayEnds);
            }
            if in_array && !is_first {
                reader.expect(b',', "a comma or a closing bracket")?;
            }
            let row = read_row(reader)?;
            inserted = insert(&row, table);
            Ok(Step::Row)
        })?;

        inserted?;
        match step {
            Some(Step::Row) => is_first = false,
            Some(Step::ArrayBegins) => (in_array, is_first) = (true, true),
            Some(Step::ArrayEnds) => in_array = false,
            None if in_array => {
                let at = stream.position();
                return Err(Refusal::Invalid(format!(
                    "not JSON: it ends at byte {at}, in the middle of an array"
                )));
            }
            None => return Ok(()),
        }
    }
}

fn read_row<'a>(reader: &mut Reader<'a>) -> Result<RawRow<'a>, Fail> {
    if reader.peek() != Some(b'{') {
        return Ok(vec![(VALUE_COLUMN.as_bytes(), reader.raw_value()?)]);
    }
    let mut row = Vec::new();
    reader.members(|reader, key| {
        row.push((key, reader.raw_value()?));
        Ok(())
    })?;
    Ok(row)
}

fn insert(row: &RawRow<'_>, table: &mut Table<'_>) -> Result<(), Refusal> {
    let texts: Vec<Cow<'_, str>> = row.iter().map(|(_, value)| text_of(value)).collect();
    let mut cells = Vec::with_capacity(row.len());
    for ((key, value), text) in row.iter().zip(&texts) {
        let place = table.column(&unescape(key))?;
        cells.push((place, cell(value, text)));
    }
    table.insert(&cells)
}

/// What a value is as text: a string without its quotes, everything else as it is written.
fn text_of(value: &[u8]) -> Cow<'_, str> {
    let Some(string) = value.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")) else {
        return String::from_utf8_lossy(value);
    };
    match unescape(string) {
        Cow::Borrowed(bytes) => String::from_utf8_lossy(bytes),
        Cow::Owned(bytes) => Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()),
    }
}

fn cell<'a>(value: &[u8], text: &'a str) -> Cell<'a> {
    match value.first() {
        Some(b'n') | None => Cell::Null,
        Some(b't') => Cell::Integer(1),
        Some(b'f') => Cell::Integer(0),
        Some(b'"' | b'{' | b'[') => Cell::Text(text),
        Some(_) => number(text),
    }
}

/// A number such that no digit of an integer is lost: one too large for SQLite stays text.
pub(super) fn number(text: &str) -> Cell<'_> {
    if let Ok(integer) = text.parse() {
        return Cell::Integer(integer);
    }
    let is_integer = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    match text.parse() {
        Ok(real) if !is_integer => Cell::Real(real),
        _ => Cell::Text(text),
    }
}
