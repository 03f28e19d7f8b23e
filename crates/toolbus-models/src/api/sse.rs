//! Server-sent events out of bytes, however those are cut.
//!
//! What is held back is one event that is not yet complete, and no more than [`EVENT_BYTES_MAX`] of
//! it: the line length and the number of lines of a stranger's event are no measure.

/// Largest event, in bytes of its lines.
pub(crate) const EVENT_BYTES_MAX: usize = 4 << 20;

/// An event. Those without data are passed over, as the standard wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SseEvent {
    /// Its type; empty where it has none.
    pub(crate) name: String,
    /// Its lines of data.
    pub(crate) data: String,
}

/// An event is larger than it may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EventTooLarge;

/// Takes a stream apart.
#[derive(Debug, Default)]
pub(crate) struct SseParser {
    buffer: Vec<u8>,
    /// Where in the buffer the next line begins.
    line: usize,
    /// Up to where that line was looked through for its end.
    looked: usize,
    /// Whether the last line ended with a CR, so that a LF which comes now belongs to it.
    ended_by_cr: bool,
    has_begun: bool,
    name: String,
    data: Option<String>,
}

impl SseParser {
    /// Takes more of the stream.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        if self.line > 0 {
            self.buffer.drain(..self.line);
            self.looked -= self.line;
            self.line = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The next event that is complete.
    ///
    /// # Errors
    /// When there is none, and what there is of it is too large already.
    pub(crate) fn next(&mut self) -> Result<Option<SseEvent>, EventTooLarge> {
        while let Some(line) = self.next_line() {
            if line.is_empty() {
                if let Some(event) = self.take_event() {
                    return Ok(Some(event));
                }
                continue;
            }
            self.take_line(&line);
            self.check_size(0)?;
        }
        self.check_size(self.buffer.len() - self.line)?;
        Ok(None)
    }

    /// What is left when the stream has ended: many servers leave out the empty line behind their
    /// last event.
    pub(crate) fn end(mut self) -> Option<SseEvent> {
        let rest = String::from_utf8_lossy(&self.buffer[self.line..]).into_owned();
        self.take_line(&rest);
        self.take_event()
    }

    fn next_line(&mut self) -> Option<String> {
        if self.ended_by_cr {
            if *self.buffer.get(self.line)? == b'\n' {
                self.line += 1;
            }
            self.ended_by_cr = false;
            self.looked = self.looked.max(self.line);
        }

        let end = self.buffer[self.looked..].iter().position(|byte| matches!(byte, b'\n' | b'\r'));
        let Some(end) = end.map(|end| self.looked + end) else {
            self.looked = self.buffer.len();
            return None;
        };
        let line = String::from_utf8_lossy(&self.buffer[self.line..end]).into_owned();
        self.ended_by_cr = self.buffer[end] == b'\r';
        self.line = end + 1;
        self.looked = self.line;
        Some(line)
    }

    fn take_line(&mut self, line: &str) {
        let line = match self.has_begun {
            true => line,
            false => line.strip_prefix('\u{FEFF}').unwrap_or(line),
        };
        self.has_begun = true;

        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => match &mut self.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                None => self.data = Some(value.to_owned()),
            },
            "event" => value.clone_into(&mut self.name),
            // A comment, or what no API of models uses.
            _ => {}
        }
    }

    fn take_event(&mut self) -> Option<SseEvent> {
        let name = std::mem::take(&mut self.name);
        let data = self.data.take()?;
        Some(SseEvent { name, data })
    }

    /// Checks the event so far, with a line of this many bytes that has not ended.
    fn check_size(&self, line: usize) -> Result<(), EventTooLarge> {
        let data = self.data.as_ref().map_or(0, String::len);
        let size = line + data + self.name.len();
        if size > EVENT_BYTES_MAX { Err(EventTooLarge) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests;
