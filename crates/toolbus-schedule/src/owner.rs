//! Whose tasks they are.

use serde::Serialize;
use toolbus_policy::{owner_text, parse_owner};
use toolbus_store::OwnerId;
use toolbus_tools::scope::Proof;
use toolbus_tools::{Principal, Scope};
use toolbus_wire::name::AgentName;

use crate::Error;

/// Whose tasks they are: a principal's with an agent. They run as that principal.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ScheduleOwner {
    /// The agent.
    pub agent: AgentName,
    /// The principal.
    pub principal: Principal,
}

/// Serialized form of a principal for programs that do not know owners.
#[derive(Serialize)]
struct KeptPrincipal<'a> {
    name: &'a str,
    proof: KeptProof<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum KeptProof<'a> {
    Claimed,
    Local,
    Broker(&'a str),
    Token(&'a str),
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

    /// Returns the principal in the form that older programs read after a rollback.
    pub(crate) fn kept_principal(&self) -> Result<String, Error> {
        let proof = match &self.principal.proof {
            Proof::Claimed => KeptProof::Claimed,
            Proof::Local => KeptProof::Local,
            Proof::Broker { user } => KeptProof::Broker(user),
            Proof::Token { issuer, .. } => KeptProof::Token(issuer),
            _ => return Err(Error::Principal),
        };
        let kept = KeptPrincipal { name: &self.principal.name, proof };
        serde_json::to_string(&kept).map_err(|_| Error::Principal)
    }

    /// The owner of a row.
    pub(crate) fn read(agent: &AgentName, id: &OwnerId) -> Option<Self> {
        let principal = parse_owner(id.as_str()).ok()?;
        Some(Self { agent: agent.clone(), principal })
    }
}
