//! Whose subagents they are.

use toolbus_policy::{parse_principal, principal_text};
use toolbus_tools::id::SessionId;
use toolbus_tools::{Principal, Scope};
use toolbus_wire::name::AgentName;

use crate::Error;

/// Whose subagent it is, and where its result goes: a session of a principal with an agent.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SubagentOwner {
    /// The agent that splits its work.
    pub agent: AgentName,
    /// For whom it works.
    pub principal: Principal,
    /// In which session.
    pub session: SessionId,
}

impl SubagentOwner {
    /// Whose subagents the calls of this scope spawn.
    ///
    /// # Errors
    /// [`Error::NoSession`] where the scope has none.
    pub fn of(scope: &Scope) -> Result<Self, Error> {
        let session = scope.session.clone().ok_or(Error::NoSession)?;
        Ok(Self { agent: scope.agent.clone(), principal: scope.principal.clone(), session })
    }

    /// What rows are found by, beside the agent and the session.
    pub(crate) fn key(&self) -> String {
        principal_text(&self.principal)
    }

    /// The owner that was kept so.
    pub(crate) fn read(agent: &AgentName, owner: &str, session: &str) -> Option<Self> {
        let principal = parse_principal(owner).ok()?;
        let session = SessionId::parse(session).ok()?;
        Some(Self { agent: agent.clone(), principal, session })
    }
}
