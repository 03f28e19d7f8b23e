//! The output of a script: two pipes in, three bounded texts out.
//!
//! Invariants: memory does not grow with what is written, reading never stops before the end, and
//! characters that arrive in pieces come out whole.

use std::io;
use std::mem;

use tokio::net::unix::pipe;
use toolbus_scripts::runner::{Captured, LiveOutput, OUTPUT_BYTES_MAX, Stream};

const BUFFER_BYTES: usize = 64 << 10;

/// Both streams of one script.
pub(crate) struct Capture {
    stdout: Channel,
    stderr: Channel,
    merged: Kept,
    live: Option<LiveOutput>,
    buffer: Box<[u8]>,
}

struct Channel {
    /// `None` after the end of the stream.
    pipe: Option<pipe::Receiver>,
    stream: Stream,
    decoder: Decoder,
    kept: Kept,
}

impl Capture {
    pub(crate) fn new(
        stdout: pipe::Receiver,
        stderr: pipe::Receiver,
        live: Option<LiveOutput>,
    ) -> Self {
        let channel = |pipe, stream| Channel {
            pipe: Some(pipe),
            stream,
            decoder: Decoder::default(),
            kept: Kept::default(),
        };
        Self {
            stdout: channel(stdout, Stream::Stdout),
            stderr: channel(stderr, Stream::Stderr),
            merged: Kept::default(),
            live,
            buffer: vec![0; BUFFER_BYTES].into_boxed_slice(),
        }
    }

    /// Whether anything may still come.
    pub(crate) fn is_open(&self) -> bool {
        self.stdout.pipe.is_some() || self.stderr.pipe.is_some()
    }

    /// Waits for output and takes one piece of each stream that has some. What a script wrote to
    /// stdout before stderr stays before it, since stdout is looked at first. Cancel-safe: it waits
    /// only before it reads.
    pub(crate) async fn pump(&mut self) {
        let readable = async |channel: &Channel| match &channel.pipe {
            Some(pipe) => {
                // An error is found again, and handled, by the read.
                let _ = pipe.readable().await;
            }
            None => std::future::pending().await,
        };
        if !self.is_open() {
            return;
        }
        tokio::select! {
            () = readable(&self.stdout) => {}
            () = readable(&self.stderr) => {}
        }
        // Lets the runtime learn of both streams before the first is read: of two that became
        // readable it may know only one.
        tokio::task::yield_now().await;
        self.take_once();
    }

    fn take_once(&mut self) {
        for channel in [&mut self.stdout, &mut self.stderr] {
            let Some(pipe) = &channel.pipe else { continue };
            match pipe.try_read(&mut self.buffer) {
                Ok(0) => channel.pipe = None,
                Ok(count) => {
                    let bytes = &self.buffer[..count];
                    channel.accept(bytes, &mut self.merged, self.live.as_ref());
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => channel.pipe = None,
            }
        }
    }

    /// The texts: merged, stdout, stderr.
    pub(crate) fn finish(mut self) -> (Captured, Captured, Captured) {
        for channel in [&mut self.stdout, &mut self.stderr] {
            let rest = channel.decoder.finish();
            channel.publish(rest, &mut self.merged, self.live.as_ref());
        }
        (self.merged.0, self.stdout.kept.0, self.stderr.kept.0)
    }
}

impl Channel {
    fn accept(&mut self, bytes: &[u8], merged: &mut Kept, live: Option<&LiveOutput>) {
        if merged.0.truncated && self.kept.0.truncated {
            return;
        }
        let text = self.decoder.decode(bytes);
        self.publish(&text, merged, live);
    }

    fn publish(&mut self, text: &str, merged: &mut Kept, live: Option<&LiveOutput>) {
        self.kept.push(text);
        let new = merged.push(text);
        if let Some(live) = live
            && !new.is_empty()
        {
            live(self.stream, new);
        }
    }
}

/// The beginning of a text.
#[derive(Default)]
struct Kept(Captured);

impl Kept {
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
struct Decoder {
    /// The beginning of a character whose rest has not come: at most three bytes.
    pending: Vec<u8>,
}

impl Decoder {
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
