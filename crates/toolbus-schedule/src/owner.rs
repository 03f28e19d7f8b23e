//! Whose tasks they are.

use toolbus_policy::{owner_text, parse_owner};
use toolbus_store::OwnerId;
use toolbus_tools::{Principal, Scope};
use toolbus_wire::name::AgentName;

/// Whose tasks they are: a principal's with an agent. They run as that principal.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ScheduleOwner {
    /// The agent.
    pub agent: AgentName,
    /// The principal.
    pub principal: Principal,
}

impl ScheduleOwner {
    /// Whose tasks the calls of this scope see.
    #[must_use]
    pub fn of(scope: &Scope) -> Self {
        Self { agent: scope.agent.clone(), principal: scope.principal.clone() }
    }

    /// What rows are found by, beside the agent.
    pub(crate) fn id(&self) -> OwnerId {
        OwnerId::new(owner_text(&self.principal))
    }

    /// The owner of a row.
    pub(crate) fn read(agent: &AgentName, id: &OwnerId) -> Option<Self> {
        let principal = parse_owner(id.as_str()).ok()?;
        Some(Self { agent: agent.clone(), principal })
    }
}
