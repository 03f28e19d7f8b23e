//! The schema gate: checks the arguments against the tool's schema.

use serde_json::Value;

use super::{Gate, Passage, Verdict};
use crate::call::CallError;
use crate::registry::ToolEntry;
use crate::schema::describe;

/// Refuses arguments that the tool does not take, and says everything that is wrong with them. A
/// read has no schema.
pub struct FitsSchema;

impl Gate for FitsSchema {
    fn name(&self) -> &'static str {
        "schema"
    }

    fn check<'a>(&'a self, passage: &'a mut Passage) -> Verdict<'a> {
        let Some(entry) = &passage.entry else { return Verdict::Now(Ok(())) };
        Verdict::Now(check(entry, &passage.arguments))
    }
}

/// Says everything that is wrong with the arguments.
pub(super) fn check(entry: &ToolEntry, arguments: &Value) -> Result<(), CallError> {
    entry.schema.check(arguments).map_err(|violations| {
        let text = describe(&violations, entry.tool.missing_argument);
        CallError::invalid_arguments(text)
    })
}
