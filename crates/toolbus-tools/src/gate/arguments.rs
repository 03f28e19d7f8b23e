//! The gate of the arguments: reads them, and forgives what models commonly do to them.

use serde_json::{Map, Value};

use crate::call::{Call, CallError};
use crate::registry::ToolEntry;

/// Refuses arguments that are not a JSON object, nor text that holds one.
pub(crate) fn read_arguments(
    call: &Call,
    entry: &ToolEntry,
) -> Result<Map<String, Value>, CallError> {
    let mut arguments = call.arguments.object()?;
    entry.executor.coerce(&mut arguments);
    Ok(arguments)
}
