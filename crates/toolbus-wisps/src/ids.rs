//! The ids of a batch and its wisps, which follow from the call: the same call has the same ids.

use std::fmt;

use serde_json::Value;
use toolbus_memory::MemoryOwner;
use toolbus_tools::canonical::{canonical_text, sha256_hex};
use toolbus_tools::id::CallId;
use toolbus_tools::{CallError, Scope};

const BATCH_CHARS: usize = 12;
const WISP_CHARS: usize = 11;
/// How many hexadecimal digits an id has that nobody else has.
const UNIQUE_DIGITS: usize = 32;

/// The wisps of one call: 12 hexadecimal digits, written with `batch-` before them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct BatchId {
    /// The whole digest, that the ids of wisps follow from.
    digest: String,
}

/// A wisp: 11 hexadecimal digits, written with `wisp-` before them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct WispId(String);

impl BatchId {
    /// The batch of a call with these definitions.
    ///
    /// Models number their calls alike in every run, so the run counts, too, but for ids that
    /// nobody else has: an agent that takes a session up again makes the call in another run.
    pub(crate) fn of(scope: &Scope, call: &CallId, definitions: &Value) -> Self {
        let session = scope.session.as_ref().map_or("", |session| session.as_str());
        let run = if is_unique(call.as_str()) { "" } else { scope.run.as_str() };
        let owner = MemoryOwner::of(scope);
        let definitions = canonical_text(definitions);
        let parts = [owner.as_str(), session, run, call.as_str(), &definitions];
        // The length before each part keeps two of them from being read as others.
        let text: String = parts.iter().map(|part| format!("{}:{part}\n", part.len())).collect();
        Self { digest: sha256_hex(&text) }
    }

    /// The id of its wisp of this number.
    pub(crate) fn wisp(&self, number: usize) -> WispId {
        let digest = sha256_hex(&format!("{}/{number}", self.digest));
        WispId(digest[..WISP_CHARS].to_owned())
    }

    /// The path of something that is kept of the batch.
    pub(crate) fn key(&self, name: &str) -> String {
        format!("wisp/{self}/{name}")
    }
}

impl fmt::Display for BatchId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "batch-{}", &self.digest[..BATCH_CHARS])
    }
}

impl WispId {
    /// The namespace of what its steps give.
    pub(crate) fn namespace(&self) -> String {
        format!("wisp/{self}")
    }

    /// The path of something that is kept of a step.
    pub(crate) fn key(&self, step: &str, name: &str) -> String {
        format!("wisp/{self}/{step}/{name}")
    }

    /// The id of the call that a step makes.
    pub(crate) fn call(&self, step: &str) -> Result<CallId, CallError> {
        let id = CallId::parse(format!("{self}-{step}"));
        id.map_err(|error| CallError::invalid_arguments(error.to_string()))
    }
}

impl fmt::Display for WispId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "wisp-{}", self.0)
    }
}

/// Whether an id is as long as one that nobody else has.
fn is_unique(call: &str) -> bool {
    let digits: Vec<_> = call.chars().filter(|c| *c != '-').collect();
    digits.len() >= UNIQUE_DIGITS && digits.iter().all(char::is_ascii_hexdigit)
}

#[cfg(test)]
mod tests;
