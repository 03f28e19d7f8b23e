//! The last look before a call runs: does anybody still want it?

use super::{Gate, Passage, Verdict};
use crate::call::CallError;

/// Refuses calls that were cancelled, or whose time was over, before they ran.
pub struct NotCancelled;

impl Gate for NotCancelled {
    fn name(&self) -> &'static str {
        "cancelled"
    }

    fn check<'a>(&'a self, passage: &'a mut Passage<'_>) -> Verdict<'a> {
        Verdict::Now(if passage.call.cancelled.is_cancelled() {
            Err(CallError::cancelled())
        } else if passage.deadline.is_past() {
            Err(CallError::timeout(&passage.call.tool, passage.deadline.asked()))
        } else {
            Ok(())
        })
    }
}
