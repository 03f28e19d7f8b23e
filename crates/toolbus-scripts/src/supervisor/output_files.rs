//! The output files of a script, as its supervisor reports them: a header, then pieces.
//!
//! Invariant: what is held is bounded by the collector, whatever is reported; a file of which
//! something is missing does not come back.

use crate::files::{Collector, FileName, Produced};

/// Puts output files together.
#[derive(Debug, Default)]
pub(super) struct FileReceiver {
    collector: Collector,
    open: Option<(FileName, u64, Vec<u8>)>,
}

impl FileReceiver {
    /// Begins a file of this name and size, unless it is one that does not come back.
    pub(super) fn begin_file(&mut self, name: &[u8], bytes: u64) {
        self.finish_open();
        match std::str::from_utf8(name) {
            Ok(text) => {
                let admitted = self.collector.admit(text, bytes);
                self.open = admitted.map(|name| (name, bytes, Vec::new()));
            }
            Err(_) => self.omit_file(name, b"its name is not UTF-8"),
        }
    }

    /// Appends the next piece of the open file.
    pub(super) fn append_piece(&mut self, piece: &[u8]) {
        // What goes beyond the size that was admitted has no room set aside.
        if let Some((_, bytes, content)) = &mut self.open
            && (content.len() + piece.len()) as u64 <= *bytes
        {
            content.extend_from_slice(piece);
        }
    }

    /// Records a file that does not come back.
    pub(super) fn omit_file(&mut self, name: &[u8], reason: &[u8]) {
        self.collector.refuse(&String::from_utf8_lossy(name), &String::from_utf8_lossy(reason));
    }

    /// Ends the last file and returns all of them.
    pub(super) fn finish(mut self) -> Produced {
        self.finish_open();
        self.collector.finish()
    }

    fn finish_open(&mut self) {
        match self.open.take() {
            Some((name, bytes, content)) if content.len() as u64 == bytes => {
                self.collector.keep(name, content);
            }
            Some((name, ..)) => self.collector.refuse(name.as_str(), "it did not arrive whole"),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests;
