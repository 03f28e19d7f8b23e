//! The schema gate: checks the arguments against the tool's schema.

use serde_json::Value;
use toolbus_config::nearest_name;

use super::{Gate, Passage, Verdict};
use crate::artifact::find_references;
use crate::call::CallError;
use crate::registry::ToolEntry;
use crate::schema::{VIOLATIONS_MAX, Violation, describe};

/// Most arguments that are compared with those of the schema.
const COMPARED_MAX: usize = 100;

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
    for (name, meant) in misspelt(entry, arguments).into_iter().take(VIOLATIONS_MAX) {
        text.push_str(&format!("; '{name}' is no argument of it, did you mean '{meant}'?"));
    }
    CallError::invalid_arguments(text)
}

/// The arguments that the schema does not have, with the one that was probably meant, which is not
/// given.
fn misspelt<'a>(entry: &'a ToolEntry, arguments: &'a Value) -> Vec<(&'a str, &'a str)> {
    let declared = entry.tool.parameters.get("properties").and_then(Value::as_object);
    let (Some(declared), Some(given)) = (declared, arguments.as_object()) else {
        return Vec::new();
    };
    let absent = || declared.keys().filter(|name| !given.contains_key(*name)).map(String::as_str);
    let unknown = given.keys().filter(|name| !declared.contains_key(*name)).take(COMPARED_MAX);
    unknown.filter_map(|name| Some((name.as_str(), nearest_name(name, absent())?))).collect()
}
