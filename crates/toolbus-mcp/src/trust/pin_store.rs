//! The store of pins: a folder with one small file for each server, or memory.
//!
//! A file is replaced as a whole (temporary file, fsync, rename) under a lock, so that several
//! programs may share the folder and none sees half of one. A file that cannot be read is set
//! aside and said so. These functions block.
//!
//! Servers that agents register come and go without end, so their pins have a place of their own:
//! a mark beside them, and a number at which the ones that were used longest ago are forgotten.
//! They take no room from the operator's servers, and vouch for none of those.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use toolbus_json::Limits;

use super::pins::{PinDocument, PriorPins, ToolPinDocument, VERSION};
use crate::catalogue::CATALOGUE_BYTES_MAX;
use crate::server_name::ServerName;
use crate::small_file::{self, LockError, LockWait};
use memory_pins::MemoryPins;
use pin_folder::PinFolder;

mod memory_pins;
mod pin_folder;

/// Longest file that is read: the definitions of a server, those held back, and what JSON adds.
const FILE_BYTES_MAX: u64 = 6 * CATALOGUE_BYTES_MAX as u64;
/// What a file may have. One with as many pins as there may be has half as many values.
const FILE_LIMITS: Limits = Limits::of_bytes(FILE_BYTES_MAX as usize).with_values(1 << 20);
/// What a file may have of which only the form is read.
const FORM_LIMITS: Limits = FILE_LIMITS.with_values(usize::MAX).with_depth(usize::MAX);
/// Most servers of the operator whose pins are kept.
const SERVERS_MAX: usize = 4_096;
/// Most servers that agents have registered whose pins are kept: several times as many as there can
/// be at a time.
const REGISTERED_MAX: usize = 1_024;
/// How a lock is waited for that another program holds.
const LOCK_WAIT: LockWait =
    LockWait { timeout: Duration::from_secs(2), interval: Duration::from_millis(10) };

/// How often a lock is taken that turns out to have been removed.
const LOCK_TRIES: u32 = 8;
/// The ending of a mark.
const MARK: &str = "registered";

/// The pins of many servers. Clones are the same.
#[derive(Debug, Clone)]
pub struct Pins(Arc<PinStorage>);

#[derive(Debug)]
enum PinStorage {
    Memory(Mutex<MemoryPins>),
    Folder(PinFolder),
}

/// Whose a server is that has pins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PinOwner {
    /// The operator's.
    Operator,
    /// An agent has registered it.
    Agent,
}

/// How many servers may have pins.
#[derive(Debug, Clone, Copy)]
struct PinLimits {
    operators: usize,
    registered: usize,
}

impl Default for PinLimits {
    fn default() -> Self {
        Self { operators: SERVERS_MAX, registered: REGISTERED_MAX }
    }
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

/// The stamp of a file, which is another once the file has been replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileStamp {
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
        Self(Arc::new(PinStorage::Memory(Mutex::new(MemoryPins::new(PinLimits::default())))))
    }

    /// Pins in this folder, which is made where it is missing, for this user alone.
    ///
    /// # Errors
    /// When the folder cannot be made or written to.
    pub fn in_folder(path: impl Into<PathBuf>) -> Result<Self, Error> {
        Self::in_limited_folder(path.into(), PinLimits::default())
    }

    fn in_limited_folder(path: PathBuf, limits: PinLimits) -> Result<Self, Error> {
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
            _ => Ok(Self(Arc::new(PinStorage::Folder(PinFolder { path, limits })))),
        }
    }

    /// Whether the pins outlive this process.
    #[must_use]
    pub fn are_persistent(&self) -> bool {
        matches!(&*self.0, PinStorage::Folder(_))
    }

    /// Reads, edits and writes the pins of one server, which is this owner's, under a lock. `edit`
    /// says whether there is anything to write.
    pub(crate) fn update<R>(
        &self,
        server: &ServerName,
        owner: PinOwner,
        edit: impl FnOnce(&mut PinDocument, PriorPins) -> (R, bool),
    ) -> Result<(R, Option<FileStamp>), Error> {
        match &*self.0 {
            PinStorage::Memory(pins) => Ok((pins.lock().update(server, owner, edit), None)),
            PinStorage::Folder(folder) => {
                let file = PinPaths::new(&folder.path, server);
                let _lock = lock_file(&file.lock)?;
                if owner == PinOwner::Operator {
                    file.forget_registered()?;
                }

                let (mut document, prior) = file.load(server)?;
                if prior == PriorPins::First {
                    folder.make_room(owner)?;
                }
                if owner == PinOwner::Agent && (prior == PriorPins::First || file.is_registered()) {
                    file.mark_registered()?;
                }

                let (result, edited) = edit(&mut document, prior);
                if edited || prior != PriorPins::Known {
                    file.save(&document)?;
                }

                Ok((result, file_stamp(&file.document)))
            }
        }
    }

    /// Reads the pins of a server.
    pub(crate) fn read(&self, server: &ServerName) -> Option<PinDocument> {
        match &*self.0 {
            PinStorage::Memory(pins) => pins.lock().read(server),
            // Files are replaced as a whole, so reading one needs no lock.
            PinStorage::Folder(folder) => {
                match read_document(&PinPaths::new(&folder.path, server).document) {
                    Ok(Some(PinFile::Document(document))) => Some(document),
                    _ => None,
                }
            }
        }
    }

    /// Whose a server with pins is.
    pub(crate) fn owner_of(&self, server: &ServerName) -> PinOwner {
        match &*self.0 {
            PinStorage::Memory(pins) => pins.lock().owner_of(server),
            PinStorage::Folder(folder) => PinPaths::new(&folder.path, server).owner(),
        }
    }

    /// Every server that has pins.
    pub(crate) fn servers(&self) -> Result<Vec<ServerName>, Error> {
        let folder = match &*self.0 {
            PinStorage::Memory(pins) => return Ok(pins.lock().servers()),
            PinStorage::Folder(folder) => &folder.path,
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

    /// The stamp of a server's pins, to notice edits of other programs. `None` where there can be
    /// none.
    pub(crate) fn file_stamp(&self, server: &ServerName) -> Option<FileStamp> {
        match &*self.0 {
            PinStorage::Memory(_) => None,
            PinStorage::Folder(folder) => file_stamp(&PinPaths::new(&folder.path, server).document),
        }
    }
}

struct PinPaths {
    document: PathBuf,
    damaged: PathBuf,
    /// There for servers that agents have registered, and as old as their last listing.
    mark: PathBuf,
    lock: PathBuf,
}

enum PinFile {
    Document(PinDocument),
    Damaged(String),
    Newer,
}

impl PinPaths {
    fn new(folder: &Path, server: &ServerName) -> Self {
        let name = server.as_str().to_ascii_lowercase();
        let path = |ending: &str| folder.join(format!("{name}.{ending}"));
        Self {
            document: path("json"),
            damaged: path("json.damaged"),
            mark: path(MARK),
            lock: path("lock"),
        }
    }

    fn is_registered(&self) -> bool {
        self.mark.exists()
    }

    fn owner(&self) -> PinOwner {
        if self.is_registered() { PinOwner::Agent } else { PinOwner::Operator }
    }

    fn mark_registered(&self) -> Result<(), Error> {
        let marked = small_file::open_private(&self.mark)
            .and_then(|mark| mark.set_modified(std::time::SystemTime::now()));
        marked.map_err(|source| self.file_error(source))
    }

    /// Forgets what is pinned of a server that an agent has registered: it is another server than
    /// one of the operator's with its name.
    fn forget_registered(&self) -> Result<(), Error> {
        if !self.is_registered() {
            return Ok(());
        }
        let removed = [&self.document, &self.damaged, &self.mark].map(|path| remove_file(path));
        removed.into_iter().collect::<io::Result<()>>().map_err(|source| self.file_error(source))
    }

    fn load(&self, server: &ServerName) -> Result<(PinDocument, PriorPins), Error> {
        match read_document(&self.document).map_err(|source| self.file_error(source))? {
            Some(PinFile::Document(document)) => Ok((document, PriorPins::Known)),
            Some(PinFile::Newer) => Err(Error::Newer(self.document.clone())),
            None => Ok((PinDocument::new(server.as_str()), PriorPins::First)),
            Some(PinFile::Damaged(why)) => {
                // Copied: until a new one takes its place, the damaged file says that there were
                // pins.
                fs::copy(&self.document, &self.damaged)
                    .map_err(|source| self.file_error(source))?;
                tracing::error!(
                    %server,
                    why,
                    set_aside = %self.damaged.display(),
                    "the pins of a server cannot be read, so changes of its tools cannot be seen"
                );
                Ok((PinDocument::new(server.as_str()), PriorPins::Lost))
            }
        }
    }

    fn save(&self, document: &PinDocument) -> Result<(), Error> {
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
fn lock_file(path: &Path) -> Result<File, Error> {
    let file_error = |source| Error::File { path: path.to_owned(), source };
    for _ in 0..LOCK_TRIES {
        let file = small_file::open_private(path).map_err(file_error)?;
        match LOCK_WAIT.lock(&file) {
            Ok(()) if is_at(&file, path) => return Ok(file),
            // It went with the pins of its server while it was waited for.
            Ok(()) => {}
            Err(LockError::Held) => return Err(Error::Locked(path.to_owned())),
            Err(LockError::File(source)) => return Err(file_error(source)),
        }
    }
    Err(Error::Locked(path.to_owned()))
}

/// Whether an open file is still the one at its path.
fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::metadata(path)) {
        (Ok(open), Ok(there)) => (open.dev(), open.ino()) == (there.dev(), there.ino()),
        _ => false,
    }
}

/// Removes a file. That it is not there is fine.
fn remove_file(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn read_document(path: &Path) -> io::Result<Option<PinFile>> {
    let bytes = match small_file::read_if_exists(path, FILE_BYTES_MAX) {
        Ok(Some(bytes)) => bytes,
        Ok(None) => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
            let why = format!("it has more than {FILE_BYTES_MAX} bytes");
            return Ok(Some(PinFile::Damaged(why)));
        }
        Err(error) => return Err(error),
    };

    // The form first: what a newer one means is not to be guessed, and not to be set aside.
    let form: Result<DocumentVersion, _> = toolbus_json::from_slice(&bytes, &FORM_LIMITS);
    Ok(Some(match form {
        Ok(form) if form.version > VERSION => PinFile::Newer,
        Ok(form) if form.version < VERSION => {
            match toolbus_json::from_slice::<ToolPinDocument>(&bytes, &FILE_LIMITS) {
                Ok(older) => PinFile::Document(older.into()),
                Err(error) => PinFile::Damaged(error.to_string()),
            }
        }
        _ => match toolbus_json::from_slice(&bytes, &FILE_LIMITS) {
            Ok(document) => PinFile::Document(document),
            Err(error) => PinFile::Damaged(error.to_string()),
        },
    }))
}

#[derive(serde::Deserialize)]
struct DocumentVersion {
    version: u32,
}

fn file_stamp(path: &Path) -> Option<FileStamp> {
    let file = fs::metadata(path).ok()?;
    Some(FileStamp {
        inode: file.ino(),
        modified: (file.mtime(), file.mtime_nsec()),
        length: file.len(),
    })
}

#[cfg(test)]
mod tests;
