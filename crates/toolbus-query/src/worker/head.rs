//! How a value begins.

use std::io::{self, BufRead, BufReader, Cursor, Read as _};

use super::bounded::Pieces;
use super::slice::{self, Part};
use super::text::{REPLACED_NOTE, describe_binary, is_binary, lossy};
use super::{Refusal, Task};
use crate::question::Head;
use crate::{Answer, More};

const LINES_DEFAULT: u32 = 20;
/// Bytes that are looked at to tell what the value is.
const BEGINNING_BYTES: usize = 8 << 10;
/// Longest line that is shown as a whole.
const LINE_BYTES_MAX: usize = 1_000;

pub(super) fn answer(head: &Head, mut task: Task) -> Result<Answer, Refusal> {
    let mut beginning = vec![0; BEGINNING_BYTES];
    let length = task.source.fill(&mut beginning)?;
    beginning.truncate(length);

    if is_binary(&beginning) {
        let size = task.source.size();
        let text = describe_binary(&beginning, task.media_type.as_deref(), size);
        let notes = vec!["the value is binary".to_owned()];
        return Ok(Answer { text, notes, ..Answer::default() });
    }

    match head.bytes {
        Some(bytes) => {
            let reader = Cursor::new(beginning).chain(task.source);
            let part = Part { offset: 0, length: Some(bytes), answer_bytes: task.answer_bytes };
            slice::read_part(reader, &part)
        }
        None => {
            let lines = head.lines.unwrap_or(LINES_DEFAULT);
            show_lines(beginning, lines, task)
        }
    }
}

fn show_lines(beginning: Vec<u8>, lines: u32, task: Task) -> Result<Answer, Refusal> {
    let mut reader = BufReader::new(Cursor::new(beginning).chain(task.source));
    let mut pieces = Pieces::new(task.answer_bytes);
    let (mut offset, mut cut, mut has_more, mut any_replaced) = (0, 0, false, false);

    while pieces.count() <= u64::from(lines) {
        let Some(line) = read_line(&mut reader, LINE_BYTES_MAX)? else { break };
        has_more = pieces.count() == u64::from(lines);
        if has_more {
            break;
        }
        let (text, replaced) = line.show();
        has_more = !pieces.push(&text);
        if has_more {
            break;
        }

        offset += line.length;
        cut += u64::from(line.is_cut());
        any_replaced |= replaced;
    }

    let next_line = pieces.count() + 1;
    let more = has_more.then(|| More {
        hint: format!("ask for lines from line {next_line}, or a slice from byte {offset}"),
        next_offset: Some(offset),
        next_line: Some(next_line),
        ..More::default()
    });
    let mut answer = pieces.into_answer(more);
    if cut > 0 {
        answer.notes.push(format!("{cut} lines were cut at {LINE_BYTES_MAX} bytes"));
    }
    if any_replaced {
        answer.notes.push(REPLACED_NOTE.to_owned());
    }
    Ok(answer)
}

/// A line, of which only the beginning is kept.
struct Line {
    /// Without its end.
    kept: Vec<u8>,
    /// With its end, in the value.
    length: u64,
    /// How many bytes its end has.
    end: usize,
}

impl Line {
    fn is_cut(&self) -> bool {
        self.length > (self.kept.len() + self.end) as u64
    }

    /// The line for a reader, and whether bytes were replaced.
    fn show(&self) -> (String, bool) {
        let is_cut = self.is_cut();
        let whole = if is_cut { super::text::whole_characters(&self.kept) } else { None };
        let (text, replaced) = match whole {
            Some(text) => (text.into(), false),
            None => lossy(&self.kept),
        };

        let mut shown = text.into_owned();
        if is_cut {
            let left = self.length - (shown.len().min(self.kept.len()) + self.end) as u64;
            shown.push_str(&format!(" …[{left} more bytes]"));
        }
        if self.end > 0 {
            shown.push('\n');
        }
        (shown, replaced)
    }
}

/// Reads one line, whatever its length, and keeps at most `keep` bytes of it.
fn read_line(reader: &mut impl BufRead, keep: usize) -> io::Result<Option<Line>> {
    let mut line = Line { kept: Vec::new(), length: 0, end: 0 };
    loop {
        let buffer = reader.fill_buf()?;
        if buffer.is_empty() {
            return Ok(Some(line).filter(|line| line.length > 0));
        }

        let end = memchr::memchr(b'\n', buffer);
        let of_line = end.unwrap_or(buffer.len());
        let room = keep.saturating_sub(line.kept.len());
        line.kept.extend_from_slice(&buffer[..of_line.min(room)]);
        let consumed = end.map_or(of_line, |end| end + 1);
        line.length += consumed as u64;
        reader.consume(consumed);

        if end.is_some() {
            line.end = 1;
            if !line.is_cut() && line.kept.last() == Some(&b'\r') {
                line.kept.pop();
                line.end = 2;
            }
            return Ok(Some(line));
        }
    }
}
