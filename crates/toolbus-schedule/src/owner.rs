//! Whose tasks they are.

use serde::{Deserialize, Serialize};
use toolbus_policy::principal_text;
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

/// A principal as it is kept.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeptPrincipal {
    name: String,
    proof: KeptProof,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum KeptProof {
    Claimed,
    Local,
    Broker(String),
    Token(String),
}

impl ScheduleOwner {
    /// Whose tasks the calls of this scope see.
    #[must_use]
    pub fn of(scope: &Scope) -> Self {
        Self { agent: scope.agent.clone(), principal: scope.principal.clone() }
    }

    /// What rows are found by, beside the agent.
    pub(crate) fn key(&self) -> String {
        principal_text(&self.principal)
    }

    /// The principal as a text that it can be read from again.
    pub(crate) fn kept_principal(&self) -> Result<String, Error> {
        let proof = match &self.principal.proof {
            Proof::Claimed => KeptProof::Claimed,
            Proof::Local => KeptProof::Local,
            Proof::Broker { user } => KeptProof::Broker(user.to_string()),
            Proof::Token { issuer } => KeptProof::Token(issuer.to_string()),
            _ => return Err(Error::Principal),
        };
        let kept = KeptPrincipal { name: self.principal.name.to_string(), proof };
        serde_json::to_string(&kept).map_err(|_| Error::Principal)
    }

    /// The owner that was kept so.
    pub(crate) fn read(agent: &AgentName, kept: &str) -> Option<Self> {
        let kept: KeptPrincipal = serde_json::from_str(kept).ok()?;
        let proof = match kept.proof {
            KeptProof::Claimed => Proof::Claimed,
            KeptProof::Local => Proof::Local,
            KeptProof::Broker(user) => Proof::Broker { user: user.into() },
            KeptProof::Token(issuer) => Proof::Token { issuer: issuer.into() },
        };
        let principal = Principal { name: kept.name.into(), proof };
        Some(Self { agent: agent.clone(), principal })
    }
}
