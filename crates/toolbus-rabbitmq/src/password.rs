//! The broker's password out of a file, as it is at this moment. It is never part of an error.

use std::io;
use std::path::Path;

use tokio::io::AsyncReadExt as _;

use crate::ConnectError;

#[cfg(test)]
mod tests;

/// Longest password that is taken, in bytes.
const BYTES_MAX: usize = 1024;

/// Reads the password; line ends after it do not count.
pub(crate) async fn read(file: &Path) -> Result<String, ConnectError> {
    let text = read_password(file).await;
    text.map_err(|source| ConnectError::Password { file: file.to_owned(), source })
}

async fn read_password(file: &Path) -> io::Result<String> {
    let wrong = |reason| io::Error::new(io::ErrorKind::InvalidInput, reason);
    // Opening a pipe would wait for somebody to write into it.
    if !tokio::fs::metadata(file).await?.is_file() {
        return Err(wrong("it is not a file"));
    }

    let mut text = String::new();
    // One byte more than a password may have shows that there is more.
    let limit = u64::try_from(BYTES_MAX + 1).expect("it is small");
    tokio::fs::File::open(file).await?.take(limit).read_to_string(&mut text).await?;
    let password = text.trim_end_matches(['\r', '\n']);

    match password.len() {
        0 => Err(wrong("it is empty")),
        length if length > BYTES_MAX => Err(wrong("it is too long")),
        _ => Ok(password.to_owned()),
    }
}
