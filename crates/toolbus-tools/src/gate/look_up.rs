//! The look-up gate: finds the tool by its name, of those that the scope sees.

use std::sync::Arc;

use toolbus_wire::ErrorCode;

use crate::call::{Call, CallError};
use crate::registry::{Snapshot, ToolEntry, ToolState};

/// Refuses calls of tools that are not there, that the scope may not see, or that are away.
pub(crate) fn look_up(call: &Call, tools: &Snapshot) -> Result<Arc<ToolEntry>, CallError> {
    let name = call.tool.as_str();
    let entry = tools.find(name).filter(|entry| entry.is_seen_by(&call.scope));
    let entry = entry.ok_or_else(|| missing(call, tools))?;

    match entry.state {
        ToolState::Available => Ok(Arc::clone(entry)),
        ToolState::Away => Err(CallError::new(
            ErrorCode::Unroutable,
            format!("tool '{name}' cannot be reached for now: whoever runs it is away"),
        )),
    }
}

/// Why a tool is not there, as far as the caller may know, and which one was probably meant.
fn missing(call: &Call, tools: &Snapshot) -> CallError {
    let name = call.tool.as_str();
    if let Some(why) = tools.why_missing(name) {
        return CallError::new(ErrorCode::Unroutable, why);
    }

    let mut error = CallError::not_registered(name);
    if let Some(near) = tools.nearest(name, &call.scope) {
        error.message.push_str(&format!(" Did you mean '{near}'?"));
    }
    error
}
