//! The resolve gate: finds out which tool a call is really about.

use serde_json::{Map, Value};

use crate::call::{Call, CallError};
use crate::registry::ToolEntry;
use crate::subject::Subject;

/// The tool that the arguments name, where the tool that was called calls others; else that one.
/// Whatever name leads to a tool, it is the same subject, and one that the scope may not see is not
/// there.
pub(crate) fn resolve_subject(
    call: &Call,
    entry: &ToolEntry,
    arguments: &mut Map<String, Value>,
) -> Result<Subject, CallError> {
    match entry.executor.resolve(arguments)? {
        Some(subject) if call.scope.sees(&subject) => Ok(subject),
        Some(subject) => Err(CallError::not_registered(subject.id.as_str())),
        None => Ok(entry.subject()),
    }
}
