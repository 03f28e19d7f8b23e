//! Credentials of toolkits: where they are read from, the headers that carry them, and how they are
//! kept out of everything else.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use toolbus_config::{KeyReference, Secret};
use toolbus_tools::credentials::ERASED_LENGTH_MIN;
use toolbus_tools::{CredentialSource, SecretFinder};
use zeroize::Zeroizing;

/// Longest credential, in bytes.
const CREDENTIAL_BYTES_MAX: usize = 8 << 10;

/// Where credentials are looked for.
#[derive(Clone, Default)]
pub struct CredentialPlaces {
    /// The variables of the environment.
    pub environment: Option<Arc<Lookup>>,
    /// The vault.
    pub vault: Option<Arc<dyn CredentialSource>>,
}

/// Finds a variable of the environment.
pub type Lookup = dyn Fn(&str) -> Option<String> + Send + Sync;

/// Why there is no credential, in words that models may read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct NoCredential(String);

/// Where a credential is read from.
#[derive(Clone)]
pub(crate) enum CredentialReference {
    /// Nothing is set.
    Absent(String),
    Set(Secret),
    /// Read each time.
    Vault {
        source: Arc<dyn CredentialSource>,
        provider: String,
        name: String,
    },
}

/// A credential that a header can carry. It is overwritten when it is no longer needed.
pub(crate) struct Credential(Zeroizing<String>);

impl fmt::Debug for CredentialPlaces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CredentialPlaces").field("vault", &self.vault.is_some()).finish()
    }
}

impl CredentialPlaces {
    /// The environment of this process, and no vault.
    #[must_use]
    pub fn of_process() -> Self {
        Self { environment: Some(Arc::new(|name: &str| std::env::var(name).ok())), vault: None }
    }

    /// The credential that is written as the key itself, as `${NAME}` or as `${vault:NAME}` of this
    /// provider; where nothing is written, the one of this variable.
    pub(crate) fn find(
        &self,
        written: Option<&Secret>,
        variable: Option<&str>,
        provider: &str,
    ) -> CredentialReference {
        let written = written.filter(|written| !written.expose().trim().is_empty());
        let Some(written) = written else {
            return match variable {
                Some(variable) => self.variable(variable),
                None => CredentialReference::Absent("no credential is set".to_owned()),
            };
        };

        match KeyReference::parse(written) {
            Ok(KeyReference::Key(key)) => CredentialReference::Set(key),
            Ok(KeyReference::Variable(name)) => self.variable(&name),
            Ok(KeyReference::Vault(name)) => match &self.vault {
                Some(source) => CredentialReference::Vault {
                    source: Arc::clone(source),
                    provider: provider.to_owned(),
                    name,
                },
                None => CredentialReference::Absent(
                    "the credential is in the vault, and there is none".to_owned(),
                ),
            },
            Err(problem) => CredentialReference::Absent(problem.to_owned()),
        }
    }

    fn variable(&self, name: &str) -> CredentialReference {
        let lookup = self.environment.as_ref();
        match lookup.and_then(|lookup| lookup(name)).filter(|value| !value.trim().is_empty()) {
            Some(value) => CredentialReference::Set(value.into()),
            None => {
                CredentialReference::Absent(format!("the environment variable {name} is not set"))
            }
        }
    }
}

impl CredentialReference {
    /// Whether nothing is set, as far as that is known without a look into the vault.
    pub(crate) fn is_absent(&self) -> bool {
        matches!(self, Self::Absent(_))
    }

    /// Reads it.
    pub(crate) async fn load(&self) -> Result<Credential, NoCredential> {
        match self {
            Self::Absent(reason) => Err(NoCredential(reason.clone())),
            Self::Set(secret) => Credential::parse(secret.expose()),
            Self::Vault { source, provider, name } => {
                let found = source.find(provider, name).await;
                match found.map_err(|error| NoCredential(error.to_string()))? {
                    Some(value) => Credential::parse(&value),
                    None => Err(NoCredential(format!("the vault has no {name} of {provider}"))),
                }
            }
        }
    }
}

impl Credential {
    fn parse(text: &str) -> Result<Self, NoCredential> {
        let text = text.trim();
        let problem = match text.len() {
            0 => "the credential is empty",
            1..=CREDENTIAL_BYTES_MAX if text.bytes().all(|byte| byte.is_ascii_graphic()) => {
                return Ok(Self(Zeroizing::new(text.to_owned())));
            }
            1..=CREDENTIAL_BYTES_MAX => {
                "the credential has white space or other characters that no key has"
            }
            _ => "the credential is too long",
        };
        Err(NoCredential(problem.to_owned()))
    }

    /// Returns the credential itself.
    #[cfg(feature = "google")]
    pub(crate) fn text(&self) -> &str {
        &self.0
    }

    /// Headers with it behind this prefix, which nothing prints.
    pub(crate) fn headers(&self, name: HeaderName, prefix: &str) -> HeaderMap {
        let text = Zeroizing::new(format!("{prefix}{}", self.0.as_str()));
        let mut value =
            HeaderValue::from_str(&text).expect("a credential has only characters of a header");
        value.set_sensitive(true);
        HeaderMap::from_iter([(name, value)])
    }

    /// A text without it.
    pub(crate) fn erase<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let long = Some(self.0.as_str()).filter(|value| value.len() >= ERASED_LENGTH_MIN);
        match SecretFinder::new(long) {
            Some(finder) => match finder.erase_text(text) {
                Cow::Borrowed(_) => Cow::Borrowed(text),
                Cow::Owned(erased) => Cow::Owned(erased),
            },
            None => Cow::Borrowed(text),
        }
    }
}
