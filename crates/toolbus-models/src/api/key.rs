//! The key of an API: where it is read from, and the one header that it goes into.
//!
//! Nothing prints it, and what an API says is freed from it before anybody reads that.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use reqwest::header::HeaderValue;
use toolbus_config::Secret;
use toolbus_tools::credentials::ERASED_LENGTH_MIN;
use toolbus_tools::{CredentialSource, SecretFinder};
use zeroize::Zeroizing;

use crate::error::ErrorKind;

/// Longest key, in bytes.
const KEY_BYTES_MAX: usize = 8 << 10;

/// Where the key of a model is read from.
#[derive(Clone)]
pub(crate) enum KeySource {
    /// There is none, and none is sent.
    None,
    /// It is set.
    Set(Secret),
    /// There should be one, and is not: why.
    Missing(String),
    /// The vault, each time anew.
    Vault {
        /// The vault.
        source: Arc<dyn CredentialSource>,
        /// Whose it is there.
        provider: String,
        /// Its name there.
        name: String,
    },
}

/// A key that a header can carry.
pub(crate) struct ApiKey(Zeroizing<String>);

impl KeySource {
    /// Reads the key; `None` where the API wants none.
    pub(crate) async fn load(&self) -> Result<Option<ApiKey>, ErrorKind> {
        let no_key = |reason: &str| ErrorKind::NoKey { reason: reason.to_owned() };
        match self {
            Self::None => Ok(None),
            Self::Set(secret) => ApiKey::parse(secret.expose()).map(Some),
            Self::Missing(reason) => Err(no_key(reason)),
            Self::Vault { source, provider, name } => {
                let found = source.find(provider, name).await;
                match found.map_err(|error| no_key(&error.to_string()))? {
                    Some(value) => ApiKey::parse(&value).map(Some),
                    None => Err(no_key(&format!("the vault has no {name} of {provider}"))),
                }
            }
        }
    }
}

impl fmt::Debug for KeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("None"),
            Self::Set(secret) => f.debug_tuple("Set").field(secret).finish(),
            Self::Missing(reason) => f.debug_tuple("Missing").field(reason).finish(),
            Self::Vault { provider, name, .. } => {
                f.debug_struct("Vault").field("provider", provider).field("name", name).finish()
            }
        }
    }
}

impl ApiKey {
    fn parse(text: &str) -> Result<Self, ErrorKind> {
        let text = text.trim();
        let problem = match text.len() {
            0 => "it is empty",
            1..=KEY_BYTES_MAX if text.bytes().all(|byte| byte.is_ascii_graphic()) => {
                return Ok(Self(Zeroizing::new(text.to_owned())));
            }
            1..=KEY_BYTES_MAX => "it has white space or other characters that no key has",
            _ => "it is too long",
        };
        Err(ErrorKind::NoKey { reason: problem.to_owned() })
    }

    /// The key behind this prefix as the value of a header, which is not printed.
    pub(crate) fn header(&self, prefix: &str) -> HeaderValue {
        let text = Zeroizing::new(format!("{prefix}{}", self.0.as_str()));
        let mut value =
            HeaderValue::from_str(&text).expect("a key has only characters of a header");
        value.set_sensitive(true);
        value
    }
}

/// Takes a key out of what an API says.
pub(crate) struct KeyEraser(Option<SecretFinder>);

impl KeyEraser {
    pub(crate) fn of(key: Option<&ApiKey>) -> Self {
        let key = key.map(|key| key.0.as_str()).filter(|key| key.len() >= ERASED_LENGTH_MIN);
        Self(SecretFinder::new(key))
    }

    /// A text of the API without the key. It is erased before anything is cut off: half a key is no
    /// better.
    pub(crate) fn erase_text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match &self.0 {
            Some(finder) => finder.erase_text(text),
            None => Cow::Borrowed(text),
        }
    }

    /// The same error without the key.
    pub(crate) fn erase(&self, mut kind: ErrorKind) -> ErrorKind {
        let Some(finder) = &self.0 else { return kind };
        let text = match &mut kind {
            ErrorKind::RateLimited { message, .. }
            | ErrorKind::Overloaded { message, .. }
            | ErrorKind::ContextTooLong { message }
            | ErrorKind::Unauthenticated { message, .. }
            | ErrorKind::QuotaSpent { message }
            | ErrorKind::Refused { message, .. } => message,
            ErrorKind::BrokenStream { problem } => problem,
            ErrorKind::Unreachable { reason } | ErrorKind::NoKey { reason } => reason,
            ErrorKind::TooLarge { limit } => limit,
            ErrorKind::TimedOut { .. } => return kind,
        };
        if let Cow::Owned(erased) = finder.erase_text(text) {
            *text = erased;
        }
        kind
    }
}

#[cfg(test)]
mod tests;
