//! The folder of installed sets.
//!
//! Each set has a folder under the name of its content (a digest of the requirements and of the
//! interpreter) and a lock file beside it, for this process and for others: held exclusively while
//! it is installed or removed, shared while a script uses it. A set appears by one rename, whole or
//! not at all. The lock file's time of change says when the set was last used.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::ops::Deref;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, lchown};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::nonce;

const STAGING: &str = ".staging";
const LOCK: &str = ".lock";
/// Holds the size of a set, in bytes.
const SIZE: &str = ".size";

/// The package cache: installed sets on disk.
#[derive(Debug)]
pub(crate) struct PackageCache {
    directory: PathBuf,
    bytes_max: u64,
}

/// A cached set that is not evicted while this is held.
#[derive(Debug)]
pub(crate) struct CachedSet {
    _lock: FileLock,
}

/// A file to lock, which is unlocked when this is dropped. That it is closed then would not do: a
/// child that is being forked has it, too, until it runs its own program.
#[derive(Debug)]
pub(crate) struct FileLock(File);

impl Deref for FileLock {
    type Target = File;

    fn deref(&self) -> &File {
        &self.0
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // What cannot be unlocked is so when it is closed everywhere.
        let _ = self.0.unlock();
    }
}

impl PackageCache {
    /// Opens the folder, makes it when there is none, and removes what was left half-made.
    /// `mode` is that of the folder: others need to pass through it when root's scripts run as
    /// somebody else.
    pub(crate) fn open(directory: &Path, mode: u32, bytes_max: u64) -> io::Result<Self> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        let directory = directory.canonicalize()?;
        fs::set_permissions(&directory, fs::Permissions::from_mode(mode))?;

        let cache = Self { directory, bytes_max };
        for (name, path) in cache.list_entries()? {
            // The lock says more than a process's number, which may be that of another container.
            if name.starts_with(STAGING) && FileLock(File::open(&path)?).try_lock().is_ok() {
                fs::remove_dir_all(path)?;
            }
        }

        Ok(cache)
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Takes the set under this key with a shared lock; `None` when it is missing or being
    /// installed.
    pub(crate) fn try_hold(&self, key: &str) -> io::Result<Option<CachedSet>> {
        let lock = self.open_lock_file(key)?;
        match lock.try_lock_shared() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }

        let tree = self.directory.join(key);
        if !self.is_current(key, &lock) || !is_real_folder(&tree) {
            return Ok(None);
        }

        lock.set_modified(SystemTime::now())?;
        Ok(Some(CachedSet { _lock: lock }))
    }

    /// Takes the exclusive lock to install or remove the set under this key; `None` while another
    /// process holds it or uses the set. Dropping it releases the lock.
    pub(crate) fn try_claim(&self, key: &str) -> io::Result<Option<FileLock>> {
        let lock = self.open_lock_file(key)?;
        match lock.try_lock() {
            Ok(()) => Ok(self.is_current(key, &lock).then_some(lock)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// A new empty folder to install into.
    pub(crate) fn create_staging(&self) -> io::Result<StagingFolder> {
        let path = self.directory.join(nonce::unique_name(STAGING));
        fs::DirBuilder::new().mode(0o700).create(&path)?;
        let lock = FileLock(File::open(&path)?);
        lock.try_lock()?;
        Ok(StagingFolder { path, _lock: lock })
    }

    /// Publishes `tree`, below the staging folder, as the set under `key`. The caller holds the
    /// claim, and nothing runs any more that could change the tree. What an installer left in it is
    /// not trusted: links are neither published nor written through.
    pub(crate) fn publish(&self, key: &str, tree: &Path) -> io::Result<()> {
        if !is_real_folder(tree) {
            return Err(io::Error::other("the installer left something else than a folder"));
        }

        let bytes = disk_usage(tree)?;
        let mut size = OpenOptions::new().write(true).create_new(true).open(tree.join(SIZE))?;
        size.write_all(bytes.to_string().as_bytes())?;

        fs::rename(tree, self.directory.join(key))
    }

    /// Evicts sets that are not in use where there are too many; `false` when there is no room for
    /// another, because those in use take up all of it.
    pub(crate) fn make_room(&self) -> io::Result<bool> {
        Ok(self.evict_down_to(self.bytes_max)? < self.bytes_max)
    }

    /// Evicts the least recently used sets until the rest fits. Sets in use stay.
    pub(crate) fn evict_unused(&self) -> io::Result<()> {
        self.evict_down_to(self.bytes_max).map(drop)
    }

    /// The same with a limit; returns how many bytes are left.
    fn evict_down_to(&self, bytes_max: u64) -> io::Result<u64> {
        let mut sets = Vec::new();

        for (name, path) in self.list_entries()? {
            if name.starts_with('.') || name.ends_with(LOCK) {
                continue;
            }
            let used = fs::metadata(self.lock_path(&name)).and_then(|lock| lock.modified());
            let recorded = fs::read_to_string(path.join(SIZE)).ok();
            let bytes = recorded.and_then(|size| size.parse().ok());
            let bytes = bytes.map_or_else(|| disk_usage(&path), Ok)?;
            sets.push((used.unwrap_or(SystemTime::UNIX_EPOCH), name, bytes));
        }

        let mut total: u64 = sets.iter().map(|(_, _, bytes)| bytes).sum();
        sets.sort();

        for (_, key, bytes) in sets {
            if total <= bytes_max {
                break;
            }
            if let Some(claim) = self.try_claim(&key)? {
                self.remove_set(&key)?;
                total -= bytes;
                drop(claim);
            }
        }

        Ok(total)
    }

    /// Removes a set. It is renamed first, so that no reader finds half of it.
    fn remove_set(&self, key: &str) -> io::Result<()> {
        let trash = self.create_staging()?;
        fs::rename(self.directory.join(key), trash.path.join(key))?;
        fs::remove_file(self.lock_path(key))
    }

    fn lock_path(&self, key: &str) -> PathBuf {
        self.directory.join(format!("{key}{LOCK}"))
    }

    fn open_lock_file(&self, key: &str) -> io::Result<FileLock> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        options.open(self.lock_path(key)).map(FileLock)
    }

    /// Whether the locked file still is the one under its name: it may have been removed between
    /// opening and locking.
    fn is_current(&self, key: &str, lock: &File) -> bool {
        let identity = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
        match (lock.metadata(), fs::metadata(self.lock_path(key))) {
            (Ok(locked), Ok(named)) => identity(locked) == identity(named),
            _ => false,
        }
    }

    fn list_entries(&self) -> io::Result<Vec<(String, PathBuf)>> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(&self.directory)? {
            let entry = entry?;
            // A name that is not UTF-8 is not ours.
            if let Ok(name) = entry.file_name().into_string() {
                entries.push((name, entry.path()));
            }
        }
        Ok(entries)
    }
}

/// A folder that is removed when it is no longer needed, with what was not published of it.
#[derive(Debug)]
pub(crate) struct StagingFolder {
    pub(crate) path: PathBuf,
    /// Marks the folder as in use.
    _lock: FileLock,
}

impl Drop for StagingFolder {
    fn drop(&mut self) {
        // What cannot be removed now is removed when the cache is opened the next time.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Whether there is a folder of this name, and not a link to one.
fn is_real_folder(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir())
}

/// Changes the owner of a folder and everything in it to this user and the group of the same id.
pub(crate) fn change_owner(folder: &Path, id: u32) -> io::Result<()> {
    let mut open = vec![folder.to_path_buf()];
    while let Some(path) = open.pop() {
        lchown(&path, Some(id), Some(id))?;
        if fs::symlink_metadata(&path)?.is_dir() {
            for entry in fs::read_dir(&path)? {
                open.push(entry?.path());
            }
        }
    }

    Ok(())
}

/// Disk usage of a folder, in bytes. Links are not followed; files that vanish meanwhile count as
/// nothing.
pub(crate) fn disk_usage(folder: &Path) -> io::Result<u64> {
    let mut total = 0;

    let mut open = vec![folder.to_path_buf()];
    while let Some(folder) = open.pop() {
        let entries = match fs::read_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let Ok(metadata) = entry.metadata() else { continue };
            total += metadata.blocks() * 512;
            if metadata.is_dir() {
                open.push(entry.path());
            }
        }
    }

    Ok(total)
}

#[cfg(test)]
mod tests;
