//! The gate that checks subject and decision again, directly before the tool runs.

use std::sync::Arc;

use serde_json::Value;
use toolbus_wire::ErrorCode;

use super::{Gate, Passage, Verdict, resolve_subject};
use crate::call::CallError;
use crate::policy::{Decision, Policy, PolicyRequest};

/// Refuses a call that has changed since it was checked: a gate replaced its arguments and they
/// name another tool, the tool was redefined, or a new policy does not allow the call.
pub struct StillAllowed(pub Arc<dyn Policy>);

impl Gate for StillAllowed {
    fn name(&self) -> &'static str {
        "still allowed"
    }

    fn check<'a>(&'a self, passage: &'a mut Passage) -> Verdict<'a> {
        Verdict::Now(check_subject(passage).and_then(|()| self.check_decision(passage)))
    }
}

/// Resolves the subject again, from the arguments that the tool will get.
fn check_subject(passage: &mut Passage) -> Result<(), CallError> {
    let Some(entry) = passage.entry.clone() else { return Ok(()) };
    let Value::Object(arguments) = &mut passage.arguments else {
        return Err(CallError::invalid_arguments("arguments must be a JSON object"));
    };
    let now = resolve_subject(&passage.call, &entry, arguments)?;
    let judged = &passage.subject;
    // A tool that nobody announces at the moment has no definition.
    let is_redefined = now.definition.is_some()
        && judged.definition.is_some()
        && now.definition != judged.definition;

    let (judged, now) = (&judged.id, &now.id);
    let text = if judged != now {
        format!("the call was checked as one of '{judged}', and its arguments now name '{now}'")
    } else if is_redefined {
        format!("'{judged}' has changed while the call waited: read its definition and call again")
    } else {
        return Ok(());
    };
    Err(CallError::new(ErrorCode::Denied, text))
}

impl StillAllowed {
    fn check_decision(&self, passage: &Passage) -> Result<(), CallError> {
        let request = PolicyRequest { scope: &passage.call.scope, subject: &passage.subject };
        let id = &passage.subject.id;
        let refusal = match self.0.decide(&request) {
            Decision::Allow => return Ok(()),
            Decision::Ask(_) if passage.was_demanded => return Ok(()),
            Decision::Ask(demand) => {
                format!("'{id}' needs an approval since the policy has changed: {}", demand.reason)
            }
            Decision::Deny(reason) => format!("'{id}' is not allowed: {reason}"),
        };
        Err(CallError::new(ErrorCode::Denied, refusal))
    }
}
