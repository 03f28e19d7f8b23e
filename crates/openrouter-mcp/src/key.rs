//! The account's API key: where it is loaded from, and the one header that it goes into.
//!
//! It is never part of a log, a result or an error. Nothing here prints it, and text from outside
//! passes [`ApiKey::redact_key`] before it is shown to anybody.

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};

use reqwest::header::HeaderValue;
use toolbus_config::{MASK, Secret, read_secret_file};

use crate::settings::OpenRouterSettings;

#[cfg(test)]
mod tests;

/// Longest key that is accepted, in bytes; OpenRouter's have 73.
const KEY_BYTES_MAX: usize = 1024;
/// What is told of a longer one.
const TOO_LONG: &str = "it is too long";
/// Shortest key that is redacted in text from outside, in bytes: a shorter one is no key of
/// OpenRouter's, and would mask ordinary words.
const REDACTED_BYTES_MIN: usize = 8;

/// Why no key could be loaded. Clients see these texts too, so they name no file of this machine.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// None is set.
    #[error("no OpenRouter API key is set")]
    Missing,
    /// The file that it should be in cannot be read.
    #[error("the file with the OpenRouter API key cannot be read")]
    Unreadable(#[source] io::Error),
    /// What is set cannot be a key.
    #[error("what is set as the OpenRouter API key is none: {0}")]
    Malformed(&'static str),
}

/// Where the key is loaded from.
#[derive(Debug)]
pub enum KeySource {
    /// The settings.
    Settings(Option<Secret>),
    /// A file.
    File(PathBuf),
}

/// A key that a header can carry.
#[derive(Debug)]
pub struct ApiKey(Secret);

impl KeySource {
    /// The source that the settings name.
    #[must_use]
    pub fn from_settings(settings: &OpenRouterSettings) -> Self {
        match &settings.api_key_file {
            Some(file) => Self::File(file.clone()),
            None => Self::Settings(settings.api_key.clone()),
        }
    }

    /// Loads the current key. A file is read each time: it is small, and a check for changes could
    /// miss one.
    ///
    /// # Errors
    /// When there is no key, or its text cannot be one.
    pub async fn load_key(&self) -> Result<ApiKey, Error> {
        match self {
            Self::Settings(None) => Err(Error::Missing),
            Self::Settings(Some(secret)) => ApiKey::parse(secret.expose()),
            Self::File(path) => {
                let text = read_key_file(path).await?;
                ApiKey::parse(text.expose())
            }
        }
    }
}

impl ApiKey {
    /// Parses a key; white space around it is ignored.
    ///
    /// # Errors
    /// When it is empty, too long, or has characters that a key cannot have.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let text = text.trim();
        if text.is_empty() {
            return Err(Error::Missing);
        }
        if text.len() > KEY_BYTES_MAX {
            return Err(Error::Malformed(TOO_LONG));
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Error::Malformed("it has white space or other characters that no key has"));
        }
        Ok(Self(Secret::from(text.to_owned())))
    }

    /// The value of the `Authorization` header, marked as sensitive so that it is not printed.
    pub(crate) fn bearer_header(&self) -> HeaderValue {
        let text = format!("Bearer {}", self.0.expose());
        let mut value =
            HeaderValue::from_str(&text).expect("a key has only characters of a header");
        value.set_sensitive(true);
        value
    }

    /// Replaces the key wherever the text has it.
    pub(crate) fn redact_key<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let key = self.0.expose();
        if key.len() >= REDACTED_BYTES_MIN && text.contains(key) {
            Cow::Owned(text.replace(key, MASK))
        } else {
            Cow::Borrowed(text)
        }
    }
}

async fn read_key_file(path: &Path) -> Result<Secret, Error> {
    let path = path.to_owned();
    // Off the runtime's threads: the file may be on a slow volume.
    let reading = tokio::task::spawn_blocking(move || read_secret_file(&path, KEY_BYTES_MAX));
    let read = reading.await.map_err(|error| Error::Unreadable(io::Error::other(error)))?;

    read.map_err(|error| match error.kind() {
        io::ErrorKind::FileTooLarge => Error::Malformed(TOO_LONG),
        _ => Error::Unreadable(error),
    })
}
