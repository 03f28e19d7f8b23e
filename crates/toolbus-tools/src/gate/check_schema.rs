//! The schema gate: checks the arguments against the tool's schema.

use serde_json::{Map, Value};

use super::{Gate, Passage, Verdict};
use crate::artifact::find_references;
use crate::call::CallError;
use crate::registry::ToolEntry;
use crate::schema::{VIOLATIONS_MAX, Violation, describe};

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
        let refuse = |violations: Vec<_>| refusal(entry, &passage.arguments, &violations);
        Verdict::Now(checked.map_err(refuse))
    }
}

/// Says everything that is wrong with the arguments.
pub(super) fn check(entry: &ToolEntry, arguments: &Value) -> Result<(), CallError> {
    let refuse = |violations: Vec<_>| refusal(entry, arguments, &violations);
    entry.schema.check(arguments).map_err(refuse)
}

fn refusal(entry: &ToolEntry, arguments: &Value, violations: &[Violation]) -> CallError {
    let mut text = describe(violations, entry.tool.missing_argument);
    let given = arguments.as_object().into_iter().flat_map(Map::keys);
    let given: Vec<_> = given.map(String::as_str).collect();
    let unknown = entry.unknown_arguments(&given);
    let misspelt = unknown.into_iter().filter_map(|(name, meant)| Some((name, meant?)));
    for (name, meant) in misspelt.take(VIOLATIONS_MAX) {
        text.push_str(&format!("; '{name}' is no argument of it, did you mean '{meant}'?"));
    }
    CallError::invalid_arguments(text)
}
