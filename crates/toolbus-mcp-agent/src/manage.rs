//! Requests to the bridge that are about servers, not tools.

use std::time::Duration;

use tokio_util::sync::CancellationToken;
use toolbus_bus::requester::{self, Requester};
use toolbus_bus::{Asker, Deadline, Envelope, Progress, PublishError};
use toolbus_tools::call::{CallError, Invocation};
use toolbus_wire::{ErrorCode, Message, json, topic};

/// How long a bridge may take to answer.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);

/// How long a request may take, and who answers what is asked meanwhile.
pub(crate) struct Limits<'a> {
    pub(crate) deadline: Deadline,
    pub(crate) cancelled: &'a CancellationToken,
    pub(crate) asker: Asker,
}

impl<'a> From<&'a Invocation> for Limits<'a> {
    fn from(call: &'a Invocation) -> Self {
        Self { deadline: call.deadline, cancelled: &call.cancelled, asker: call.asker.clone() }
    }
}

impl<'a> From<(Deadline, &'a CancellationToken)> for Limits<'a> {
    fn from((deadline, cancelled): (Deadline, &'a CancellationToken)) -> Self {
        Self { deadline, cancelled, asker: Asker::none() }
    }
}

/// Asks the bridge, within the limits. `timed_out` is what the model is told when it does
/// not answer.
pub(crate) async fn ask<Q: Message, A: Message>(
    requester: &Requester,
    question: &Q,
    limits: impl Into<Limits<'_>>,
    timed_out: impl FnOnce() -> String,
) -> Result<A, CallError> {
    let Limits { deadline, cancelled, asker } = limits.into();
    let envelope = Envelope::of(question, requester.agent().as_str());
    let request = requester::Request {
        topic: &topic::MCP_MANAGE,
        // These requests have no id of their own: the message's takes its place at both ends.
        call_id: &envelope.message_id.clone(),
        envelope,
        deadline,
        cancelled,
        progress: Progress::none(),
        asker,
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
