//! The output of a script: two pipes in, three bounded texts out.
//!
//! Invariants: memory does not grow with what is written, and reading never stops before the end.

use std::io;

use tokio::net::unix::pipe;
use toolbus_scripts::Texts;
use toolbus_scripts::runner::{Captured, LiveOutput, Stream};

const BUFFER_BYTES: usize = 64 << 10;

/// The output streams of one script.
pub(crate) struct OutputCapture {
    stdout: OutputPipe,
    stderr: OutputPipe,
    texts: Texts,
    buffer: Box<[u8]>,
}

struct OutputPipe {
    /// `None` after the end of the stream.
    pipe: Option<pipe::Receiver>,
    stream: Stream,
}

impl OutputCapture {
    pub(crate) fn new(
        stdout: pipe::Receiver,
        stderr: pipe::Receiver,
        live: Option<LiveOutput>,
    ) -> Self {
        Self {
            stdout: OutputPipe { pipe: Some(stdout), stream: Stream::Stdout },
            stderr: OutputPipe { pipe: Some(stderr), stream: Stream::Stderr },
            texts: Texts::new(live),
            buffer: vec![0; BUFFER_BYTES].into_boxed_slice(),
        }
    }

    /// Whether more output may still come.
    pub(crate) fn is_open(&self) -> bool {
        self.stdout.pipe.is_some() || self.stderr.pipe.is_some()
    }

    /// Waits for output and takes one piece of each stream that has some. What a script wrote to
    /// stdout before stderr stays before it, since stdout is looked at first. Cancel-safe: it waits
    /// only before it reads.
    pub(crate) async fn pump_output(&mut self) {
        let readable = async |channel: &OutputPipe| match &channel.pipe {
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
        self.read_available();
    }

    fn read_available(&mut self) {
        for channel in [&mut self.stdout, &mut self.stderr] {
            let Some(pipe) = &channel.pipe else { continue };
            match pipe.try_read(&mut self.buffer) {
                Ok(0) => channel.pipe = None,
                Ok(count) => self.texts.accept(channel.stream, &self.buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => channel.pipe = None,
            }
        }
    }

    /// The texts: merged, stdout, stderr.
    pub(crate) fn finish(self) -> (Captured, Captured, Captured) {
        self.texts.finish()
    }
}

#[cfg(test)]
mod tests;
