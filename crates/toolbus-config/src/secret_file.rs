//! Secrets out of files: passwords and keys. Their text is never part of an error.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;

use crate::Secret;

#[cfg(test)]
mod tests;

/// Permission of the group to read the file.
#[cfg(unix)]
const GROUP_READ: u32 = 0o040;
/// All permissions of users other than the owner.
#[cfg(unix)]
const OTHERS: u32 = 0o077;

/// Longest line end, in bytes: most programs that write a file end it with one.
const LINE_END_BYTES_MAX: usize = "\r\n".len();

/// Reads the secret that a file holds, of `bytes_max` bytes at most. Line ends after it do not
/// count; an empty file is an empty secret.
///
/// It blocks for as long as the file system does.
///
/// # Errors
/// When the file cannot be read, is not a regular file or is not UTF-8; with
/// [`io::ErrorKind::FileTooLarge`] when it holds more.
pub fn read_secret_file(path: &Path, bytes_max: usize) -> io::Result<Secret> {
    let refuse = |kind, reason: &str| Err(io::Error::new(kind, reason));
    // Opening a named pipe would wait until somebody writes into it.
    if !fs::metadata(path)?.is_file() {
        return refuse(io::ErrorKind::InvalidInput, "it is not a file");
    }

    let mut bytes = Vec::new();
    let whole_bytes_max = bytes_max.saturating_add(LINE_END_BYTES_MAX);
    // One byte more than the file may have shows that there is more.
    let limit = u64::try_from(whole_bytes_max).unwrap_or(u64::MAX).saturating_add(1);
    File::open(path)?.take(limit).read_to_end(&mut bytes)?;
    if bytes.len() > whole_bytes_max {
        return refuse(io::ErrorKind::FileTooLarge, "it is too long");
    }

    // Its error would hold the text.
    let Ok(text) = String::from_utf8(bytes) else {
        return refuse(io::ErrorKind::InvalidData, "it is not UTF-8 text");
    };
    let secret = text.trim_end_matches(['\r', '\n']);
    if secret.len() > bytes_max {
        return refuse(io::ErrorKind::FileTooLarge, "it is too long");
    }

    Ok(secret.to_owned().into())
}

/// Reads a secret, as [`read_secret_file`] does, from a file that is private to its owner (see
/// [`is_open_to_others`]).
///
/// # Errors
/// The errors of [`read_secret_file`], and [`io::ErrorKind::PermissionDenied`] if others can read
/// or change the file.
pub fn read_private_file(path: &Path, bytes_max: usize) -> io::Result<Secret> {
    if is_open_to_others(path)? {
        let reason = "others may read or change it: it must be its owner's alone (chmod 600)";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, reason));
    }

    read_secret_file(path, bytes_max)
}

/// Returns true if users other than its owner can read or change a file.
///
/// The check allows wider permissions for two kinds of files. Kubernetes gives a secret to a pod as
/// a file of root that its group can read. Docker mounts a secret into a container as a single file
/// with the permissions of the host, where the folder of the file protects it.
///
/// # Errors
/// If the file does not exist, or the reader may not access it.
#[cfg(unix)]
pub fn is_open_to_others(path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt as _;

    let metadata = fs::metadata(path)?;
    let is_for_group = metadata.uid() == 0 && !rustix::process::geteuid().is_root();
    let allowed = if is_for_group { GROUP_READ } else { 0 };
    Ok(metadata.mode() & OTHERS & !allowed != 0 && !is_mount_point(path))
}

/// Returns true if users other than its owner can read or change a file. Always false on systems
/// without Unix permissions.
///
/// # Errors
/// If the file does not exist, or the reader may not access it.
#[cfg(not(unix))]
pub fn is_open_to_others(path: &Path) -> io::Result<bool> {
    fs::metadata(path).map(|_| false)
}

/// Returns true for a file that is itself a mount point. Needs Linux 5.8 or later.
#[cfg(target_os = "linux")]
fn is_mount_point(path: &Path) -> bool {
    use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, statx};

    let status = statx(CWD, path, AtFlags::empty(), StatxFlags::BASIC_STATS);
    status.is_ok_and(|status| status.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

/// Returns true for a file that is itself a mount point. Only Linux has such mounts.
#[cfg(all(unix, not(target_os = "linux")))]
fn is_mount_point(_path: &Path) -> bool {
    false
}
