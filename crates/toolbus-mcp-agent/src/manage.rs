//! Requests to the bridge that are about servers, not tools.

use std::time::Duration;

use toolbus_bus::requester::{self, Requester};
use toolbus_bus::{CallContext, Envelope, Progress};
use toolbus_tools::Permit;
use toolbus_tools::call::CallError;
use toolbus_wire::message::mcp::McpResponse;
use toolbus_wire::{ErrorCode, Message, header, json, queue, topic};

/// How long a bridge may take to answer.
pub const TIMEOUT: Duration = Duration::from_secs(30);

/// Asks the bridge, in the context of a call and by exact names; progress is not reported. Without
/// a permit, only what is announced anyway may be asked for. `timed_out` is what the model is told
/// when the bridge does not answer.
pub(crate) async fn ask<Q: Message, A: Message>(
    requester: &Requester,
    question: &Q,
    context: CallContext,
    permit: Option<&Permit>,
    timed_out: impl FnOnce() -> String,
) -> Result<A, CallError> {
    let envelope = Envelope::of(question, requester.agent().as_str());
    let envelope = envelope.with_header(header::EXACT, "1");
    let request = requester::Request {
        may_repeat: false,
        topic: &topic::MCP_MANAGE,
        workers: Some(&queue::mcp_bridge_manage(requester.agent())),
        // These requests have no id of their own: the message's takes its place at both ends.
        call_id: &envelope.message_id.clone(),
        envelope,
        context: context.with_progress(Progress::none()),
    };
    let replied = match permit {
        Some(permit) => requester.request_sealed(request, permit).await,
        None => requester.request(request).await,
    };
    let reply = replied.map_err(|error| match error {
        requester::Error::Timeout { .. } => CallError::new(ErrorCode::Timeout, timed_out()),
        error if error.is_unroutable() => CallError::new(
            ErrorCode::Unroutable,
            "no MCP bridge is running: nobody manages MCP servers",
        ),
        error => toolbus_tools::bus::error_of("mcp.manage", error),
    })?;

    json::read(&reply.body).map_err(|error| {
        CallError::new(
            ErrorCode::OutcomeUnknown,
            format!("the reply of {} cannot be read: {error}", reply.source),
        )
    })
}

/// Refuses an answer by which the bridge denies what was asked for. Other errors are for the model
/// to read.
pub(crate) fn check_denied(response: &impl McpResponse) -> Result<(), CallError> {
    match response.error_code() {
        Some(ErrorCode::Denied) => check_answer(response),
        _ => Ok(()),
    }
}

/// Refuses an answer that tells of an error instead of what was asked for.
pub(crate) fn check_answer(response: &impl McpResponse) -> Result<(), CallError> {
    let Some(text) = response.error_text() else { return Ok(()) };
    let code = response.error_code().unwrap_or(ErrorCode::ExecutionFailed);
    let error = CallError::new(code, text);
    Err(match response.server_error() {
        Some(server_error) => error.with_details(server_error.to_details()),
        None => error,
    })
}
