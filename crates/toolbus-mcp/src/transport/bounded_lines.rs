//! Lines of bounded length from a stream that may never send one.

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

/// How much is kept of the beginning and of the end of a line that is too long, in bytes each:
/// enough to find the id of a JSON-RPC message, which stands before or after what is big.
pub(super) const EDGE_BYTES: usize = 512;
/// Size of the buffer in front of the stream, in bytes: a pipe's worth.
const BUFFER_BYTES: usize = 64 << 10;

/// The next line of a stream.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// A line without its end.
    Whole(Vec<u8>),
    /// A line that was longer than allowed.
    Cut(CutLine),
    /// The stream is at its end. An unfinished last line is dropped.
    End,
}

/// What was kept of a line that was too long.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct CutLine {
    pub(super) head: Vec<u8>,
    pub(super) tail: Vec<u8>,
    /// How long it was, in bytes.
    pub(super) length: u64,
}

/// Reads lines of at most `length_max` bytes.
///
/// A future of [`LineReader::next`] may be dropped at any time: what was read is kept here.
pub(super) struct LineReader<R> {
    stream: BufReader<R>,
    length_max: usize,
    line: Vec<u8>,
    /// Present while the rest of a long line is skipped.
    cut: Option<CutLine>,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    pub(super) fn new(stream: R, length_max: usize) -> Self {
        let stream = BufReader::with_capacity(BUFFER_BYTES, stream);
        Self { stream, length_max, line: Vec::new(), cut: None }
    }

    /// The next line. A stream that fails is at its end.
    pub(super) async fn next(&mut self) -> Line {
        loop {
            let available = match self.stream.fill_buf().await {
                Ok([]) | Err(_) => return Line::End,
                Ok(available) => available,
            };

            let end = available.iter().position(|byte| *byte == b'\n');
            let part = &available[..end.unwrap_or(available.len())];
            let consumed = part.len() + usize::from(end.is_some());
            if self.cut.is_none() && self.line.len() + part.len() > self.length_max {
                self.cut = Some(CutLine::of(&std::mem::take(&mut self.line)));
            }

            match &mut self.cut {
                Some(cut) => cut.extend(part),
                None => self.line.extend_from_slice(part),
            }

            self.stream.consume(consumed);
            if end.is_some() {
                return match self.cut.take() {
                    Some(cut) => Line::Cut(cut),
                    None => Line::Whole(std::mem::take(&mut self.line)),
                };
            }
        }
    }
}

impl CutLine {
    /// The edges of a line.
    pub(super) fn of(line: &[u8]) -> Self {
        let mut cut = Self::default();
        cut.extend(line);
        cut
    }

    pub(super) fn extend(&mut self, part: &[u8]) {
        self.length += part.len() as u64;
        let missing = EDGE_BYTES.saturating_sub(self.head.len()).min(part.len());
        self.head.extend_from_slice(&part[..missing]);

        if part.len() >= EDGE_BYTES {
            self.tail.clear();
            self.tail.extend_from_slice(&part[part.len() - EDGE_BYTES..]);
        } else {
            self.tail.extend_from_slice(part);
            let surplus = self.tail.len().saturating_sub(EDGE_BYTES);
            self.tail.drain(..surplus);
        }
    }
}

#[cfg(test)]
mod tests;
