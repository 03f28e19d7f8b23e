//! Credentials: what a tool is run with and nobody else sees.
//!
//! Invariants: they come behind the last gate; nothing prints them; what the tool says of them is
//! erased before anybody reads it; they are overwritten when the call has ended.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use toolbus_bus::Progress;
use toolbus_wire::json::RawJson;
use zeroize::Zeroizing;

use crate::call::Outcome;
use crate::secret_finder::SecretFinder;

/// Shorter ones are not erased, in bytes: what they are stands in too many texts.
pub const ERASED_LENGTH_MIN: usize = 6;

/// Where credentials of providers are kept, such as the vault of `toolbus-vault`.
pub trait CredentialSource: Send + Sync {
    /// Finds the credential of this name that is for all tools and all callers of a provider, such
    /// as `mcp:github`.
    ///
    /// # Errors
    /// When it cannot be read: then nobody knows whether there is one.
    fn find<'a>(
        &'a self,
        provider: &'a str,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Option<Zeroizing<String>>, UnreadableCredential>>;
}

/// Why a credential cannot be read, in words that models may read: no path and nothing of a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UnreadableCredential(pub String);

/// The credentials of one call, by name.
#[derive(Default)]
pub struct Credentials {
    by_name: BTreeMap<String, Zeroizing<String>>,
}

impl Credentials {
    /// The credential of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.by_name.get(name).map(|value| value.as_str())
    }

    /// Adds one, in the place of the one of the same name.
    pub fn insert(&mut self, name: impl Into<String>, value: Zeroizing<String>) {
        self.by_name.insert(name.into(), value);
    }

    /// The names of those that there are.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.by_name.keys().map(String::as_str)
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// What takes them out of what the tool says; `None` where there are none.
    pub(crate) fn finder(&self) -> Option<SecretFinder> {
        let values = self.by_name.values().map(|value| value.as_str());
        SecretFinder::new(values.filter(|value| value.len() >= ERASED_LENGTH_MIN))
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.by_name.keys()).finish()
    }
}

/// The outcome of a call without its credentials.
pub(crate) fn erase_outcome(finder: &SecretFinder, outcome: Outcome) -> Outcome {
    let erase = |text: &mut String| erase_text(finder, text);
    // No result at all rather than one that may still hold one.
    let erase_raw = |raw: RawJson| match finder.erase_json(raw.text()) {
        Some(erased) => RawJson::parse(erased).unwrap_or_else(|_| RawJson::of(&())),
        None => raw,
    };

    match outcome {
        Ok(mut output) => {
            output.content.iter_mut().for_each(erase);
            for block in &mut output.blocks {
                let texts = [&mut block.text, &mut block.data, &mut block.uri];
                texts.into_iter().flatten().for_each(erase);
            }
            output.structured = output.structured.map(erase_raw);
            output.mcp = output.mcp.map(erase_raw);
            Ok(output)
        }
        Err(mut error) => {
            erase(&mut error.message);
            if let Some(details) = &mut error.details {
                finder.erase(details);
            }
            Err(error)
        }
    }
}

/// Progress of a call without its credentials.
pub(crate) fn erase_progress(finder: Arc<SecretFinder>, progress: Progress) -> Progress {
    Progress::to(move |mut report| {
        let texts = [&mut report.message, &mut report.text, &mut report.resource];
        texts.into_iter().flatten().for_each(|text| erase_text(&finder, text));
        progress.send(report);
    })
}

fn erase_text(finder: &SecretFinder, text: &mut String) {
    if let Cow::Owned(erased) = finder.erase_text(text) {
        *text = erased;
    }
}
