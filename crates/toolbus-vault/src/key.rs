//! The key of the vault: where it comes from, and its name.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use ring::digest::{SHA256, digest};
use tokio::io::AsyncReadExt as _;
use tokio::process::Command;
use tokio::time::timeout;
use toolbus_config::{Finding, is_open_to_others, on_one_line, read_secret_file};
use zeroize::Zeroizing;

use crate::VaultError;

/// Bytes of a key: AES-256.
pub(crate) const KEY_BYTES: usize = 32;
/// Bytes of the name of a key, of which nobody comes to the key.
const NAME_BYTES: usize = 8;
/// How long the command that gives the key may take. Less than a server may take to connect.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(10);
/// The most that it may print, in bytes: a key, and some air around it.
const PRINTED_BYTES_MAX: usize = 256;

/// What credentials are sealed with. It is overwritten when it is dropped.
#[derive(Clone)]
pub struct VaultKey {
    bytes: Zeroizing<[u8; KEY_BYTES]>,
    name: String,
}

/// Where the key comes from.
#[derive(Debug, Clone)]
pub enum KeySource {
    /// A file that only its owner can access, as [`is_open_to_others`] defines it.
    File(PathBuf),
    /// A command, by its program and arguments, that prints it: the way to a service that manages
    /// keys.
    Command(Vec<String>),
    /// The key itself, of a program that has it from elsewhere.
    Given(VaultKey),
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
            Self::Given(key) => Ok(key.clone()),
        }
    }

    /// Looks whether the key can be had, for `doctor`.
    pub async fn examine(&self) -> Finding {
        match self.fetch().await {
            Ok(_) => Finding::ok("vault", "the key is there"),
            Err(error) => Finding::wrong("vault", on_one_line(&error))
                .mended_by("correct vault.key_file or vault.key_command"),
        }
    }
}

fn read_key_file(path: &Path) -> Result<VaultKey, VaultError> {
    let failed = |error| VaultError::NoKey(format!("{}: {error}", path.display()));
    if is_open_to_others(path).map_err(failed)? {
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
    asked.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    let answered = timeout(COMMAND_TIMEOUT, read_answer(asked.kill_on_drop(true))).await;
    let (printed, status) = answered
        .map_err(|_| failed(format!("no answer within {} s", COMMAND_TIMEOUT.as_secs())))?
        .map_err(|error| failed(error.to_string()))?;

    if !status.success() {
        return Err(failed(status.to_string()));
    }
    let text = str::from_utf8(&printed).map_err(|_| failed("it printed no text".to_owned()))?;
    VaultKey::parse(text)
}

/// What a command prints, and how it ended. Dropped before that, it kills the command.
async fn read_answer(command: &mut Command) -> io::Result<(Zeroizing<Vec<u8>>, ExitStatus)> {
    let mut child = command.spawn()?;
    // Room for more than all of it: what a buffer leaves where it was is not overwritten.
    let mut printed = Zeroizing::new(Vec::with_capacity(2 * PRINTED_BYTES_MAX));
    if let Some(stdout) = child.stdout.take() {
        let limit = u64::try_from(PRINTED_BYTES_MAX).unwrap_or(u64::MAX).saturating_add(1);
        stdout.take(limit).read_to_end(&mut printed).await?;
    }

    if printed.len() > PRINTED_BYTES_MAX {
        return Err(io::Error::other("it prints more than a key"));
    }
    Ok((printed, child.wait().await?))
}

#[cfg(test)]
mod tests;
