//! The parsers of this crate as targets of a fuzzer.

#[cfg(feature = "parquet")]
use crate::worker::sql::parquet_rows;
use crate::worker::{grep, grep_files, jq, json, run_with_stack};

/// Longest filter, in bytes. A longer one may be nested more deeply than the stack is large, which
/// ends a worker.
const FILTER_BYTES_MAX: usize = 1 << 10;
/// Most bytes that are searched for a pattern: a large pattern takes long for each.
const SEARCHED_BYTES_MAX: usize = 64;
/// Most bytes of an answer.
const ANSWER_BYTES: usize = 4 << 10;
/// A pattern whose matches stand in many lines.
const PATTERN: &str = "a.?b|^\\w";
/// Most rows of a file.
#[cfg(feature = "parquet")]
const ROWS_MAX: usize = 1_000;

/// Reads a JSON value and passes over it, with the same result. What `serde_json` reads is read
/// here as well, and its beginning alone is the same value or none.
pub fn json_value(bytes: &[u8]) {
    run_with_stack(|| json::fuzz(bytes));
}

/// Compiles a filter of jq, of the first kibibyte.
pub fn jq_filter(bytes: &[u8]) {
    let filter = String::from_utf8_lossy(&bytes[..bytes.len().min(FILTER_BYTES_MAX)]);
    run_with_stack(|| jq::fuzz(&filter));
}

/// Compiles a pattern, which is the first line, and searches a few bytes of what follows. What is
/// shown is bounded.
pub fn grep_pattern(bytes: &[u8]) {
    let (pattern, value) = split_line(bytes);
    let value = &value[..value.len().min(SEARCHED_BYTES_MAX)];
    grep::fuzz(&String::from_utf8_lossy(pattern), value, ANSWER_BYTES);
}

/// Searches a value for a pattern that is always the same. What is shown is bounded.
pub fn searched_value(bytes: &[u8]) {
    grep::fuzz(PATTERN, bytes, ANSWER_BYTES);
}

/// Searches files, one after the other in the bytes, for that pattern. Writes a file as well, whose
/// name is the first line, and reads it as the same.
pub fn searched_files(bytes: &[u8]) {
    grep_files::fuzz(PATTERN, bytes, ANSWER_BYTES);
    let (name, content) = split_line(bytes);
    grep_files::fuzz_file(&String::from_utf8_lossy(name), content);
}

/// Loads the first rows of a Parquet file.
#[cfg(feature = "parquet")]
pub fn parquet_file(bytes: &[u8]) {
    parquet_rows::fuzz(bytes, ROWS_MAX);
}

/// The first line, and what follows it.
fn split_line(bytes: &[u8]) -> (&[u8], &[u8]) {
    let mut parts = bytes.splitn(2, |byte| *byte == b'\n');
    (parts.next().unwrap_or_default(), parts.next().unwrap_or_default())
}
