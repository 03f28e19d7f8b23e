//! Text and bytes that do not grow beyond a bound.

use std::fmt;
use std::io::{self, Write};

use crate::{Answer, More};

/// Most bytes of an error's message.
const MESSAGE_BYTES_MAX: usize = 600;

/// The text of an answer, which is made of whole pieces as long as they fit.
#[derive(Debug)]
pub(super) struct Pieces {
    text: String,
    max: usize,
    /// How many pieces there are.
    count: u64,
    /// The first piece alone was too long, and was cut.
    cut: bool,
}

impl Pieces {
    pub(super) fn new(max: usize) -> Self {
        Self { text: String::new(), max, count: 0, cut: false }
    }

    /// Adds a piece; whether there was room. A first piece that is too long is cut, for an answer
    /// that is empty helps nobody.
    pub(super) fn push(&mut self, piece: &str) -> bool {
        if self.text.len() + piece.len() <= self.max {
            self.text.push_str(piece);
            self.count += 1;
            return true;
        }

        if self.count == 0 && self.text.is_empty() {
            self.text.push_str(&piece[..piece.floor_char_boundary(self.max)]);
            self.count = 1;
            self.cut = true;
            return true;
        }
        false
    }

    /// Adds what is no piece of its own, if there is room.
    pub(super) fn push_uncounted(&mut self, text: &str) -> bool {
        let fits = self.text.len() + text.len() <= self.max;
        if fits {
            self.text.push_str(text);
        }
        fits
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    pub(super) fn into_answer(self, more: Option<More>) -> Answer {
        let notes = if self.cut {
            vec!["the first piece was cut where it is too long".to_owned()]
        } else {
            Vec::new()
        };
        Answer { text: self.text, count: Some(self.count), more, notes, ..Answer::default() }
    }
}

/// Takes bytes up to a bound, and fails to write more.
#[derive(Debug)]
pub(super) struct BoundedBytes {
    pub(super) bytes: Vec<u8>,
    max: usize,
}

impl BoundedBytes {
    pub(super) fn new(max: usize) -> Self {
        Self { bytes: Vec::new(), max }
    }
}

impl Write for BoundedBytes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = self.max - self.bytes.len();
        let taken = bytes.len().min(room);
        self.bytes.extend_from_slice(&bytes[..taken]);
        if taken == 0 && !bytes.is_empty() {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What something says of itself, cut where it is long. It may show a whole value.
pub(super) fn message(of: impl fmt::Display) -> String {
    let mut bytes = BoundedBytes::new(MESSAGE_BYTES_MAX);
    let cut = write!(bytes, "{of}").is_err();
    let mut message = String::from_utf8_lossy(&bytes.bytes).into_owned();
    if cut {
        message.push('…');
    }
    message
}
