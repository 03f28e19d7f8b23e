//! The permission gate: asks the policy. It decides nothing itself; an operator's allow and deny
//! lists are the bridge's (`tool_filter`).

use std::sync::Arc;

use toolbus_wire::ErrorCode;

use super::{Gate, Passage, Verdict};
use crate::call::CallError;
use crate::policy::{Decision, Policy, PolicyRequest};

/// Refuses calls that the policy denies, and marks those that it wants approved.
pub struct Permission(pub Arc<dyn Policy>);

impl Gate for Permission {
    fn name(&self) -> &'static str {
        "permission"
    }

    fn check<'a>(&'a self, passage: &'a mut Passage) -> Verdict<'a> {
        let request = PolicyRequest { scope: &passage.call.scope, subject: &passage.subject };
        Verdict::Now(match self.0.decide(&request) {
            Decision::Allow => Ok(()),
            Decision::Ask(demand) => {
                passage.demand_approval(demand);
                Ok(())
            }
            Decision::Deny(reason) => {
                let id = &passage.subject.id;
                Err(CallError::new(ErrorCode::Denied, format!("'{id}' is not allowed: {reason}")))
            }
        })
    }
}
