//! The gate of the arguments: reads them, and forgives what models commonly do to them.

use serde_json::{Map, Value};

use crate::artifact::has_reference;
use crate::call::{Call, CallError};
use crate::registry::ToolEntry;
use crate::schema::drop_nulls;

/// Refuses arguments that are not a JSON object, nor text that holds one.
pub(crate) fn read_arguments(
    call: &Call,
    entry: &ToolEntry,
) -> Result<Map<String, Value>, CallError> {
    let mut arguments = call.arguments.object()?;
    forgive_habits(entry, &mut arguments);
    Ok(arguments)
}

/// Refuses references in the members that select the subject of the call.
pub(crate) fn refuse_selecting_references(
    entry: &ToolEntry,
    arguments: &Map<String, Value>,
) -> Result<(), CallError> {
    let members = entry.executor.subject_members().iter();
    let mut referring = members.filter(|name| arguments.get(**name).is_some_and(has_reference));
    match referring.next() {
        None => Ok(()),
        Some(name) => Err(CallError::invalid_arguments(format!(
            "'{name}' selects what the call is about, so it takes no reference to an artifact"
        ))),
    }
}

/// Makes of arguments what the tool would have them be.
pub(crate) fn forgive_habits(entry: &ToolEntry, arguments: &mut Map<String, Value>) {
    entry.executor.coerce(arguments);
    drop_nulls(&entry.tool.parameters, arguments);
}
