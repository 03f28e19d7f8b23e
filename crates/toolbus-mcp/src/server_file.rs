//! Files that list MCP servers, in the form of an `mcp.json`, while they are changed.
//!
//! Invariants: a file is whole at any time, even if a process dies while it changes it; one that
//! is made here only its owner may read, for it may hold credentials; one that cannot be understood
//! is never overwritten; what is not changed stays as it is, in its order. Several processes may
//! change one file.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::ServerName;
use crate::config;
use crate::small_file::{self, LockError, LockWait};

/// How the folder is waited for while another process changes a file in it.
const LOCK_WAIT: LockWait =
    LockWait { timeout: Duration::from_secs(5), interval: Duration::from_millis(20) };

/// A file that lists servers. It need not be there. Its functions block.
#[derive(Debug)]
pub struct ServerFile {
    path: PathBuf,
}

/// Why a file was not read or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerFileError {
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

impl ServerFile {
    /// The file at this path.
    #[must_use]
    pub fn at(path: PathBuf) -> Self {
        Self { path }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The servers, by their names, with the members of each as they are written.
    ///
    /// # Errors
    /// When the file is there and cannot be read or understood.
    pub fn servers(&self) -> Result<Map<String, Value>, ServerFileError> {
        match self.read()?.remove("mcpServers") {
            Some(Value::Object(servers)) => Ok(servers),
            _ => Err(ServerFileError::NotOurs(self.path.clone())),
        }
    }

    /// Adds a server. Answers `false` where there is one of this name, in any case.
    ///
    /// # Errors
    /// When the file cannot be read, understood or written.
    pub fn add(
        &self,
        name: &ServerName,
        members: Map<String, Value>,
    ) -> Result<bool, ServerFileError> {
        self.edit(|servers| {
            if servers.keys().any(|other| name.matches(other)) {
                return false;
            }
            servers.insert(name.as_str().to_owned(), Value::Object(members));
            true
        })
    }

    /// Takes a server out. Answers whether it was there.
    ///
    /// # Errors
    /// When the file cannot be read, understood or written.
    pub fn remove(&self, name: &str) -> Result<bool, ServerFileError> {
        // Nothing is made to be forgotten in.
        if !self.path.exists() {
            return Ok(false);
        }
        self.edit(|servers| {
            let before = servers.len();
            servers.retain(|other, _| !other.eq_ignore_ascii_case(name));
            servers.len() != before
        })
    }

    /// Replaces the file when `edit` says that it has changed something, which is answered.
    pub(crate) fn edit(
        &self,
        edit: impl FnOnce(&mut Map<String, Value>) -> bool,
    ) -> Result<bool, ServerFileError> {
        let write_error = |source| ServerFileError::Write { path: self.path.clone(), source };
        // A link stays one: what it leads to is replaced.
        let path = std::fs::canonicalize(&self.path).unwrap_or_else(|_| self.path.clone());
        // The file itself is replaced, and a lock on it would be left behind with it.
        let folder = lock_folder(small_file::folder_of(&path)).map_err(write_error)?;

        let mut document = self.read()?;
        let Some(Value::Object(servers)) = document.get_mut("mcpServers") else {
            return Err(ServerFileError::NotOurs(self.path.clone()));
        };
        if !edit(servers) {
            return Ok(false);
        }

        let text = serde_json::to_vec_pretty(&document).map_err(io::Error::from);
        text.and_then(|text| small_file::replace(&path, &text)).map_err(write_error)?;
        // The file is in its place; that it stays there over a power cut is all that may be
        // missing.
        if let Err(error) = folder.sync_all() {
            tracing::warn!(path = %path.display(), %error, "could not sync the folder of a file");
        }
        Ok(true)
    }

    fn read(&self) -> Result<Map<String, Value>, ServerFileError> {
        let path = &self.path;
        let document = match config::read_file(path) {
            Ok(text) => toolbus_json::from_str(&text, &config::TEXT_LIMITS).ok(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Some(json!({"mcpServers": {}}))
            }
            Err(source) => return Err(ServerFileError::Read { path: path.clone(), source }),
        };
        match document {
            Some(Value::Object(document)) => Ok(document),
            _ => Err(ServerFileError::NotOurs(path.clone())),
        }
    }
}

/// Opens and locks a folder against other processes, until it is dropped.
fn lock_folder(folder: &Path) -> io::Result<File> {
    let file = File::open(folder)?;
    match LOCK_WAIT.lock(&file) {
        // A file system without locks: only several processes on one file would need them.
        Ok(()) | Err(LockError::File(_)) => Ok(file),
        Err(LockError::Held) => Err(io::ErrorKind::TimedOut.into()),
    }
}

#[cfg(test)]
mod tests;
