//! The file of the servers that agents have registered, so that a registration lasts. It looks like
//! an `mcp.json`, and it is ours: the operator's own file is never written for an agent.
//!
//! Invariant: nobody else in this process changes it, or acts on what it says, during a turn.

use std::path::{Path, PathBuf};

use parking_lot::{Mutex, MutexGuard};
use serde_json::{Map, Value};

use crate::config::REGISTERED_BY;
use crate::server_file::{ServerFile, ServerFileError};

/// The file. Its functions block.
#[derive(Debug)]
pub(crate) struct Registrations {
    file: ServerFile,
    turn: Mutex<()>,
}

/// A turn at the file: meanwhile nothing else in this process changes it, or acts on what it says.
pub(crate) struct RegistrationsTurn<'a> {
    registrations: &'a Registrations,
    _turn: MutexGuard<'a, ()>,
}

impl Registrations {
    /// Those in this file, which need not be there.
    pub(crate) fn at(path: PathBuf) -> Self {
        Self { file: ServerFile::at(path), turn: Mutex::new(()) }
    }

    pub(crate) fn path(&self) -> &Path {
        self.file.path()
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
    ) -> Result<(), ServerFileError> {
        let saved = self.registrations.file.edit(|servers| {
            servers.retain(|other, _| !other.eq_ignore_ascii_case(name));
            servers.insert(name.to_owned(), Value::Object(members));
            true
        });
        saved.map(|_| ())
    }

    /// The agent whose a registration is, if it is there and of a known one.
    pub(crate) fn owner_of(&self, name: &str) -> Result<Option<String>, ServerFileError> {
        let servers = self.registrations.file.servers()?;
        let members = servers.iter().find(|(other, _)| other.eq_ignore_ascii_case(name));
        let owner = members.and_then(|(_, members)| members[REGISTERED_BY].as_str());
        Ok(owner.map(str::to_owned))
    }

    /// Takes a server out, if it is there.
    pub(crate) fn remove(&self, name: &str) -> Result<(), ServerFileError> {
        self.registrations.file.remove(name).map(|_| ())
    }
}

#[cfg(test)]
mod tests;
