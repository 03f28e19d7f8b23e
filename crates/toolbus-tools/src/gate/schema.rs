//! Checks the arguments against the tool's schema.

use super::{Gate, Passage, Verdict};
use crate::call::CallError;
use crate::schema::describe;

/// Refuses arguments that the tool does not take, and says everything that is wrong with them.
pub struct FitsSchema;

impl Gate for FitsSchema {
    fn name(&self) -> &'static str {
        "schema"
    }

    fn check<'a>(&'a self, passage: &'a mut Passage<'_>) -> Verdict<'a> {
        Verdict::Now(passage.tool().and_then(|registered| {
            registered.schema.check(&passage.arguments).map_err(|violations| {
                let text = describe(&violations, registered.tool.missing_argument);
                CallError::invalid_arguments(text)
            })
        }))
    }
}
