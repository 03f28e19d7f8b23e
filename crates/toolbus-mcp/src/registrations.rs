//! The file of the servers that agents have registered, so that a registration lasts. It looks like
//! an `mcp.json`, and it is ours: the operator's own file is never written.
//!
//! Invariants: the file is whole at any time, whoever dies while it is changed; only its owner may
//! read it, for it holds the credentials of its servers; a file that cannot be understood is never
//! overwritten. Several processes may change one file.

use std::fs::{File, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use serde_json::{Map, Value, json};
use tempfile::NamedTempFile;

use crate::config::TEXT_BYTES_MAX;

/// How long another process may hold the folder while it changes a file in it.
const LOCK_WAIT: Duration = Duration::from_secs(5);
/// How often it is asked whether it still does.
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// The file. Its functions block.
#[derive(Debug)]
pub(crate) struct Registrations {
    path: PathBuf,
    turn: Mutex<()>,
}

/// Why a registration was not written or not taken out.
#[derive(Debug, thiserror::Error)]
pub enum RegistrationsError {
    /// The file is there and cannot be read.
    #[error("{} cannot be read", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The file is there and is none of ours.
    #[error("{} is no list of MCP servers, and is left alone", .0.display())]
    NotOurs(PathBuf),
    /// The file cannot be written.
    #[error("{} cannot be written", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// A turn at the file: nobody else of this process changes it, or acts on what it says.
pub(crate) struct Turn<'a> {
    registrations: &'a Registrations,
    _turn: MutexGuard<'a, ()>,
}

impl Registrations {
    /// Those in this file, which need not be there.
    pub(crate) fn at(path: PathBuf) -> Self {
        Self { path, turn: Mutex::new(()) }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Waits for a turn: as long as others of this process take, each a few disk accesses.
    pub(crate) fn turn(&self) -> Turn<'_> {
        Turn { registrations: self, _turn: self.turn.lock() }
    }
}

impl Turn<'_> {
    /// Writes a server down, in the place of one of the same name in any case.
    pub(crate) fn keep(
        &self,
        name: &str,
        members: Map<String, Value>,
    ) -> Result<(), RegistrationsError> {
        self.change(|servers| {
            servers.retain(|other, _| !other.eq_ignore_ascii_case(name));
            servers.insert(name.to_owned(), Value::Object(members));
            true
        })
    }

    /// Takes a server out, if it is there.
    pub(crate) fn forget(&self, name: &str) -> Result<(), RegistrationsError> {
        // Nothing is made to be forgotten in.
        if !self.registrations.path.exists() {
            return Ok(());
        }
        self.change(|servers| {
            let before = servers.len();
            servers.retain(|other, _| !other.eq_ignore_ascii_case(name));
            servers.len() != before
        })
    }

    /// Writes the file anew when `edit` says that it has changed something.
    fn change(
        &self,
        edit: impl FnOnce(&mut Map<String, Value>) -> bool,
    ) -> Result<(), RegistrationsError> {
        let path = &self.registrations.path;
        let write = |source| RegistrationsError::Write { path: path.clone(), source };
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        // The file itself is replaced, and a lock on it would be left behind with it.
        let folder_file = locked(folder).map_err(write)?;
        let mut document = self.read()?;
        let Some(Value::Object(servers)) = document.get_mut("mcpServers") else {
            return Err(RegistrationsError::NotOurs(path.clone()));
        };
        if !edit(servers) {
            return Ok(());
        }
        let text = serde_json::to_vec_pretty(&document).map_err(io::Error::from).map_err(write)?;
        replace(path, folder, &text).map_err(write)?;
        // The file is in its place; that it stays there over a power cut is all that may be missing.
        if let Err(error) = folder_file.sync_all() {
            tracing::warn!(path = %path.display(), %error, "a folder cannot be synchronized");
        }
        Ok(())
    }

    fn read(&self) -> Result<Value, RegistrationsError> {
        let path = &self.registrations.path;
        let not_ours = || RegistrationsError::NotOurs(path.clone());
        match read_text(path) {
            Ok(text) => serde_json::from_str(&text).map_err(|_| not_ours()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(json!({"mcpServers": {}})),
            Err(source) => Err(RegistrationsError::Read { path: path.clone(), source }),
        }
    }
}

/// Reads a file of at most [`TEXT_BYTES_MAX`] bytes.
pub(crate) fn read_text(path: &Path) -> io::Result<String> {
    let file = File::open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    let mut text = String::new();
    let limit = u64::try_from(TEXT_BYTES_MAX).unwrap_or(u64::MAX);
    if file.take(limit + 1).read_to_string(&mut text)? > TEXT_BYTES_MAX {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(text)
}

fn replace(path: &Path, folder: &Path, text: &[u8]) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    // Made so that nobody else may read it.
    let mut file = NamedTempFile::with_prefix_in(format!(".{name}."), folder)?;
    file.write_all(text)?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

/// The folder, locked against other processes for as long as it is held.
fn locked(folder: &Path) -> io::Result<File> {
    let file = File::open(folder)?;
    let end = Instant::now() + LOCK_WAIT;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if Instant::now() < end => {
                std::thread::sleep(LOCK_PAUSE);
            }
            Err(TryLockError::WouldBlock) => return Err(io::ErrorKind::TimedOut.into()),
            // A file system without locks: only several processes on one file would need them.
            Err(TryLockError::Error(_)) => return Ok(file),
        }
    }
}

#[cfg(test)]
mod tests;
