//! Outcomes as messages, and back.

use toolbus_bus::Envelope;
use toolbus_bus::responder::Reply;
use toolbus_wire::message::tool::{CallIds, ToolError, ToolInvokeResponse};
use toolbus_wire::{ErrorCode, json, message};

use crate::call::{CallError, Outcome, Output};

/// The message that tells of an outcome.
#[must_use]
pub fn reply_to(ids: &CallIds, outcome: Outcome) -> Reply {
    let output = match outcome {
        Ok(output) => output,
        Err(error) => return failure(ids, error.code, error.message),
    };
    let reply = Reply::of(&ToolInvokeResponse {
        tool_call_id: ids.tool_call_id.clone(),
        tool_name: ids.tool_name.clone(),
        content: output.content,
        is_error: output.is_error,
        content_blocks: (!output.blocks.is_empty()).then_some(output.blocks),
        structured_content: output.structured,
    });
    if output.is_error { reply.failing(ErrorCode::ToolError.label()) } else { reply }
}

/// The `ToolError` of this code and text.
pub(super) fn failure(ids: &CallIds, code: ErrorCode, text: String) -> Reply {
    let label = code.label();
    Reply::of(&ToolError::new(ids.clone(), code, text)).failing(label)
}

/// The outcome that a message tells of. What is not a `ToolError` is read as a response, as the C#
/// code does.
///
/// # Errors
/// The error that the message tells of, or [`ErrorCode::OutcomeUnknown`] when it cannot be read.
pub fn output_of(envelope: &Envelope) -> Outcome {
    let unreadable = |error: json::Error| {
        CallError::new(
            ErrorCode::OutcomeUnknown,
            format!("the reply of {} cannot be read: {error}", envelope.source),
        )
    };
    if message::is::<ToolError>(envelope) {
        let error = json::read::<ToolError>(&envelope.body).map_err(unreadable)?;
        return Err(CallError::new(error.code, error.message));
    }
    let response = json::read::<ToolInvokeResponse>(&envelope.body).map_err(unreadable)?;
    Ok(Output {
        content: response.content,
        blocks: response.content_blocks.unwrap_or_default(),
        structured: response.structured_content,
        is_error: response.is_error,
    })
}
