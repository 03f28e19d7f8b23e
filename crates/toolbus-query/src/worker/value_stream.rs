//! JSON values one after the other, of a value that is read piece by piece.

use std::io;

use super::Refusal;
use super::json::{DEPTH_MAX, Fail, Reader};
use super::source::Source;

/// What is read at a time.
const PIECE_BYTES: usize = 1 << 20;
/// By how much the buffer grows when a value is larger than it. A value that was read in vain is
/// read again, so this is what bounds how often.
const GROWTH: usize = 8;
/// How a text may begin that says nothing.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Reads values from a buffer that follows the source.
#[derive(Debug)]
pub(super) struct ValueStream {
    source: Source,
    buffer: Vec<u8>,
    /// What of the buffer has been read.
    start: usize,
    /// What of the buffer is filled.
    filled: usize,
    /// Where in the value the buffer begins.
    offset: u64,
    ended: bool,
}

impl ValueStream {
    pub(super) fn new(source: Source) -> Result<Self, Refusal> {
        Self::after(Vec::new(), source)
    }

    /// A stream of what was read already, and what comes after.
    pub(super) fn after(beginning: Vec<u8>, source: Source) -> Result<Self, Refusal> {
        let filled = beginning.len();
        let mut buffer = beginning;
        buffer.resize(filled + PIECE_BYTES, 0);
        let mut stream = Self { source, buffer, start: 0, filled, offset: 0, ended: false };
        stream.fill()?;
        if stream.buffer[..stream.filled].starts_with(BYTE_ORDER_MARK) {
            stream.start = BYTE_ORDER_MARK.len();
        }
        Ok(stream)
    }

    /// Where in the value the next one begins, or the white space before it.
    pub(super) fn position(&self) -> u64 {
        self.offset + self.start as u64
    }

    /// Lets `read` read one thing. It is called again with more where the buffer ended too early,
    /// so it must change nothing before it has read all it wants. `None` at the end.
    pub(super) fn next<T>(
        &mut self,
        mut read: impl FnMut(&mut Reader<'_>) -> Result<T, Fail>,
    ) -> Result<Option<T>, Refusal> {
        loop {
            let mut reader = Reader::new(&self.buffer[self.start..self.filled], self.ended);
            let is_empty = reader.peek().is_none();
            if is_empty && self.ended {
                return Ok(None);
            }

            let result = if is_empty { Err(Fail::Incomplete) } else { read(&mut reader) };
            let at = self.position() + reader.at() as u64;
            match result {
                Ok(thing) => {
                    self.start += reader.at();
                    return Ok(Some(thing));
                }
                Err(Fail::Incomplete) if !self.ended => self.fill()?,
                Err(fail) => return Err(Refusal::Invalid(describe(fail, at))),
            }
        }
    }

    /// Reads on, with room for a longer value where one fills the buffer.
    fn fill(&mut self) -> io::Result<()> {
        self.buffer.copy_within(self.start..self.filled, 0);
        self.offset += self.start as u64;
        self.filled -= self.start;
        self.start = 0;
        if self.filled > self.buffer.len() / 2 {
            self.grow()?;
        }

        let length = self.source.fill(&mut self.buffer[self.filled..])?;
        self.filled += length;
        self.ended = self.filled < self.buffer.len();
        Ok(())
    }

    /// Makes room, never much more than what is left of a file takes.
    fn grow(&mut self) -> io::Result<()> {
        let mut length = self.buffer.len().saturating_mul(GROWTH);
        if let Some(size) = self.source.file_size() {
            let left = size.saturating_sub(self.offset).saturating_add(1);
            length = length.min(usize::try_from(left).unwrap_or(length));
        }
        let length = length.max(self.buffer.len() + PIECE_BYTES);
        let more = length - self.buffer.len();
        self.buffer.try_reserve_exact(more).map_err(|_| io::ErrorKind::OutOfMemory)?;
        self.buffer.resize(length, 0);
        Ok(())
    }
}

fn describe(fail: Fail, at: u64) -> String {
    match fail {
        Fail::Incomplete => format!("not JSON: it ends at byte {at}, in the middle of a value"),
        Fail::Expected(what) => format!("not JSON: {what} is expected at byte {at}"),
        Fail::TooDeep => {
            format!("the JSON is nested deeper than {DEPTH_MAX} at byte {at}")
        }
    }
}
