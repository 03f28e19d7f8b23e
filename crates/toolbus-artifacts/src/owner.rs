//! Whose an artifact is.

use toolbus_policy::owner_text;
use toolbus_tools::scope::Proof;
use toolbus_tools::{ArtifactRef, Scope};

use sha2::{Digest as _, Sha256};

/// Whose artifacts they are: a session of a principal with an agent. Calls without a session have
/// those of their run, and whoever runs the process has one such place for all of them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ArtifactOwner(String);

impl ArtifactOwner {
    /// Whose artifacts the calls of this scope make and read.
    #[must_use]
    pub fn of(scope: &Scope) -> Self {
        let principal = owner_text(&scope.principal);
        let session = match (&scope.session, &scope.principal.proof) {
            (Some(session), _) => format!("session {session}"),
            (None, Proof::Local) => "no session".to_owned(),
            (None, _) => format!("run {}", scope.run.as_str()),
        };
        // No part has a line break in it.
        Self(format!("{}\n{principal}\n{session}", scope.agent))
    }

    /// As it is kept.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name of what it owns with this content.
    pub(crate) fn reference(&self, digest: &str, media_type: &str) -> ArtifactRef {
        let mut name = Sha256::new();
        for part in [self.as_str(), digest, media_type] {
            name.update(part.len().to_be_bytes());
            name.update(part);
        }
        let name = format!("{:x}", name.finalize());
        ArtifactRef::parse(&format!("art_{}", &name[..24])).expect("it is short, and plain")
    }
}
