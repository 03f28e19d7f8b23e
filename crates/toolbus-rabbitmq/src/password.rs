//! The broker's password out of a file, as it is at this moment. It is never part of an error.

use std::io;
use std::path::Path;

use toolbus_config::read_secret_file;

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
    let file = file.to_owned();
    // Off the runtime's threads: the file may be on a slow volume.
    let reading = tokio::task::spawn_blocking(move || read_secret_file(&file, BYTES_MAX));
    let password = reading.await.map_err(io::Error::other)??;

    if password.expose().is_empty() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is empty"));
    }

    Ok(password.expose().to_owned())
}
