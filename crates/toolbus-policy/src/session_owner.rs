//! Whose session something is of, as it is kept beside it.

use toolbus_tools::id::SessionId;
use toolbus_tools::{Principal, Scope};
use toolbus_wire::name::AgentName;

use crate::principal::{owner_text, parse_owner};

/// Who has asked for something, and where what comes of it goes: a session of a principal with an
/// agent.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SessionOwner {
    /// The agent.
    pub agent: AgentName,
    /// For whom it works.
    pub principal: Principal,
    /// In which session.
    pub session: SessionId,
}

impl SessionOwner {
    /// Whose the calls of this scope are. `None`: the scope has no session.
    #[must_use]
    pub fn of(scope: &Scope) -> Option<Self> {
        let session = scope.session.clone()?;
        Some(Self { agent: scope.agent.clone(), principal: scope.principal.clone(), session })
    }

    /// The principal, as rows have it beside the agent and the session.
    #[must_use]
    pub fn key(&self) -> String {
        owner_text(&self.principal)
    }

    /// The owner that was kept so. `None`: it is none.
    #[must_use]
    pub fn read(agent: &AgentName, key: &str, session: &str) -> Option<Self> {
        let principal = parse_owner(key).ok()?;
        let session = SessionId::parse(session).ok()?;
        Some(Self { agent: agent.clone(), principal, session })
    }
}
