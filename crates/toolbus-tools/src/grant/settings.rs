//! The section `grants` of the settings: of who seals requests, and of who checks them.

use std::io;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolbus_config::{Mistakes, Secret, read_private_file, read_secret_file};

use super::check::{GrantCheck, GrantCheckKeys, GrantPolicy};
use super::key_pair::{GrantPublicKey, GrantSigningKey, KeyError};
use super::shared_key::{GrantKey, KEY_BYTES_MIN, KeyTooShort};
use super::signer::GrantSigner;

/// The name of the section.
const SECTION: &str = "grants";
/// Longest key that is taken out of a file, in bytes.
const KEY_BYTES_MAX: usize = 1024;
/// Maximum size of a file of public keys, in bytes.
const PUBLIC_KEYS_BYTES_MAX: usize = 64 * 1024;

/// Grants for workers. An agent adds one to every request that has passed its gates. Without a key,
/// requests carry no grants.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct GrantSettings {
    /// File of the key that signs grants, as `agent-host grants new-key` writes it, or an Ed25519
    /// key in PKCS#8 PEM. Only its owner may have access to it. Workers have the public half, which
    /// cannot sign. Read at startup.
    pub signing_key_file: Option<PathBuf>,
    /// Key that agents and workers share: at least 32 random bytes as text, such as the output of
    /// `openssl rand -hex 32`. If `signing_key_file` is set too, requests carry both kinds of
    /// grants, for workers that do not support signed grants.
    pub key: Option<Secret>,
    /// File of the shared key, as an alternative to `key`. Read at startup.
    pub key_file: Option<PathBuf>,
}

/// Grants of the agents whose requests a worker takes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct GrantCheckSettings {
    /// Whether every request needs a valid grant that runs, changes or reads something. With a key
    /// and without this, a request with a grant that is not valid is refused, and one without any
    /// is taken.
    pub required: bool,
    /// File of the agents' public keys, one on each line, as `agent-host grants new-key` and
    /// `agent-host grants public-key` print them; at most 256. Read at startup.
    pub public_keys_file: Option<PathBuf>,
    /// Accept grants by the shared key in addition to signed ones. Set it to `false` once every
    /// agent signs: a worker that has the shared key can make such grants itself.
    pub accept_shared_key: bool,
    /// Key that agents and workers share, the same as the agents' `key`. Without it and
    /// `public_keys_file`, grants are not checked.
    pub key: Option<Secret>,
    /// File of the shared key, as an alternative to `key`. Read at startup.
    pub key_file: Option<PathBuf>,
    /// Previous shared key, whose grants count too. Set it while agents switch to the new key.
    pub previous_key: Option<Secret>,
    /// File of the previous shared key, as an alternative to `previous_key`.
    pub previous_key_file: Option<PathBuf>,
}

impl Default for GrantCheckSettings {
    fn default() -> Self {
        Self {
            required: false,
            public_keys_file: None,
            accept_shared_key: true,
            key: None,
            key_file: None,
            previous_key: None,
            previous_key_file: None,
        }
    }
}

/// Why there is no key, or no check by one. What a key is, is not told.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Its file cannot be read.
    #[error("the key of grants cannot be read from {}", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The file does not contain a usable key.
    #[error("the key of grants in {} cannot be used", file.display())]
    Key {
        /// Path of the file.
        file: PathBuf,
        /// Cause of the error.
        #[source]
        source: KeyError,
    },
    /// It is too short.
    #[error(transparent)]
    TooShort(#[from] KeyTooShort),
    /// Grants are required, and there is no key to check them with.
    #[error("grants are required, and no key is set to check them with")]
    KeyMissing,
}

impl GrantSettings {
    /// Adds what is wrong with them.
    pub fn check(&self, mistakes: &mut Mistakes<'_>) {
        check_key("key", self.key.as_ref(), self.key_file.as_deref(), mistakes);
    }

    /// Returns true if a key is set, so that requests carry a grant.
    #[must_use]
    pub fn has_key(&self) -> bool {
        self.signing_key_file.is_some() || self.key.is_some() || self.key_file.is_some()
    }

    /// Returns a signer with the keys of these settings, or `None` if there is none.
    ///
    /// # Errors
    /// If a key cannot be read or used, or others can access the file of the signing key.
    pub fn load_signer(&self) -> Result<Option<GrantSigner>, Error> {
        let shared = load_key(self.key.as_ref(), self.key_file.as_deref())?;
        let signing = self.signing_key_file.as_deref().map(load_signing_key).transpose()?;
        Ok(GrantSigner::new(shared, signing))
    }
}

impl GrantCheckSettings {
    /// Adds what is wrong with them.
    pub fn check(&self, mistakes: &mut Mistakes<'_>) {
        let Self { key, key_file, previous_key, previous_key_file, .. } = self;
        check_key("key", key.as_ref(), key_file.as_deref(), mistakes);
        check_key("previous_key", previous_key.as_ref(), previous_key_file.as_deref(), mistakes);

        let has_shared = key.is_some() || key_file.is_some();
        let has_public = self.public_keys_file.is_some();
        if !has_shared && (previous_key.is_some() || previous_key_file.is_some()) {
            let what = "there is none before a key that is not set";
            mistakes.add(&format!("{SECTION}.previous_key"), what);
        }
        if has_shared && !has_public && !self.accept_shared_key {
            let what = "no key counts then: grants.public_keys_file must be set first";
            mistakes.add(&format!("{SECTION}.accept_shared_key"), what);
        }
        if self.required && !has_shared && !has_public {
            let what = "grants are checked with a key: grants.public_keys_file, or grants.key_file \
                        or grants.key, must be set";
            mistakes.add(&format!("{SECTION}.required"), what);
        }
    }

    /// The check that these settings ask for. `worker` is what callers are told who refuses.
    ///
    /// # Errors
    /// If a key cannot be read or used, or grants are required and there is no key.
    pub fn load_check(&self, worker: &'static str) -> Result<GrantCheck, Error> {
        let keys = self.load_keys()?;
        if keys.is_empty() {
            // These settings may never have gone through `check`.
            return if self.required { Err(Error::KeyMissing) } else { Ok(GrantCheck::off()) };
        }

        let policy = if self.required {
            GrantPolicy::Require
        } else {
            tracing::warn!("grants are checked, but requests without one are taken too");
            GrantPolicy::CheckPresent
        };

        Ok(GrantCheck::new(worker, policy, keys))
    }

    fn load_keys(&self) -> Result<GrantCheckKeys, Error> {
        let mut keys = GrantCheckKeys::default();
        if let Some(file) = self.public_keys_file.as_deref() {
            keys = keys.with_public(load_public_keys(file)?);
        }
        if !self.accept_shared_key {
            return Ok(keys);
        }

        let Some(key) = load_key(self.key.as_ref(), self.key_file.as_deref())? else {
            return Ok(keys);
        };
        keys = keys.with_shared(key);
        match load_key(self.previous_key.as_ref(), self.previous_key_file.as_deref())? {
            Some(previous) => Ok(keys.with_shared(previous)),
            None => Ok(keys),
        }
    }
}

fn check_key(name: &str, key: Option<&Secret>, file: Option<&Path>, mistakes: &mut Mistakes<'_>) {
    let Some(key) = key else { return };

    let bytes = trim_key(key.expose()).len();
    if bytes < KEY_BYTES_MIN {
        mistakes.add(&format!("{SECTION}.{name}"), KeyTooShort(bytes).to_string());
    }

    if file.is_some() {
        let what = format!("{SECTION}.{name} is set too, and only one of them can hold");
        mistakes.add(&format!("{SECTION}.{name}_file"), what);
    }
}

fn load_key(key: Option<&Secret>, file: Option<&Path>) -> Result<Option<GrantKey>, Error> {
    let text = match (key, file) {
        (Some(key), _) => key.clone(),
        (None, Some(file)) => {
            let read = read_secret_file(file, KEY_BYTES_MAX);
            read.map_err(|source| Error::File { file: file.to_owned(), source })?
        }
        (None, None) => return Ok(None),
    };

    Ok(Some(GrantKey::new(trim_key(text.expose()))?))
}

/// Reads a signing key from a file that only its owner can access.
///
/// # Errors
/// If the file cannot be read, others can access it, or it does not contain a signing key.
pub fn load_signing_key(file: &Path) -> Result<GrantSigningKey, Error> {
    let read = read_private_file(file, KEY_BYTES_MAX);
    let text = read.map_err(|source| Error::File { file: file.to_owned(), source })?;
    let key = GrantSigningKey::parse(text.expose());
    key.map_err(|source| Error::Key { file: file.to_owned(), source })
}

fn load_public_keys(file: &Path) -> Result<Vec<GrantPublicKey>, Error> {
    let read = read_secret_file(file, PUBLIC_KEYS_BYTES_MAX);
    let text = read.map_err(|source| Error::File { file: file.to_owned(), source })?;
    let keys = GrantPublicKey::parse_list(text.expose());
    keys.map_err(|source| Error::Key { file: file.to_owned(), source })
}

/// Line ends after a key do not count: most programs that write a file end it with one.
fn trim_key(text: &str) -> &str {
    text.trim_end_matches(['\r', '\n'])
}

#[cfg(test)]
mod tests;
