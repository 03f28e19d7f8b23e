//! Requests of MCP clients to servers, relayed by a bridge as they are.

use toolbus_bus::requester::{self, Requester};
use toolbus_bus::{CallContext, Envelope};
use toolbus_tools::Permit;
use toolbus_tools::bus::{error_of_reply, unreadable_reply};
use toolbus_tools::call::CallError;
use toolbus_tools::invoker::ReadContext;
use toolbus_wire::envelope::new_id;
use toolbus_wire::json::RawJson;
use toolbus_wire::message::mcp::{McpRelayRequest, McpRelayResponse};
use toolbus_wire::message::tool::ToolError;
use toolbus_wire::{ErrorCode, Topic, header, json, message};

use crate::directory::McpDirectory;

/// A request that a bridge is to relay.
pub(crate) struct Relay<'a> {
    /// The server, by its exact name.
    pub(crate) server: &'a str,
    /// The topic of its requests.
    pub(crate) topic: &'a Topic,
    /// The protocol's name of the method.
    pub(crate) method: &'static str,
    pub(crate) params: RawJson,
    /// Whether it is declared idempotent or read-only. Any other request is sent once.
    pub(crate) may_repeat: bool,
    pub(crate) permit: &'a Permit,
    pub(crate) context: CallContext,
}

impl Relay<'_> {
    /// Has a bridge make the request.
    ///
    /// # Errors
    /// Why there is no reply.
    pub(crate) async fn request(self, requester: &Requester) -> Result<Envelope, requester::Error> {
        let call_id = new_id();
        let body = McpRelayRequest {
            tool_call_id: call_id.clone(),
            server_name: self.server.to_owned(),
            method: self.method.to_owned(),
            params: self.params,
        };

        let envelope = Envelope::of(&body, requester.agent().as_str());
        let request = requester::Request {
            topic: self.topic,
            workers: Some(self.topic.as_str()),
            envelope: envelope.with_header(header::CONTENT_TRUST, "tool-request"),
            call_id: &call_id,
            may_repeat: self.may_repeat,
            context: self.context,
        };
        requester.request_sealed(request, self.permit).await
    }
}

/// The result that a reply brings, as the server wrote it.
///
/// # Errors
/// The error that it tells of, or [`ErrorCode::OutcomeUnknown`] when it cannot be read.
pub(crate) fn result_of(mut reply: Envelope) -> Result<RawJson, CallError> {
    if message::is::<ToolError>(&reply) {
        let error = json::read::<ToolError>(&reply.body);
        return Err(error.map_or_else(|error| unreadable_reply(&reply, error), error_of_reply));
    }
    let response = McpRelayResponse::read(std::mem::take(&mut reply.body));
    response.map(|response| response.result).map_err(|error| unreadable_reply(&reply, error))
}

/// Whether the result of a tool, as its server wrote it, says that the tool has failed.
#[must_use]
pub fn is_error_result(result: &RawJson) -> bool {
    result.member("isError").is_some_and(|is_error| is_error.text() == "true")
}

impl McpDirectory {
    /// Has a server answer a request that only reads, and returns the result as it wrote it.
    ///
    /// # Errors
    /// When no bridge answers in time, or the server gives no result.
    pub async fn relay(
        &self,
        server: &str,
        method: &'static str,
        params: RawJson,
        context: ReadContext,
    ) -> Result<RawJson, CallError> {
        let topic = self.inner.index.expect_request_topic(server)?;

        let ReadContext { call: context, permit, .. } = context;
        let (topic, permit, may_repeat) = (&topic, &permit, true);
        let relay = Relay { server, topic, method, params, may_repeat, permit, context };
        let reply = relay.request(&self.inner.requester).await.map_err(|error| match error {
            requester::Error::Timeout { .. } => {
                CallError::new(ErrorCode::Timeout, "no bridge answers for this MCP server in time")
            }
            error if error.is_unroutable() => CallError::new(
                ErrorCode::Unroutable,
                "no MCP bridge that has this MCP server is running",
            ),
            error => toolbus_tools::bus::error_of(method, error),
        })?;
        result_of(reply)
    }
}
