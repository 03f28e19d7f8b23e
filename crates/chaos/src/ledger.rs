//! A ledger: a file of JSON lines, each on disk before whoever wrote it goes on.
//!
//! One thread writes. It takes what is there, up to [`BATCH_MAX`] lines, writes and syncs once, and
//! then tells all of them. A process that is killed leaves at most a part of its last batch, of
//! which nobody was told; [`read`] leaves out a last line without an end.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::thread::{self, JoinHandle};

use anyhow::{Context as _, bail};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::{mpsc, oneshot};

#[cfg(test)]
mod tests;

/// Lines that wait for the disk.
const QUEUE_MAX: usize = 4096;
/// Lines that are written at a time.
const BATCH_MAX: usize = 1024;

/// An open ledger. Lines that wait are still written when it is dropped.
#[derive(Debug)]
pub struct Ledger {
    queue: Option<mpsc::Sender<Entry>>,
    writer: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Entry {
    line: Vec<u8>,
    written: oneshot::Sender<()>,
}

impl Ledger {
    /// Opens the ledger at `path`, behind the lines that it has.
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        let file = File::options()
            .create(true)
            .append(true)
            .open(path)
            .with_context(|| format!("opening {}", path.display()))?;
        let (queue, entries) = mpsc::channel(QUEUE_MAX);
        let writer = thread::Builder::new()
            .name("ledger".to_owned())
            .spawn(move || write_batches(file, entries))
            .context("starting the thread of the ledger")?;

        Ok(Self { queue: Some(queue), writer: Some(writer) })
    }

    /// Writes a line and returns when it is on disk.
    ///
    /// # Errors
    /// When the disk does not take it.
    pub async fn append(&self, record: &impl Serialize) -> anyhow::Result<()> {
        let (written, is_written) = oneshot::channel();
        let line = encode(record)?;

        let queue = self.queue.as_ref().context("the ledger is closed")?;
        queue.send(Entry { line, written }).await.ok().context("the ledger takes no lines")?;
        is_written.await.context("a line of the ledger was not written")
    }

    /// Hands a line over and does not wait for the disk, for whoever cannot.
    ///
    /// # Errors
    /// When too many lines wait, or the disk takes none.
    pub fn append_later(&self, record: &impl Serialize) -> anyhow::Result<()> {
        let (written, _) = oneshot::channel();
        let line = encode(record)?;

        let queue = self.queue.as_ref().context("the ledger is closed")?;
        queue.try_send(Entry { line, written }).ok().context("the ledger takes no lines")
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(writer) = self.writer.take() {
            // It ends when the queue is empty; a panic of its own has been printed.
            let _ = writer.join();
        }
    }
}

fn encode(record: &impl Serialize) -> anyhow::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(record)?;
    line.push(b'\n');
    Ok(line)
}

/// Writes until all senders are gone or the disk takes no more; then whoever waits is told by the
/// end of its channel.
fn write_batches(mut file: File, mut entries: mpsc::Receiver<Entry>) {
    while let Some(first) = entries.blocking_recv() {
        let mut batch = vec![first];
        while batch.len() < BATCH_MAX
            && let Ok(next) = entries.try_recv()
        {
            batch.push(next);
        }

        let bytes = batch.iter().map(|entry| entry.line.as_slice()).collect::<Vec<_>>().concat();
        if file.write_all(&bytes).and_then(|()| file.sync_data()).is_err() {
            return;
        }

        for entry in batch {
            // Whoever is gone does not need to know.
            let _ = entry.written.send(());
        }
    }
}

/// The lines of a ledger. One that is not there has none.
///
/// # Errors
/// When the file cannot be read, or a line with an end is none of a ledger.
pub fn read<T: DeserializeOwned>(path: &Path) -> anyhow::Result<Vec<T>> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => bail!("reading {}: {error}", path.display()),
    };

    let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
    let lines = whole.lines().map(|line| {
        serde_json::from_str(line).with_context(|| format!("{}: {line}", path.display()))
    });
    lines.collect()
}
