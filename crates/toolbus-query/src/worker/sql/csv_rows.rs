//! Rows of cells between delimiters, with a header.
//!
//! What a column holds is guessed by the rows at the beginning: numbers, if every cell there is one
//! as JSON writes it, else text. In a column of numbers an empty cell is nothing, and what is no
//! number stays text.

use csv::{ByteRecord, Reader, ReaderBuilder};

use super::super::Refusal;
use super::super::json::is_number;
use super::super::text::REPLACED_NOTE;
use super::json_rows::number;
use super::load::Whole;
use super::table::{Cell, Table};

/// How many rows are looked at before the kinds of columns are guessed.
const SAMPLE_ROWS: usize = 1_000;
/// How many bytes of rows.
const SAMPLE_BYTES: usize = 1 << 20;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

pub(super) fn load(whole: Whole, delimiter: u8, table: &mut Table<'_>) -> Result<(), Refusal> {
    let mut reader = ReaderBuilder::new()
        .delimiter(delimiter)
        .flexible(true)
        .has_headers(false)
        .from_reader(whole);
    let mut header = ByteRecord::new();
    if !read(&mut reader, &mut header)? {
        return Ok(());
    }
    for (at, name) in header.iter().enumerate() {
        let name = if at == 0 { name.strip_prefix(BYTE_ORDER_MARK).unwrap_or(name) } else { name };
        table.add_column(&String::from_utf8_lossy(name))?;
    }

    let sample = read_sample(&mut reader)?;
    let mut rows = Rows { numeric: guess_numeric(&sample, header.len()), ..Rows::default() };
    for record in &sample {
        rows.insert(record, table)?;
    }
    drop(sample);

    let mut record = ByteRecord::new();
    while read(&mut reader, &mut record)? {
        rows.insert(&record, table)?;
    }
    rows.remark(table, header.len());
    Ok(())
}

fn read(reader: &mut Reader<Whole>, record: &mut ByteRecord) -> Result<bool, Refusal> {
    reader.read_byte_record(record).map_err(|error| match error.into_kind() {
        csv::ErrorKind::Io(error) => error.into(),
        other => Refusal::Invalid(format!("not CSV: {other:?}")),
    })
}

fn read_sample(reader: &mut Reader<Whole>) -> Result<Vec<ByteRecord>, Refusal> {
    let (mut sample, mut bytes) = (Vec::new(), 0);
    let mut record = ByteRecord::new();
    while sample.len() < SAMPLE_ROWS && bytes < SAMPLE_BYTES && read(reader, &mut record)? {
        bytes += record.as_slice().len();
        sample.push(std::mem::take(&mut record));
    }
    Ok(sample)
}

/// Which columns hold numbers.
fn guess_numeric(sample: &[ByteRecord], columns: usize) -> Vec<bool> {
    let is_numeric = |at: usize| {
        let cells = sample.iter().filter_map(|record| record.get(at));
        let mut cells = cells.filter(|cell| !cell.is_empty()).peekable();
        cells.peek().is_some() && cells.all(|cell| is_number(cell).is_some())
    };
    (0..columns).map(is_numeric).collect()
}

#[derive(Default)]
struct Rows {
    numeric: Vec<bool>,
    short: u64,
    long: u64,
    any_replaced: bool,
}

impl Rows {
    fn insert(&mut self, record: &ByteRecord, table: &mut Table<'_>) -> Result<(), Refusal> {
        let known = self.numeric.len();
        self.short += u64::from(record.len() < known);
        self.long += u64::from(record.len() > known);
        while table.names().len() < record.len() {
            table.add_column("")?;
        }

        let texts: Vec<_> = record.iter().map(String::from_utf8_lossy).collect();
        let cells = texts.iter().enumerate().map(|(at, text)| {
            self.any_replaced |= matches!(text, std::borrow::Cow::Owned(_));
            (at, self.numeric.get(at).map_or(Cell::Text(text), |numeric| cell(text, *numeric)))
        });
        let cells: Vec<_> = cells.collect();
        table.insert(&cells)
    }

    fn remark(&self, table: &mut Table<'_>, columns: usize) {
        if self.short > 0 {
            table.remarks.push(format!("{} rows have less than {columns} cells", self.short));
        }
        if self.long > 0 {
            table.remarks.push(format!("{} rows have more than {columns} cells", self.long));
        }
        if self.any_replaced {
            table.remarks.push(REPLACED_NOTE.to_owned());
        }
    }
}

fn cell(text: &str, is_numeric: bool) -> Cell<'_> {
    if !is_numeric {
        return Cell::Text(text);
    }
    if text.is_empty() {
        return Cell::Null;
    }
    if is_number(text.as_bytes()).is_some() { number(text) } else { Cell::Text(text) }
}
