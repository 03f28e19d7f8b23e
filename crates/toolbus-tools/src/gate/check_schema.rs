//! The schema gate: checks the arguments against the tool's schema.

use serde_json::Value;

use super::{Gate, Passage, Verdict};
use crate::artifact::find_references;
use crate::call::CallError;
use crate::registry::ToolEntry;
use crate::schema::{Violation, describe};

/// Refuses arguments that the tool does not take, and says everything that is wrong with them. A
/// read has no schema.
pub struct FitsSchema {
    /// Where a reference to an artifact stands among the arguments, anything may. What it stands
    /// for is checked once it is known.
    pub allows_references: bool,
}

impl Gate for FitsSchema {
    fn name(&self) -> &'static str {
        "schema"
    }

    fn check<'a>(&'a self, passage: &'a mut Passage) -> Verdict<'a> {
        let Some(entry) = &passage.entry else { return Verdict::Now(Ok(())) };
        let references = match self.allows_references {
            true => find_references(&passage.arguments),
            false => Vec::new(),
        };
        if references.is_empty() {
            return Verdict::Now(check(entry, &passage.arguments));
        }

        let places: Vec<_> = references.into_iter().map(|(pointer, _)| pointer).collect();
        let checked = entry.schema.check_around(&passage.arguments, &places);
        Verdict::Now(checked.map_err(|violations| refusal(entry, &violations)))
    }
}

/// Says everything that is wrong with the arguments.
pub(super) fn check(entry: &ToolEntry, arguments: &Value) -> Result<(), CallError> {
    entry.schema.check(arguments).map_err(|violations| refusal(entry, &violations))
}

fn refusal(entry: &ToolEntry, violations: &[Violation]) -> CallError {
    CallError::invalid_arguments(describe(violations, entry.tool.missing_argument))
}
