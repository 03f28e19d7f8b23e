//! `grants`: makes signing keys and prints their public keys. It never prints a signing key.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use toolbus_config::on_one_line;
use toolbus_runtime::service::Exit;
use toolbus_tools::GrantSigningKey;
use toolbus_tools::grant::KeyError;
use toolbus_tools::grant::settings::{self, load_signing_key};

use super::{fail, print};
use crate::arguments::{GrantsCommand, GrantsOptions};

/// Mode of a signing key file: only its owner can read and write it.
const FILE_MODE: u32 = 0o600;

/// A failure to make or print a key.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("{0} already exists, and a key is never overwritten")]
    Exists(String),
    #[error("{0} cannot be written")]
    Write(String, #[source] io::Error),
    #[error(transparent)]
    Draw(#[from] KeyError),
    #[error(transparent)]
    Read(#[from] settings::Error),
}

/// Runs the command. It needs no settings.
pub(crate) fn run(options: &GrantsOptions) -> Exit {
    let done = match &options.command {
        GrantsCommand::NewKey { file } => make_key(file),
        GrantsCommand::PublicKey { file } => describe_public_key(file),
    };
    match done {
        Ok(line) => {
            print(&line);
            Exit::SUCCESS
        }
        Err(failure) => fail(on_one_line(&failure)),
    }
}

/// Writes a new signing key to a new file, and returns the line of its public key.
fn make_key(file: &Path) -> Result<String, Failure> {
    let name = || file.display().to_string();
    let key = GrantSigningKey::draw()?;
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(FILE_MODE);
    let mut opened = options.open(file).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => Failure::Exists(name()),
        _ => Failure::Write(name(), error),
    })?;

    let text = format!("{}\n", key.expose());
    let written = opened.write_all(text.as_bytes()).and_then(|()| opened.sync_all());
    if let Err(error) = written {
        // A partial key is useless, and the file would make the next attempt fail.
        let _ = fs::remove_file(file);
        return Err(Failure::Write(name(), error));
    }
    describe_public_key(file)
}

/// Formats the public key of a signing key as a line for workers, with the id of the key as a
/// comment.
fn describe_public_key(file: &Path) -> Result<String, Failure> {
    let key = load_signing_key(file)?;
    let public = key.public_key();
    Ok(format!("{public} {}\n", public.id()))
}

#[cfg(test)]
mod tests;
