//! Finds the tool by its name.

use super::{Gate, Passage, Verdict};
use crate::call::CallError;

/// Refuses calls of tools that are not there.
pub struct LookUp;

impl Gate for LookUp {
    fn name(&self) -> &'static str {
        "look-up"
    }

    fn check<'a>(&'a self, passage: &'a mut Passage<'_>) -> Verdict<'a> {
        passage.tool = passage.registry.find(&passage.call.tool);
        Verdict::Now(match passage.tool {
            Some(_) => Ok(()),
            None => Err(CallError::not_registered(&passage.call.tool)),
        })
    }
}
