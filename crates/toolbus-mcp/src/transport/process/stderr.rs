//! The child's stderr: always read, so that it never blocks the child; logged line by line, and
//! never more of it held than one short line.

use std::sync::Arc;

use tokio::io::AsyncReadExt;
use tokio::process::ChildStderr;

use super::Watch;
use crate::eraser::{Eraser, shortened};

/// Longest part of a line that is logged, in bytes.
const LINE_BYTES_MAX: usize = 2 << 10;
/// Longest part of a line that is kept to explain why a server failed, in bytes.
const LAST_WORDS_BYTES_MAX: usize = 240;

/// Listens to one child.
pub(super) struct Listener {
    server: String,
    eraser: Eraser,
    watch: Arc<Watch>,
    line: Vec<u8>,
}

impl Listener {
    pub(super) fn new(server: &str, eraser: Eraser, watch: Arc<Watch>) -> Self {
        Self { server: server.to_owned(), eraser, watch, line: Vec::new() }
    }

    pub(super) async fn listen(mut self, mut stderr: ChildStderr) {
        let watch = Arc::clone(&self.watch);
        let mut buffer = vec![0; 4 << 10];
        loop {
            // Neither arm loses anything: a read that is dropped has read nothing.
            let read = tokio::select! {
                biased;
                read = stderr.read(&mut buffer) => read,
                () = watch.gone() => break,
            };
            match read {
                Ok(0) | Err(_) => break,
                Ok(length) => self.take(&buffer[..length]),
            }
        }
        self.tell();
    }

    fn take(&mut self, bytes: &[u8]) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            let text = part.strip_suffix(b"\n").unwrap_or(part);
            let room = LINE_BYTES_MAX.saturating_sub(self.line.len());
            self.line.extend_from_slice(&text[..room.min(text.len())]);
            if part.ends_with(b"\n") {
                self.tell();
            }
        }
    }

    fn tell(&mut self) {
        let text = String::from_utf8_lossy(&self.line);
        let text = text.trim();
        if !text.is_empty() {
            let text = self.eraser.erase(text);
            tracing::debug!(server = self.server, "stderr: {text}");
            *self.watch.last_words.lock() = shortened(&text, LAST_WORDS_BYTES_MAX).into_owned();
        }
        self.line.clear();
    }
}
