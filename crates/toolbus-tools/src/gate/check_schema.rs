//! The schema gate: checks the arguments against the tool's schema.

use serde_json::{Map, Value};

use super::{Gate, Passage, Verdict};
use crate::call::CallError;
use crate::registry::ToolEntry;
use crate::schema::{VIOLATIONS_MAX, Violation, describe};

/// Refuses arguments that the tool does not take, and says everything that is wrong with them. A
/// read has no schema.
pub struct FitsSchema;

impl Gate for FitsSchema {
    fn name(&self) -> &'static str {
        "schema"
    }

    fn check<'a>(&'a self, passage: &'a mut Passage) -> Verdict<'a> {
        Verdict::Now(passage.check_schema())
    }
}

/// Says everything that is wrong with the arguments.
pub(crate) fn check(entry: &ToolEntry, arguments: &Value) -> Result<(), CallError> {
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
