//! What an approval is bound to: the one call that it is for, as a text and its digest.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolbus_tools::call::ARGUMENTS_BYTES_MAX;
use toolbus_tools::canonical::{canonical_text, sha256_hex};
use toolbus_tools::gate::Passage;
use toolbus_tools::policy::{ApprovalDemand, ApprovalExtent};
use toolbus_tools::scope::{Principal, Proof};

/// Longest text of a binding, in bytes: the longest arguments of a call, and 64 KiB for the other
/// members.
pub const BINDING_BYTES_MAX: usize = ARGUMENTS_BYTES_MAX + (64 << 10);

/// The version of what a digest is made of. Another one is another digest.
const VERSION: u8 = 1;

/// What an approval is bound to. Its digest is the SHA-256 of its canonical text, so a call that
/// differs in anything of it has no approval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Binding {
    version: u8,
    /// The tool that the call is really about.
    pub subject: String,
    /// The digest of what the tool is defined as, where its provider has said.
    pub definition: Option<String>,
    /// The arguments: an object, and null for a read.
    pub arguments: Value,
    /// Always empty: references to artifacts are replaced before the question is asked.
    pub artifacts: Vec<String>,
    /// Who calls.
    pub principal: BoundPrincipal,
    /// The session that the call belongs to.
    pub session: Option<String>,
    /// The chain that makes the call, where one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chain: Option<String>,
    /// The rule that wants the approval.
    pub rule: String,
    /// The agent that the call is made for, if the rule asks once per tool: a yes holds for this
    /// agent. `None` for a tool without a known definition, because a change of it would go
    /// unnoticed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
}

/// Who calls or answers, with how that is known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BoundPrincipal {
    /// The name.
    pub name: String,
    /// `local`, `claimed`, `broker:USER` or `token:ISSUER`.
    pub proof: String,
}

/// How far an answer holds beyond its call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Remember {
    /// For this call alone.
    #[default]
    Once,
    /// For the same tool in the same session.
    Session,
    /// For the same tool.
    Tool,
    /// For the same tool with the same arguments.
    Arguments,
}

impl Binding {
    /// What the approval of this call is bound to.
    #[must_use]
    pub fn of(passage: &Passage, demand: &ApprovalDemand) -> Self {
        let scope = &passage.call.scope;
        let is_known = passage.subject.definition.is_some();
        let is_once_per_tool = demand.extent == ApprovalExtent::Tool && is_known;
        Self {
            version: VERSION,
            subject: passage.subject.id.to_string(),
            definition: passage.subject.definition.as_ref().map(ToString::to_string),
            arguments: passage.arguments.clone(),
            artifacts: Vec::new(),
            principal: BoundPrincipal::of(&scope.principal),
            session: scope.session.as_ref().map(ToString::to_string),
            chain: scope.chain(),
            rule: demand.rule.to_string(),
            agent: is_once_per_tool.then(|| scope.agent.to_string()),
        }
    }

    /// Returns the scope of a yes whose approver chose none.
    #[must_use]
    pub fn default_remember(&self) -> Remember {
        if self.agent.is_some() { Remember::Tool } else { Remember::Once }
    }

    /// The same with other arguments.
    #[must_use]
    pub fn with_arguments(&self, arguments: Value) -> Self {
        Self { arguments, ..self.clone() }
    }

    /// The canonical text, of which the digest is made and which is kept.
    #[must_use]
    pub fn text(&self) -> String {
        canonical_text(&json!(self))
    }

    /// The digest of the text, as 64 hexadecimal digits.
    #[must_use]
    pub fn digest(&self) -> String {
        sha256_hex(&self.text())
    }

    /// The digest of what a remembered answer holds for. `None` where this one cannot be
    /// remembered so: a call without a session has none to be remembered for.
    #[must_use]
    pub fn remembered_digest(&self, remember: Remember) -> Option<String> {
        let mut holds_for = json!({
            "version": self.version,
            "remember": remember,
            "subject": self.subject,
            "definition": self.definition,
            "principal": self.principal,
            "rule": self.rule,
        });
        if let Some(agent) = &self.agent {
            holds_for["agent"] = json!(agent);
        }

        match remember {
            Remember::Once => return None,
            Remember::Session => holds_for["session"] = json!(self.session.as_ref()?),
            Remember::Tool => {}
            Remember::Arguments => {
                holds_for["arguments"] = self.arguments.clone();
                holds_for["artifacts"] = json!(self.artifacts);
            }
        }
        Some(sha256_hex(&canonical_text(&holds_for)))
    }
}

impl BoundPrincipal {
    /// A principal as it is kept.
    #[must_use]
    pub fn of(principal: &Principal) -> Self {
        let proof = match &principal.proof {
            Proof::Claimed => "claimed".to_owned(),
            Proof::Broker { user } => format!("broker:{user}"),
            Proof::Token { issuer, id: None } => format!("token:{issuer}"),
            Proof::Token { issuer, id: Some(id) } => format!("token:{issuer}#{id}"),
            Proof::Local => LOCAL.to_owned(),
            // Whatever comes to be known otherwise is told apart by its name, once it has one here.
            _ => "other".to_owned(),
        };
        Self { name: principal.name.to_string(), proof }
    }

    /// Whether it is whoever runs a process of ours.
    #[must_use]
    pub fn is_local(&self) -> bool {
        self.proof == LOCAL
    }
}

impl std::fmt::Display for BoundPrincipal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.name, self.proof)
    }
}

/// The proof of whoever runs the process.
const LOCAL: &str = "local";

impl Remember {
    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Once => "once",
            Self::Session => "session",
            Self::Tool => "tool",
            Self::Arguments => "arguments",
        }
    }

    /// The one of this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        let all = [Self::Once, Self::Session, Self::Tool, Self::Arguments];
        all.into_iter().find(|remember| remember.as_str() == name)
    }
}

#[cfg(test)]
mod tests;
