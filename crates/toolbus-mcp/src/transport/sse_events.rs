//! Server-sent events of bounded size, from a stream that may never send one.
//!
//! Of an event that is too long its edges are kept, which show the request that it answered.
//! Lines end with LF or CRLF, as every server sends them; a lone CR, which the format has too, is
//! not taken for an end.

use tokio::io::AsyncRead;

use super::bounded_lines::{CutLine, Line, LineReader};

/// How much longer than its data a line may be: the name of its field.
const FIELD_BYTES: usize = 16;

/// The next event of a stream.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// An event with its name, `message` when it has none, and its data.
    Whole(String, Vec<u8>),
    /// An event that was longer than allowed.
    Cut(CutLine),
    /// The stream is at its end. An unfinished event is dropped.
    End,
}

/// Reads events of at most `length_max` bytes of data.
///
/// A future of [`EventReader::next`] may be dropped at any time: what was read is kept here.
pub(super) struct EventReader<R> {
    lines: LineReader<R>,
    length_max: usize,
    name: String,
    data: Option<Vec<u8>>,
    cut: Option<CutLine>,
}

impl<R: AsyncRead + Unpin> EventReader<R> {
    pub(super) fn new(stream: R, length_max: usize) -> Self {
        let lines = LineReader::new(stream, length_max + FIELD_BYTES);
        Self { lines, length_max, name: String::new(), data: None, cut: None }
    }

    /// The next event that has data.
    pub(super) async fn next(&mut self) -> Event {
        loop {
            match self.lines.next().await {
                Line::End => return Event::End,
                Line::Cut(line) => self.cut = Some(strip_field(line)),
                Line::Whole(line) => {
                    let line = line.strip_suffix(b"\r").unwrap_or(&line);
                    if !line.is_empty() {
                        self.parse_field(line);
                    } else if let Some(event) = self.take_event() {
                        return event;
                    }
                }
            }
        }
    }

    fn parse_field(&mut self, line: &[u8]) {
        // A stream may begin with a byte order mark.
        let line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line);
        let (field, value) = match line.iter().position(|byte| *byte == b':') {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &b""[..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);

        match field {
            b"event" => self.name = String::from_utf8_lossy(value).into_owned(),
            b"data" => self.append_data(value),
            // Comments begin with the colon; the id and the time to wait are for streams that can
            // be resumed.
            _ => {}
        }
    }

    fn append_data(&mut self, value: &[u8]) {
        if self.cut.is_some() {
            return;
        }

        let data = match &mut self.data {
            Some(data) => {
                data.push(b'\n');
                data
            }
            none => none.insert(Vec::new()),
        };

        if data.len() + value.len() > self.length_max {
            let mut cut = CutLine::of(data);
            cut.extend(value);
            self.cut = Some(cut);
            data.clear();
        } else {
            data.extend_from_slice(value);
        }
    }

    /// Takes the event that an empty line ends, if there is one.
    fn take_event(&mut self) -> Option<Event> {
        let name = std::mem::take(&mut self.name);
        let data = self.data.take();

        if let Some(cut) = self.cut.take() {
            return Some(Event::Cut(cut));
        }
        let name = if name.is_empty() { "message".to_owned() } else { name };
        data.map(|data| Event::Whole(name, data))
    }
}

/// Strips the field from a line that was too long to be anything but data.
fn strip_field(mut line: CutLine) -> CutLine {
    let head = line.head.strip_prefix(b"data:").unwrap_or(&line.head);
    line.head = head.strip_prefix(b" ").unwrap_or(head).to_vec();
    if line.tail.ends_with(b"\r") {
        line.tail.pop();
    }
    line
}

#[cfg(test)]
mod tests;
