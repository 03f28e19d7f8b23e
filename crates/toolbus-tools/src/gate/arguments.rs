//! The gate of the arguments: reads them, and forgives what models commonly do to them.

use serde_json::{Map, Value};

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

/// Makes of arguments what the tool would have them be.
pub(super) fn forgive_habits(entry: &ToolEntry, arguments: &mut Map<String, Value>) {
    entry.executor.coerce(arguments);
    drop_nulls(&entry.tool.parameters, arguments);
}
