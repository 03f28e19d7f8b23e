//! Where pins are kept: a folder with one small file for each server, or memory.
//!
//! A file is replaced as a whole (temporary file, fsync, rename) under a lock, so that several
//! programs may share the folder and none sees half of one. A file that cannot be read is set
//! aside and said so. These functions block.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::pins::{Document, Sight, VERSION};
use crate::catalogue::CATALOGUE_BYTES_MAX;
use crate::server_name::ServerName;
use crate::small_file::{self, LockError, LockPatience};

/// Longest file that is read: the definitions of a server, those held back, and what JSON adds.
const FILE_BYTES_MAX: u64 = 6 * CATALOGUE_BYTES_MAX as u64;
/// Most servers whose pins are kept.
const SERVERS_MAX: usize = 4_096;
/// How a lock is waited for that another program holds.
const LOCK_PATIENCE: LockPatience =
    LockPatience { timeout: Duration::from_secs(2), interval: Duration::from_millis(10) };

/// The pins of many servers. Clones are the same.
#[derive(Debug, Clone)]
pub struct Pins(Arc<Kind>);

#[derive(Debug)]
enum Kind {
    Memory(Mutex<HashMap<ServerName, Document>>),
    Folder(PathBuf),
}

/// Why pins cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file system refuses.
    #[error("{} cannot be used", path.display())]
    File {
        /// The file or the folder.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Another program holds the file.
    #[error("{} is locked by another program", .0.display())]
    Locked(PathBuf),
    /// A newer version of this program wrote the file.
    #[error("{} is of a newer form than this program knows", .0.display())]
    Newer(PathBuf),
    /// There are too many servers in the folder.
    #[error("{} holds the pins of {SERVERS_MAX} servers already", .0.display())]
    Full(PathBuf),
}

/// What tells one state of a file from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    inode: u64,
    modified: (i64, i64),
    length: u64,
}

impl Default for Pins {
    fn default() -> Self {
        Self::in_memory()
    }
}

impl Pins {
    /// Pins that end with this process.
    #[must_use]
    pub fn in_memory() -> Self {
        Self(Arc::new(Kind::Memory(Mutex::default())))
    }

    /// Pins in this folder, which is made where it is missing, for this user alone.
    ///
    /// # Errors
    /// When the folder cannot be made or written to.
    pub fn in_folder(path: impl Into<PathBuf>) -> Result<Self, Error> {
        let path = path.into();
        let probe = path.join(".writable");
        let write_probe = || {
            small_file::create_folder(&path)?;
            small_file::open_private(&probe)?;
            fs::remove_file(&probe)
        };

        match write_probe() {
            // Another program has removed the same probe.
            Err(source) if source.kind() != io::ErrorKind::NotFound || !path.is_dir() => {
                Err(Error::File { path, source })
            }
            _ => Ok(Self(Arc::new(Kind::Folder(path)))),
        }
    }

    /// Whether they outlive this process.
    #[must_use]
    pub fn are_kept(&self) -> bool {
        matches!(&*self.0, Kind::Folder(_))
    }

    /// Reads, edits and writes what is known of one server, alone. `edit` says whether there is
    /// anything to write.
    pub(crate) fn update<R>(
        &self,
        server: &ServerName,
        edit: impl FnOnce(&mut Document, Sight) -> (R, bool),
    ) -> Result<(R, Option<Stamp>), Error> {
        match &*self.0 {
            Kind::Memory(documents) => {
                let mut documents = documents.lock();
                let known = documents.contains_key(server);
                let sight = if known { Sight::Known } else { Sight::First };
                let document = documents
                    .entry(server.clone())
                    .or_insert_with(|| Document::new(server.as_str()));
                Ok((edit(document, sight).0, None))
            }
            Kind::Folder(folder) => {
                let file = Paths::new(folder, server);
                let _lock = lock(&file.lock)?;
                let (mut document, sight) = file.load(server)?;
                if sight == Sight::First {
                    file.check_room(folder)?;
                }
                let (result, edited) = edit(&mut document, sight);
                if edited || sight != Sight::Known {
                    file.save(&document)?;
                }
                Ok((result, stamp(&file.document)))
            }
        }
    }

    /// What is known of a server, without a change of anything.
    pub(crate) fn read(&self, server: &ServerName) -> Option<Document> {
        match &*self.0 {
            Kind::Memory(documents) => documents.lock().get(server).cloned(),
            // Files are replaced as a whole, so reading one needs no lock.
            Kind::Folder(folder) => match read(&Paths::new(folder, server).document) {
                Ok(Some(Read::Document(document))) => Some(document),
                _ => None,
            },
        }
    }

    /// Every server of which anything is kept.
    pub(crate) fn servers(&self) -> Result<Vec<ServerName>, Error> {
        let folder = match &*self.0 {
            Kind::Memory(documents) => return Ok(documents.lock().keys().cloned().collect()),
            Kind::Folder(folder) => folder,
        };
        let failed = |source| Error::File { path: folder.clone(), source };
        let mut servers = Vec::new();
        for file in fs::read_dir(folder).map_err(failed)? {
            let name = file.map_err(failed)?.file_name();
            let name = name.to_str().and_then(|name| name.strip_suffix(".json"));
            servers.extend(name.and_then(|name| ServerName::parse(name).ok()));
        }
        servers.sort_unstable_by(|one, other| one.as_str().cmp(other.as_str()));
        Ok(servers)
    }

    /// What tells whether another program has changed what is known of a server. `None` where
    /// nobody else can.
    pub(crate) fn stamp(&self, server: &ServerName) -> Option<Stamp> {
        match &*self.0 {
            Kind::Memory(_) => None,
            Kind::Folder(folder) => stamp(&Paths::new(folder, server).document),
        }
    }
}

struct Paths {
    document: PathBuf,
    damaged: PathBuf,
    lock: PathBuf,
}

enum Read {
    Document(Document),
    Damaged(String),
    Newer,
}

impl Paths {
    fn new(folder: &Path, server: &ServerName) -> Self {
        let name = server.as_str().to_ascii_lowercase();
        let path = |ending: &str| folder.join(format!("{name}.{ending}"));
        Self { document: path("json"), damaged: path("json.damaged"), lock: path("lock") }
    }

    fn load(&self, server: &ServerName) -> Result<(Document, Sight), Error> {
        match read(&self.document).map_err(|source| self.file_error(source))? {
            Some(Read::Document(document)) => Ok((document, Sight::Known)),
            Some(Read::Newer) => Err(Error::Newer(self.document.clone())),
            None => Ok((Document::new(server.as_str()), Sight::First)),
            Some(Read::Damaged(why)) => {
                // Copied: until a new one takes its place, the damaged file says that there were pins.
                fs::copy(&self.document, &self.damaged)
                    .map_err(|source| self.file_error(source))?;
                tracing::error!(
                    %server,
                    why,
                    set_aside = %self.damaged.display(),
                    "the pins of a server cannot be read: what its tools were before is not known"
                );
                Ok((Document::new(server.as_str()), Sight::Lost))
            }
        }
    }

    fn check_room(&self, folder: &Path) -> Result<(), Error> {
        let files = fs::read_dir(folder).map_err(|source| self.file_error(source))?;
        let documents = files
            .flatten()
            .filter(|file| file.path().extension().is_some_and(|extension| extension == "json"));
        if documents.count() >= SERVERS_MAX {
            return Err(Error::Full(folder.to_owned()));
        }
        Ok(())
    }

    fn save(&self, document: &Document) -> Result<(), Error> {
        let text = serde_json::to_string_pretty(document)
            .map_err(|error| self.file_error(io::Error::from(error)))?;

        small_file::replace_and_sync(&self.document, format!("{text}\n").as_bytes())
            .map_err(|source| self.file_error(source))
    }

    fn file_error(&self, source: io::Error) -> Error {
        Error::File { path: self.document.clone(), source }
    }
}

/// Opens and locks a file, until it is dropped.
fn lock(path: &Path) -> Result<File, Error> {
    let file_error = |source| Error::File { path: path.to_owned(), source };
    let file = small_file::open_private(path).map_err(file_error)?;

    match LOCK_PATIENCE.lock(&file) {
        Ok(()) => Ok(file),
        Err(LockError::Held) => Err(Error::Locked(path.to_owned())),
        Err(LockError::File(source)) => Err(file_error(source)),
    }
}

fn read(path: &Path) -> io::Result<Option<Read>> {
    let bytes = match small_file::read_if_exists(path, FILE_BYTES_MAX) {
        Ok(Some(bytes)) => bytes,
        Ok(None) => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
            let why = format!("it has more than {FILE_BYTES_MAX} bytes");
            return Ok(Some(Read::Damaged(why)));
        }
        Err(error) => return Err(error),
    };

    // The form first: what a newer one means is not to be guessed, and not to be set aside.
    let form: Result<Form, _> = serde_json::from_slice(&bytes);
    Ok(Some(match form {
        Ok(form) if form.version > VERSION => Read::Newer,
        _ => match serde_json::from_slice(&bytes) {
            Ok(document) => Read::Document(document),
            Err(error) => Read::Damaged(error.to_string()),
        },
    }))
}

#[derive(serde::Deserialize)]
struct Form {
    version: u32,
}

fn stamp(path: &Path) -> Option<Stamp> {
    let file = fs::metadata(path).ok()?;
    Some(Stamp {
        inode: file.ino(),
        modified: (file.mtime(), file.mtime_nsec()),
        length: file.len(),
    })
}

#[cfg(test)]
mod tests;
