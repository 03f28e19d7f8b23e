//! Requests to the bridge that are about servers, not tools.

use std::time::Duration;

use tokio_util::sync::CancellationToken;
use toolbus_bus::requester::{self, Requester};
use toolbus_bus::{Deadline, Envelope, Progress, PublishError};
use toolbus_tools::call::CallError;
use toolbus_wire::envelope::new_id;
use toolbus_wire::{ErrorCode, Message, json, topic};

/// How long a bridge may take to answer.
pub(super) const TIMEOUT: Duration = Duration::from_secs(30);

/// Asks the bridge. `timed_out` is what the model is told when it does not answer.
pub(super) async fn ask<Q: Message, A: Message>(
    requester: &Requester,
    question: &Q,
    deadline: Deadline,
    cancelled: &CancellationToken,
    timed_out: impl FnOnce() -> String,
) -> Result<A, CallError> {
    let request = requester::Request {
        topic: &topic::MCP_MANAGE,
        envelope: Envelope::of(question, requester.agent().as_str()),
        call_id: &new_id(),
        deadline,
        cancelled,
        progress: Progress::none(),
    };
    let reply = requester.request(request).await.map_err(|error| match error {
        requester::Error::Timeout { .. } => CallError::new(ErrorCode::Timeout, timed_out()),
        requester::Error::Publish(PublishError::Unroutable(_)) => CallError::new(
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
