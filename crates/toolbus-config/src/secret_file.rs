//! Secrets out of files: passwords and keys. Their text is never part of an error.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;

use crate::Secret;

#[cfg(test)]
mod tests;

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
