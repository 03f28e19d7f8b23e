//! Policies: who may call what.

use std::borrow::Cow;
use std::sync::Arc;

use crate::budget::RunLimits;
use crate::scope::Scope;
use crate::subject::Subject;

/// What a policy is asked: whether a caller may use a tool.
#[derive(Debug, Clone, Copy)]
pub struct PolicyRequest<'a> {
    /// Who calls, and within which bounds.
    pub scope: &'a Scope,
    /// The tool that the call is about.
    pub subject: &'a Subject,
}

/// What a policy says of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Decision {
    /// It may run.
    Allow,
    /// The call may run once an approver has approved it.
    Ask(ApprovalDemand),
    /// It may not, for a reason that the caller is told.
    Deny(Cow<'static, str>),
}

/// Why a call needs an approval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalDemand {
    /// The rule that says so, by the name that its operator knows it by.
    pub rule: Arc<str>,
    /// Why, for whoever is asked.
    pub reason: Cow<'static, str>,
    /// The calls that a yes covers, unless the approver chooses otherwise.
    pub extent: ApprovalExtent,
    /// The preset that contains the rule. `None`: the operator wrote it.
    pub preset: Option<&'static str>,
}

/// The calls that a yes covers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum ApprovalExtent {
    /// Only this call.
    #[default]
    Call,
    /// Every call of the tool with its current definition, by the same owner for the same agent.
    Tool,
}

impl ApprovalDemand {
    /// Creates the demand of an operator's rule. A yes covers one call.
    #[must_use]
    pub fn new(rule: impl Into<Arc<str>>, reason: impl Into<Cow<'static, str>>) -> Self {
        let (rule, reason) = (rule.into(), reason.into());
        Self { rule, reason, extent: ApprovalExtent::Call, preset: None }
    }

    /// Extends a yes to every call of the tool.
    #[must_use]
    pub fn once_per_tool(self) -> Self {
        Self { extent: ApprovalExtent::Tool, ..self }
    }

    /// Marks the rule as one of this preset.
    #[must_use]
    pub fn of_preset(self, preset: Option<&'static str>) -> Self {
        Self { preset, ..self }
    }

    /// Returns, in one line, the setting that lets calls of the tool with this id run without an
    /// approval. Rules without the preset would replace it, so the line contains both.
    #[must_use]
    pub fn how_to_allow(&self, tool: &str) -> String {
        match self.preset {
            Some(preset) => format!(
                "add to toolbus.toml: policy.preset = {preset:?} and policy.rules = [{{ name = \
                 \"allow\", effect = \"allow\", tools = [{tool:?}] }}]; policy.preset = \"open\" \
                 allows every tool"
            ),
            None => "change the rule".to_owned(),
        }
    }
}

/// Decides which calls may run. It is asked for each call and for each read, and answers at once:
/// it looks at nothing but what it is asked about.
pub trait Policy: Send + Sync + 'static {
    /// What it says of this call.
    fn decide(&self, request: &PolicyRequest<'_>) -> Decision;

    /// What a run of this scope may spend, when one begins. By default there is no limit.
    fn run_limits(&self, _scope: &Scope) -> RunLimits {
        RunLimits::default()
    }
}

/// Allows every call. It is what holds where the operator has set nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct AllowAll;

impl Policy for AllowAll {
    fn decide(&self, _request: &PolicyRequest<'_>) -> Decision {
        Decision::Allow
    }
}

impl<F> Policy for F
where
    F: Fn(&PolicyRequest<'_>) -> Decision + Send + Sync + 'static,
{
    fn decide(&self, request: &PolicyRequest<'_>) -> Decision {
        self(request)
    }
}
