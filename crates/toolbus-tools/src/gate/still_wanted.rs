//! The last gate before a call runs: does anybody still want it?

use super::{Gate, Passage, Verdict};
use crate::call::CallError;

/// Refuses calls that were cancelled, or whose caller has stopped waiting, before they ran.
pub struct StillWanted;

impl Gate for StillWanted {
    fn name(&self) -> &'static str {
        "still wanted"
    }

    fn check<'a>(&'a self, passage: &'a mut Passage) -> Verdict<'a> {
        let call = &passage.call;
        let is_cancelled = call.cancelled.is_cancelled() || call.scope.cancelled.is_cancelled();

        Verdict::Now(if is_cancelled {
            Err(CallError::cancelled())
        } else if passage.caller_deadline.is_past() {
            Err(CallError::timeout(call.tool.as_str(), passage.caller_deadline.asked()))
        } else {
            Ok(())
        })
    }
}
