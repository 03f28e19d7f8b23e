//! The key of the vault: where it comes from, and its name.

use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use ring::digest::{SHA256, digest};
use tokio::process::Command;
use tokio::time::timeout;
use toolbus_config::read_secret_file;
use zeroize::Zeroizing;

use crate::VaultError;

/// Bytes of a key: AES-256.
pub(crate) const KEY_BYTES: usize = 32;
/// Bytes of the name of a key, of which nobody comes to the key.
const NAME_BYTES: usize = 8;
/// How long the command that gives the key may take.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(30);

/// What credentials are sealed with. It is overwritten when it is dropped.
#[derive(Clone)]
pub struct VaultKey {
    bytes: Zeroizing<[u8; KEY_BYTES]>,
    name: String,
}

/// Where the key comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeySource {
    /// A file that nobody but its owner may read.
    File(PathBuf),
    /// A command, by its program and arguments, that prints it: the way to a service that manages
    /// keys.
    Command(Vec<String>),
}

impl VaultKey {
    /// The key of this text: 64 hexadecimal digits, as `openssl rand -hex 32` prints them.
    ///
    /// # Errors
    /// When it is something else; it is not quoted.
    pub fn parse(text: &str) -> Result<Self, VaultError> {
        let expected = || VaultError::NoKey("expected 64 hexadecimal digits".to_owned());
        let digits = text.trim().as_bytes();
        if digits.len() != 2 * KEY_BYTES {
            return Err(expected());
        }

        let mut bytes = Zeroizing::new([0; KEY_BYTES]);
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let digit = |digit: u8| char::from(digit).to_digit(16);
            let (high, low) = digit(pair[0]).zip(digit(pair[1])).ok_or_else(expected)?;
            *byte = u8::try_from(high << 4 | low).map_err(|_| expected())?;
        }
        Ok(Self::of(bytes))
    }

    fn of(bytes: Zeroizing<[u8; KEY_BYTES]>) -> Self {
        let mut named = Zeroizing::new(b"toolbus vault key: ".to_vec());
        named.extend_from_slice(&*bytes);
        let digest = digest(&SHA256, &named);
        let name = digest.as_ref()[..NAME_BYTES].iter().map(|byte| format!("{byte:02x}")).collect();
        Self { bytes, name }
    }

    /// The name that tells keys apart.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn bytes(&self) -> &[u8; KEY_BYTES] {
        &self.bytes
    }
}

impl fmt::Debug for VaultKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VaultKey({})", self.name)
    }
}

impl KeySource {
    /// Fetches the key.
    ///
    /// # Errors
    /// When it cannot be had, others may read its file, or it is no key.
    pub async fn fetch(&self) -> Result<VaultKey, VaultError> {
        match self {
            Self::File(path) => read_key_file(path),
            Self::Command(command) => ask_command(command).await,
        }
    }
}

fn read_key_file(path: &Path) -> Result<VaultKey, VaultError> {
    let failed = |error| VaultError::NoKey(format!("{}: {error}", path.display()));
    let mode = fs::metadata(path).map_err(failed)?.mode();
    if mode & 0o077 != 0 {
        return Err(VaultError::OpenKeyFile(path.to_owned()));
    }
    VaultKey::parse(read_secret_file(path, 2 * KEY_BYTES).map_err(failed)?.expose())
}

/// What the command prints on its standard error is its operator's to read, and is not passed on:
/// it may hold what the key is fetched with.
async fn ask_command(command: &[String]) -> Result<VaultKey, VaultError> {
    let Some((program, arguments)) = command.split_first() else {
        return Err(VaultError::NoKey("its command is empty".to_owned()));
    };
    let failed = |reason: String| VaultError::NoKey(format!("{program}: {reason}"));

    let mut asked = Command::new(program);
    asked.args(arguments).stdin(Stdio::null()).stderr(Stdio::inherit()).kill_on_drop(true);
    let output = timeout(COMMAND_TIMEOUT, asked.output()).await;
    let output = output
        .map_err(|_| failed(format!("no answer within {} s", COMMAND_TIMEOUT.as_secs())))?
        .map_err(|error| failed(error.to_string()))?;

    let printed = Zeroizing::new(output.stdout);
    if !output.status.success() {
        return Err(failed(output.status.to_string()));
    }
    let text = str::from_utf8(&printed).map_err(|_| failed("it printed no text".to_owned()))?;
    VaultKey::parse(text)
}

#[cfg(test)]
mod tests;
