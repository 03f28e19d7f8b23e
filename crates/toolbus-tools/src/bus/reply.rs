//! Outcomes as messages, and back.

use std::time::Duration;

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
        Err(error) => return error_reply(ids, error),
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

/// The `ToolError` of an error.
pub(super) fn error_reply(ids: &CallIds, error: CallError) -> Reply {
    let CallError { code, message, execution, is_retryable, retry_after, details } = error;
    let label = code.label();
    let error = ToolError {
        is_retryable,
        execution: Some(execution),
        retry_after_ms: retry_after.map(|wait| wait.as_millis().try_into().unwrap_or(u64::MAX)),
        details: details.map(|details| *details),
        ..ToolError::new(ids.clone(), code, message)
    };
    Reply::of(&error).failing(label)
}

/// The error that a `ToolError` tells of. A peer that does not say whether the tool was started is
/// taken at its code's word, and at its own for whether to try again.
#[must_use]
pub fn error_of_reply(error: ToolError) -> CallError {
    let read = CallError::new(error.code, error.message);
    CallError {
        execution: error.execution.unwrap_or(read.execution),
        is_retryable: error.is_retryable,
        retry_after: error.retry_after_ms.map(Duration::from_millis),
        details: error.details.map(Box::new),
        ..read
    }
}

/// The error of a call whose reply cannot be read.
#[must_use]
pub fn unreadable_reply(reply: &Envelope, error: json::Error) -> CallError {
    CallError::new(
        ErrorCode::OutcomeUnknown,
        format!("the reply of {} cannot be read: {error}", reply.source),
    )
}

/// The outcome that a message tells of. What is not a `ToolError` is read as a response, as the C#
/// code does.
///
/// # Errors
/// The error that the message tells of, or [`ErrorCode::OutcomeUnknown`] when it cannot be read.
pub fn output_of(envelope: &Envelope) -> Outcome {
    let unreadable = |error| unreadable_reply(envelope, error);
    if message::is::<ToolError>(envelope) {
        let error = json::read::<ToolError>(&envelope.body).map_err(unreadable)?;
        return Err(error_of_reply(error));
    }
    let response = json::read::<ToolInvokeResponse>(&envelope.body).map_err(unreadable)?;
    Ok(Output {
        content: response.content,
        blocks: response.content_blocks.unwrap_or_default(),
        structured: response.structured_content,
        is_error: response.is_error,
        ..Output::default()
    })
}
