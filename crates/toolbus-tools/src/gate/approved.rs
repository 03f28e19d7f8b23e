//! The gate behind those that get approvals: was the one that this call needs given?

use toolbus_wire::ErrorCode;

use super::{Gate, Passage, Verdict};
use crate::call::CallError;

/// Refuses calls that need an approval which nobody has given. Where nothing asks for approvals,
/// that is all of them.
pub struct Approved;

impl Gate for Approved {
    fn name(&self) -> &'static str {
        "approved"
    }

    fn check<'a>(&'a self, passage: &'a mut Passage) -> Verdict<'a> {
        let Some(demand) = &passage.approval else { return Verdict::Now(Ok(())) };
        let id = &passage.subject.id;
        Verdict::Now(Err(CallError::new(
            ErrorCode::Denied,
            format!(
                "'{id}' needs an approval ({}), and nobody can be asked for it here: rule '{}'. To \
                 allow it, {}",
                demand.reason,
                demand.rule,
                demand.how_to_allow(id.as_str())
            ),
        )))
    }
}
