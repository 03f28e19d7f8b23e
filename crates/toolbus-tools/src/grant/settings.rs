//! The section `grants` of the settings: of who seals requests, and of who checks them.

use std::io;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolbus_config::{Mistakes, Secret, read_secret_file};

use super::check::{GrantCheck, GrantPolicy};
use super::key::{GrantKey, KEY_BYTES_MIN, KeyTooShort};

/// The name of the section.
const SECTION: &str = "grants";
/// Longest key that is taken out of a file, in bytes.
const KEY_BYTES_MAX: usize = 1024;

/// Grants for workers, made by an agent for every request that has passed its gates.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct GrantSettings {
    /// The key that grants are made with, at least 32 random bytes as text, such as
    /// `openssl rand -hex 32` prints. Workers have the same. Without one, requests carry no grant.
    pub key: Option<Secret>,
    /// The file that the key is in, instead. It is read at the start.
    pub key_file: Option<PathBuf>,
}

/// Grants of the agents whose requests a worker takes.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct GrantCheckSettings {
    /// Whether every request needs a valid grant that runs, changes or reads something. With a key
    /// and without this, a request with a grant that is not valid is refused, and one without any
    /// is taken.
    pub required: bool,
    /// The key that grants are made with, the same as the agents'. Without one, grants are not
    /// looked at.
    pub key: Option<Secret>,
    /// The file that the key is in, instead. It is read at the start.
    pub key_file: Option<PathBuf>,
    /// The key before this one, whose grants count too: set it while agents get the new one.
    pub previous_key: Option<Secret>,
    /// The file that the key before this one is in, instead.
    pub previous_key_file: Option<PathBuf>,
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

    /// The key, where there is one.
    ///
    /// # Errors
    /// When it cannot be read, or is too short.
    pub fn load_key(&self) -> Result<Option<GrantKey>, Error> {
        load_key(self.key.as_ref(), self.key_file.as_deref())
    }
}

impl GrantCheckSettings {
    /// Adds what is wrong with them.
    pub fn check(&self, mistakes: &mut Mistakes<'_>) {
        let Self { required, key, key_file, previous_key, previous_key_file } = self;
        check_key("key", key.as_ref(), key_file.as_deref(), mistakes);
        check_key("previous_key", previous_key.as_ref(), previous_key_file.as_deref(), mistakes);

        if key.is_some() || key_file.is_some() {
            return;
        }

        if *required {
            let what = "grants are checked with a key: grants.key_file or grants.key must be set";
            mistakes.add(&format!("{SECTION}.required"), what);
        }
        if previous_key.is_some() || previous_key_file.is_some() {
            let what = "there is none before a key that is not set";
            mistakes.add(&format!("{SECTION}.previous_key"), what);
        }
    }

    /// The check that these settings ask for. `worker` is what callers are told who refuses.
    ///
    /// # Errors
    /// When a key cannot be read, or is too short; when grants are required and there is no key.
    pub fn load_check(&self, worker: &'static str) -> Result<GrantCheck, Error> {
        let Some(key) = load_key(self.key.as_ref(), self.key_file.as_deref())? else {
            // These settings may never have gone through `check`.
            return if self.required { Err(Error::KeyMissing) } else { Ok(GrantCheck::off()) };
        };

        let previous = load_key(self.previous_key.as_ref(), self.previous_key_file.as_deref())?;

        let policy = if self.required {
            GrantPolicy::Require
        } else {
            tracing::warn!("grants are checked, but requests without one are taken too");
            GrantPolicy::CheckPresent
        };

        Ok(GrantCheck::new(worker, policy, key, previous))
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

/// Line ends after a key do not count: most programs that write a file end it with one.
fn trim_key(text: &str) -> &str {
    text.trim_end_matches(['\r', '\n'])
}

#[cfg(test)]
mod tests;
