//! Log lines for people that stay one line each, whatever others' text they hold.
//!
//! The formatter escapes what would act on a terminal and passes line ends on, so that a text of
//! somebody else could go on in a line that looks like one of ours.

use std::io::{self, Write};

/// Writes what it is given at once as one line: line ends before the last are escaped.
pub(super) struct OneLine<W>(pub(super) W);

impl<W: Write> Write for OneLine<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = line.strip_suffix(b"\n").unwrap_or(line);
        if !text.iter().any(|byte| matches!(byte, b'\n' | b'\r')) {
            self.0.write_all(line)?;
            return Ok(line.len());
        }

        let mut escaped = Vec::with_capacity(line.len() + 16);
        for byte in text {
            match byte {
                b'\n' => escaped.extend_from_slice(b"\\n"),
                b'\r' => escaped.extend_from_slice(b"\\r"),
                other => escaped.push(*other),
            }
        }
        escaped.extend_from_slice(&line[text.len()..]);

        // All of it: a caller that goes on in the middle would have a part escaped as a whole.
        self.0.write_all(&escaped)?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests;
