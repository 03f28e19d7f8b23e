//! Parts of a value, exact to the byte.

use std::io::{self, BufRead, BufReader, Read};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::text::whole_characters;
use super::{Refusal, Task};
use crate::question::{Lines, Slice};
use crate::{Answer, ByteRange, Encoding, More};

/// What is read at a time while lines are counted.
const COUNTING_BYTES: usize = 256 << 10;

/// Which part of a value there is to be.
pub(super) struct Part {
    /// Where the reader stands in the value.
    pub(super) offset: u64,
    pub(super) length: Option<u64>,
    pub(super) answer_bytes: usize,
}

pub(super) fn answer_bytes(slice: &Slice, mut task: Task) -> Result<Answer, Refusal> {
    if !task.source.skip_to(slice.offset)? {
        let size = task.source.position().min(slice.offset);
        let size = task.source.file_size().unwrap_or(size);
        return Err(Refusal::Invalid(format!(
            "the value has {size} bytes, and none at offset {}",
            slice.offset
        )));
    }

    let Slice { offset, length } = *slice;
    read_part(&mut task.source, &Part { offset, length, answer_bytes: task.answer_bytes })
}

/// Reads the part that begins where the reader stands.
pub(super) fn read_part(mut reader: impl Read, part: &Part) -> Result<Answer, Refusal> {
    let wanted = part.length.unwrap_or(u64::MAX).min(part.answer_bytes as u64);
    // One byte tells whether there is more.
    let mut bytes = Vec::new();
    reader.by_ref().take(wanted.saturating_add(1)).read_to_end(&mut bytes)?;
    let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
    let goes_on = bytes.len() > wanted;
    bytes.truncate(wanted);
    Ok(encode(&bytes, goes_on, part))
}

/// The bytes as text, if they are whole characters, or with the last one left for the next part.
fn encode(bytes: &[u8], goes_on: bool, part: &Part) -> Answer {
    let text = if goes_on { whole_characters(bytes) } else { std::str::from_utf8(bytes).ok() };
    let (text, encoding, length) = match text {
        Some(text) => (text.to_owned(), Encoding::Text, text.len()),
        None => {
            let fitting = bytes.len().min(part.answer_bytes / 4 * 3);
            (STANDARD.encode(&bytes[..fitting]), Encoding::Base64, fitting)
        }
    };

    let end = part.offset + length as u64;
    let more = (goes_on || length < bytes.len()).then(|| More {
        hint: format!("ask for the slice from byte {end}"),
        next_offset: Some(end),
        ..More::default()
    });
    let range = Some(ByteRange { start: part.offset, end });
    Answer { text, encoding, range, more, ..Answer::default() }
}

pub(super) fn answer_lines(lines: &Lines, task: Task) -> Result<Answer, Refusal> {
    let answer_bytes = task.answer_bytes;
    let mut reader = BufReader::with_capacity(COUNTING_BYTES, task.source);
    let (passed, offset) = pass_lines(&mut reader, lines.from_line - 1)?;
    if passed < lines.from_line - 1 || reader.fill_buf()?.is_empty() {
        return Err(Refusal::Invalid(format!(
            "the value has {passed} lines, and no line {}",
            lines.from_line
        )));
    }

    let wanted = lines.lines.unwrap_or(u64::MAX);
    let (mut bytes, count) = take_lines(&mut reader, wanted, answer_bytes)?;
    let is_cut = bytes.len() > answer_bytes;
    bytes.truncate(answer_bytes);
    let goes_on = is_cut || !reader.fill_buf()?.is_empty();

    let part = Part { offset, length: None, answer_bytes };
    let mut answer = encode(&bytes, goes_on, &part);
    let whole = memchr::memchr_iter(b'\n', &bytes).count() as u64;
    answer.count = Some(count.min(whole + u64::from(!bytes.ends_with(b"\n"))));
    if let (Some(more), false) = (&mut answer.more, is_cut || bytes.is_empty()) {
        let next_line = lines.from_line + whole;
        more.next_line = Some(next_line);
        more.hint = format!("ask for lines from line {next_line}");
    }
    Ok(answer)
}

/// Passes over so many lines; how many lines and bytes those were.
fn pass_lines(reader: &mut impl BufRead, lines: u64) -> io::Result<(u64, u64)> {
    let (mut passed, mut offset) = (0, 0);
    // A last line may have no end.
    let mut in_line = false;
    while passed < lines {
        let buffer = reader.fill_buf()?;
        if buffer.is_empty() {
            return Ok((passed + u64::from(in_line), offset));
        }

        let mut ends = memchr::memchr_iter(b'\n', buffer);
        let left = usize::try_from(lines - passed).unwrap_or(usize::MAX);
        let consumed = match ends.nth(left - 1) {
            Some(end) => {
                passed = lines;
                end + 1
            }
            None => {
                passed += memchr::memchr_iter(b'\n', buffer).count() as u64;
                in_line = buffer.last() != Some(&b'\n');
                buffer.len()
            }
        };
        offset += consumed as u64;
        reader.consume(consumed);
    }
    Ok((passed, offset))
}

/// The bytes of so many lines, or a byte more than `max` where they are longer than that, and how
/// many lines that were.
fn take_lines(reader: &mut impl BufRead, lines: u64, max: usize) -> io::Result<(Vec<u8>, u64)> {
    let (mut bytes, mut taken) = (Vec::new(), 0);
    while taken < lines && bytes.len() <= max {
        let before = bytes.len();
        let room = (max + 1 - before) as u64;
        reader.by_ref().take(room).read_until(b'\n', &mut bytes)?;
        if bytes.len() == before {
            break;
        }
        taken += 1;
    }
    Ok((bytes, taken))
}
