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
    /// It may once somebody has approved just this call.
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
