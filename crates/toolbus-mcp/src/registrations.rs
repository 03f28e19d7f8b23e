//! The file of the servers that agents have registered, so that a registration lasts. It looks like
//! an `mcp.json`, and it is ours: the operator's own file is never written.
//!
//! Invariants: the file is whole at any time, even if a process dies while it changes the file;
//! only its owner may read it, for it holds the credentials of its servers; a file that cannot be
//! understood is never overwritten. Several processes may change one file.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use serde_json::{Map, Value, json};

use crate::config::{self, REGISTERED_BY};
use crate::small_file::{self, LockError, LockWait};

/// How the folder is waited for while another process changes a file in it.
const LOCK_WAIT: LockWait =
    LockWait { timeout: Duration::from_secs(5), interval: Duration::from_millis(20) };

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

/// A turn at the file: meanwhile nothing else in this process changes it, or acts on what it says.
pub(crate) struct RegistrationsTurn<'a> {
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
    pub(crate) fn take_turn(&self) -> RegistrationsTurn<'_> {
        RegistrationsTurn { registrations: self, _turn: self.turn.lock() }
    }
}

impl RegistrationsTurn<'_> {
    /// Saves a server, in the place of one of the same name in any case.
    pub(crate) fn save(
        &self,
        name: &str,
        members: Map<String, Value>,
    ) -> Result<(), RegistrationsError> {
        self.edit_file(|servers| {
            servers.retain(|other, _| !other.eq_ignore_ascii_case(name));
            servers.insert(name.to_owned(), Value::Object(members));
            true
        })
    }

    /// The agent whose a registration is, if it is there and of a known one.
    pub(crate) fn owner_of(&self, name: &str) -> Result<Option<String>, RegistrationsError> {
        let document = self.read()?;
        let servers = document.get("mcpServers").and_then(Value::as_object);
        let members =
            servers.into_iter().flatten().find(|(other, _)| other.eq_ignore_ascii_case(name));
        let owner = members.and_then(|(_, members)| members[REGISTERED_BY].as_str());
        Ok(owner.map(str::to_owned))
    }

    /// Takes a server out, if it is there.
    pub(crate) fn remove(&self, name: &str) -> Result<(), RegistrationsError> {
        // Nothing is made to be forgotten in.
        if !self.registrations.path.exists() {
            return Ok(());
        }
        self.edit_file(|servers| {
            let before = servers.len();
            servers.retain(|other, _| !other.eq_ignore_ascii_case(name));
            servers.len() != before
        })
    }

    /// Replaces the file when `edit` says that it has changed something.
    fn edit_file(
        &self,
        edit: impl FnOnce(&mut Map<String, Value>) -> bool,
    ) -> Result<(), RegistrationsError> {
        let path = &self.registrations.path;
        let write_error = |source| RegistrationsError::Write { path: path.clone(), source };
        // The file itself is replaced, and a lock on it would be left behind with it.
        let folder = lock_folder(small_file::folder_of(path)).map_err(write_error)?;

        let mut document = self.read()?;
        let Some(Value::Object(servers)) = document.get_mut("mcpServers") else {
            return Err(RegistrationsError::NotOurs(path.clone()));
        };

        if !edit(servers) {
            return Ok(());
        }

        let text = serde_json::to_vec_pretty(&document).map_err(io::Error::from);
        text.and_then(|text| small_file::replace(path, &text)).map_err(write_error)?;
        // The file is in its place; that it stays there over a power cut is all that may be
        // missing.
        if let Err(error) = folder.sync_all() {
            tracing::warn!(path = %path.display(), %error, "could not sync the folder of a file");
        }

        Ok(())
    }

    fn read(&self) -> Result<Value, RegistrationsError> {
        let path = &self.registrations.path;
        let not_ours = || RegistrationsError::NotOurs(path.clone());
        match config::read_file(path) {
            Ok(text) => serde_json::from_str(&text).map_err(|_| not_ours()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(json!({"mcpServers": {}})),
            Err(source) => Err(RegistrationsError::Read { path: path.clone(), source }),
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
