//! The output texts of a script: bytes of two streams in, three bounded texts out.
//!
//! Every runner keeps output this way, so that the same script is told of in the same words
//! wherever it ran. Invariants: memory does not grow with what is written, and characters that
//! arrive in pieces come out whole.

use std::mem;

use crate::runner::{Captured, LiveOutput, OUTPUT_BYTES_MAX, Stream};

/// Both streams of one script, and the two merged in the order of arrival.
pub(super) struct Texts {
    stdout: StreamText,
    stderr: StreamText,
    merged: BoundedText,
    live: Option<LiveOutput>,
}

#[derive(Default)]
struct StreamText {
    decoder: Utf8Decoder,
    kept: BoundedText,
}

impl Texts {
    /// Starts without output; `live` receives everything that is kept.
    pub(super) fn new(live: Option<LiveOutput>) -> Self {
        Self {
            stdout: StreamText::default(),
            stderr: StreamText::default(),
            merged: BoundedText::default(),
            live,
        }
    }

    /// Takes the next bytes of a stream.
    pub(super) fn accept(&mut self, stream: Stream, bytes: &[u8]) {
        let channel = match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        };
        if self.merged.0.truncated && channel.kept.0.truncated {
            return;
        }
        let text = channel.decoder.decode(bytes);
        self.publish(stream, &text);
    }

    /// The texts: merged, stdout, stderr.
    pub(super) fn finish(mut self) -> (Captured, Captured, Captured) {
        let rest = self.stdout.decoder.finish();
        self.publish(Stream::Stdout, rest);
        let rest = self.stderr.decoder.finish();
        self.publish(Stream::Stderr, rest);
        (self.merged.0, self.stdout.kept.0, self.stderr.kept.0)
    }

    fn publish(&mut self, stream: Stream, text: &str) {
        let channel = match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        };
        channel.kept.push(text);

        let new = self.merged.push(text);
        if let Some(live) = &self.live
            && !new.is_empty()
        {
            live(stream, new);
        }
    }
}

/// The beginning of a text, up to [`OUTPUT_BYTES_MAX`].
#[derive(Default)]
struct BoundedText(Captured);

impl BoundedText {
    /// Keeps what there is room for, in whole characters, and returns it.
    fn push<'a>(&mut self, text: &'a str) -> &'a str {
        if self.0.truncated {
            return "";
        }
        let room = OUTPUT_BYTES_MAX - self.0.text.len();
        let kept = &text[..text.floor_char_boundary(room)];
        self.0.truncated = kept.len() < text.len();
        self.0.text.push_str(kept);
        kept
    }
}

/// Turns pieces of bytes into pieces of text.
#[derive(Default)]
struct Utf8Decoder {
    /// The beginning of a character whose rest has not come: at most three bytes.
    pending: Vec<u8>,
}

impl Utf8Decoder {
    fn decode(&mut self, bytes: &[u8]) -> String {
        let mut input = mem::take(&mut self.pending);
        input.extend_from_slice(bytes);

        let mut text = String::with_capacity(input.len());
        let mut seen = 0;

        for chunk in input.utf8_chunks() {
            text.push_str(chunk.valid());
            seen += chunk.valid().len() + chunk.invalid().len();

            let incomplete = || {
                let error = std::str::from_utf8(chunk.invalid()).err();
                error.is_some_and(|error| error.error_len().is_none())
            };

            if chunk.invalid().is_empty() {
                continue;
            }

            if seen == input.len() && incomplete() {
                self.pending = chunk.invalid().to_vec();
            } else {
                text.push(char::REPLACEMENT_CHARACTER);
            }
        }

        text
    }

    fn finish(&mut self) -> &'static str {
        if mem::take(&mut self.pending).is_empty() { "" } else { "\u{fffd}" }
    }
}

#[cfg(test)]
mod tests;
