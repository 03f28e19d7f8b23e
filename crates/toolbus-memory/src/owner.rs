//! Whose memory it is.

use toolbus_policy::owner_text;
use toolbus_tools::Scope;

/// Whose memory it is: a principal's with an agent. Sessions are within it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MemoryOwner(String);

impl MemoryOwner {
    /// Whose memory the calls of this scope read and write.
    #[must_use]
    pub fn of(scope: &Scope) -> Self {
        // No part has a line break in it.
        Self(format!("{}\n{}", scope.agent, owner_text(&scope.principal)))
    }

    /// As it is kept.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}
