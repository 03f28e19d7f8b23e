//! Server-sent events of bounded size, from a stream that may never send one.
//!
//! Of an event that is too long its edges are kept, which show the request that it answered.
//! Lines end with LF or CRLF, as every server sends them; a lone CR, which the format has too, is
//! not taken for an end.

use tokio::io::AsyncRead;

use super::bounded_lines::{CutLine, Line, LineReader};

/// How much longer than its data a line may be: the name of its field.
const FIELD_BYTES: usize = 16;

/// Longest id of an event that is kept, in bytes.
const ID_BYTES_MAX: usize = 4 << 10;

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
    place: StreamPlace,
}

/// What an event says of its place in a stream that can be resumed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct StreamPlace {
    /// Its id.
    pub(super) id: Option<String>,
    /// How long to wait before the stream is opened again, in milliseconds.
    pub(super) retry: Option<u64>,
}

impl<R: AsyncRead + Unpin> EventReader<R> {
    pub(super) fn new(stream: R, length_max: usize) -> Self {
        let lines = LineReader::new(stream, length_max + FIELD_BYTES);
        let (name, place) = (String::new(), StreamPlace::default());
        Self { lines, length_max, name, data: None, cut: None, place }
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

    /// Takes the place of the event that came last.
    pub(super) fn take_place(&mut self) -> StreamPlace {
        std::mem::take(&mut self.place)
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
            b"id" if value.len() <= ID_BYTES_MAX => {
                self.place.id = String::from_utf8(value.to_vec()).ok();
            }
            b"retry" => {
                self.place.retry =
                    std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
            }
            // Comments begin with the colon.
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
