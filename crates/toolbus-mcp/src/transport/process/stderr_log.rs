//! Logs a child's stderr: always read, so that it never blocks the child; logged line by line, and
//! never more of it held than one short line and the longest secret.

use std::sync::Arc;

use tokio::io::AsyncReadExt;
use tokio::process::ChildStderr;

use super::ChildMonitor;
use crate::eraser::{Eraser, shorten_text};
use crate::failure::clean_line;

/// Longest part of a line that is logged, in bytes.
const LINE_BYTES_MAX: usize = 2 << 10;
/// Longest part of a line that is kept to explain why a server failed, in bytes.
const LAST_WORDS_BYTES_MAX: usize = 240;

/// Logs the stderr of one child.
pub(super) struct StderrLogger {
    server: String,
    eraser: Eraser,
    monitor: Arc<ChildMonitor>,
    line: Vec<u8>,
    /// There was more of the line than is held.
    is_cut: bool,
}

impl StderrLogger {
    pub(super) fn new(server: &str, eraser: Eraser, monitor: Arc<ChildMonitor>) -> Self {
        Self { server: server.to_owned(), eraser, monitor, line: Vec::new(), is_cut: false }
    }

    pub(super) async fn run(mut self, mut stderr: ChildStderr) {
        let monitor = Arc::clone(&self.monitor);
        let mut buffer = vec![0; 4 << 10];
        loop {
            // Neither arm loses anything: a read that is dropped has read nothing.
            let read = tokio::select! {
                biased;
                read = stderr.read(&mut buffer) => read,
                () = monitor.wait_reaped() => break,
            };

            match read {
                Ok(0) | Err(_) => break,
                Ok(length) => self.add_bytes(&buffer[..length]),
            }
        }
        self.log_line();
    }

    fn add_bytes(&mut self, bytes: &[u8]) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            let text = part.strip_suffix(b"\n").unwrap_or(part);
            // So that a secret that begins in the logged part is held to its end.
            let held_max = LINE_BYTES_MAX + self.eraser.longest_secret();
            let room = held_max.saturating_sub(self.line.len());
            self.line.extend_from_slice(&text[..room.min(text.len())]);
            self.is_cut |= room < text.len();
            if part.ends_with(b"\n") {
                self.log_line();
            }
        }
    }

    fn log_line(&mut self) {
        let text = self.erase_line();
        if !text.is_empty() {
            tracing::debug!(server = self.server, "MCP server wrote to stderr: {text}");
            *self.monitor.last_words.lock() =
                shorten_text(&text, LAST_WORDS_BYTES_MAX).into_owned();
        }
        self.line.clear();
        self.is_cut = false;
    }

    /// The part of the line that may be logged.
    fn erase_line(&self) -> String {
        let text = String::from_utf8_lossy(&self.line);
        let text = clean_line(&text, &self.eraser);
        // A cut line may end with a part of a secret, in which half a character is a whole one now.
        let unclear = if self.is_cut { self.eraser.longest_secret() + 1 } else { 0 };
        let logged = text.len().saturating_sub(unclear).min(LINE_BYTES_MAX);
        shorten_text(&text, logged).into_owned()
    }
}

#[cfg(test)]
mod tests;
