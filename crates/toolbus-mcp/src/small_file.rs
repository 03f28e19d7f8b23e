//! Small files on disk: read up to a limit, replaced as a whole, locked while they are changed.
//!
//! Invariants: what is written here only its owner may read (0600, in folders of 0700), for it may
//! hold credentials; a crash leaves the old file or the new one, never a part. A lock keeps other
//! processes away, so each file says what it locks: itself it cannot, for it is replaced.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::{Duration, Instant};

use tempfile::NamedTempFile;

/// The folder that a file is in.
pub(crate) fn folder_of(file: &Path) -> &Path {
    match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Creates a folder that only its owner may enter, and those above it, where they are missing.
pub(crate) fn create_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Opens a file for writing that only its owner may read. It is created where it is missing.
pub(crate) fn open_private(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)
}

/// Reads a file, or returns `None` when it is missing.
///
/// # Errors
/// When the file cannot be read, or has more than `bytes_max` bytes:
/// [`io::ErrorKind::FileTooLarge`].
pub(crate) fn read_if_exists(path: &Path, bytes_max: u64) -> io::Result<Option<Vec<u8>>> {
    match File::open(path) {
        Ok(file) => read_bounded(file, bytes_max).map(Some),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads the text of a regular file.
///
/// # Errors
/// When it is missing, something else than a file, not UTF-8, or has more than `bytes_max` bytes.
pub(crate) fn read_text(path: &Path, bytes_max: u64) -> io::Result<String> {
    let file = File::open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }

    let bytes = read_bounded(file, bytes_max)?;
    String::from_utf8(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

fn read_bounded(file: File, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        return Err(io::ErrorKind::FileTooLarge.into());
    }

    Ok(bytes)
}

/// Replaces a file, or creates it in a folder that exists: the bytes are written beside it and
/// renamed. The file is on disk then; that its new place is as well takes a sync of the folder.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let mut temporary = NamedTempFile::with_prefix_in(format!(".{name}."), folder_of(path))?;

    temporary.write_all(bytes)?;
    temporary.as_file().sync_all()?;
    temporary.persist(path).map_err(|error| error.error)?;
    Ok(())
}

/// Replaces a file so that the new one is there after a power cut.
pub(crate) fn replace_and_sync(path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace(path, bytes)?;
    File::open(folder_of(path))?.sync_all()
}

/// How a lock is waited for that another process holds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LockWait {
    /// How long the other process may hold it.
    pub(crate) timeout: Duration,
    /// How often the lock is tried meanwhile.
    pub(crate) interval: Duration,
}

/// Why a file was not locked.
#[derive(Debug)]
pub(crate) enum LockError {
    /// Another process has held it all the time.
    Held,
    /// The file system refuses.
    File(io::Error),
}

impl LockWait {
    /// Locks a file for as long as it is open. Blocks.
    pub(crate) fn lock(self, file: &File) -> Result<(), LockError> {
        let end = Instant::now() + self.timeout;
        while !try_lock(file, || Instant::now() >= end)? {
            std::thread::sleep(self.interval);
        }

        Ok(())
    }

    /// Locks a file for as long as it is open, without blocking the thread.
    pub(crate) async fn lock_async(self, file: &File) -> Result<(), LockError> {
        let end = tokio::time::Instant::now() + self.timeout;
        while !try_lock(file, || tokio::time::Instant::now() >= end)? {
            tokio::time::sleep(self.interval).await;
        }

        Ok(())
    }
}

/// Answers whether the file is locked now. That it is not is an error once the time is over.
fn try_lock(file: &File, is_over: impl FnOnce() -> bool) -> Result<bool, LockError> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) if is_over() => Err(LockError::Held),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(LockError::File(error)),
    }
}

#[cfg(test)]
mod tests;
