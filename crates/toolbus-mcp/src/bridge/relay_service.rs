//! The handler of what is relayed: requests of MCP clients, whose results come back as servers
//! wrote them.

use std::time::Duration;

use futures_util::future::BoxFuture;
use toolbus_bus::responder::{
    Call as ReceivedCall, Context, Failure, Malformed, Received, Repeat, Reply, Service,
};
use toolbus_bus::{Envelope, Topic};
use toolbus_mcp_agent::{provider_of, read_id};
use toolbus_tools::GrantCheck;
use toolbus_tools::bus::{reply_to, tool_failure};
use toolbus_tools::call::{Arguments, CallError};
use toolbus_tools::id::ToolId;
use toolbus_wire::json::RawJson;
use toolbus_wire::message::mcp::{McpRelayRequest, McpRelayResponse};
use toolbus_wire::message::tool::CallIds;
use toolbus_wire::{ErrorCode, Message as _, json};

use super::invoke_service::{call_error, caller_of, with_headers};
use crate::call::{Call, Naming};
use crate::lookup::Lookup;
use crate::method::Method;
use crate::server_pool::ServerPool;

/// How long a request that only reads may take when its caller does not say.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Clone)]
pub(super) struct RelayService {
    pub(super) set: ServerPool,
    pub(super) source: String,
    pub(super) grants: GrantCheck,
}

/// A request that can be relayed.
pub(super) struct RelayedRequest {
    id: String,
    server: String,
    method: Method,
    params: RawJson,
    /// The tool, where the request calls one.
    tool: Option<String>,
}

impl RelayedRequest {
    /// What is to be relayed of a request.
    fn of(request: McpRelayRequest) -> Result<Self, String> {
        let McpRelayRequest { tool_call_id: id, server_name: server, method, params } = request;
        let method =
            Method::of_name(&method).ok_or_else(|| format!("{method:?} is not relayed"))?;
        let name = || params.member("name").and_then(|name| name.to_value(1).ok());
        let tool = match method {
            Method::CallTool => {
                let name = name().and_then(|name| name.as_str().map(str::to_owned));
                Some(name.ok_or("the params of tools/call name no tool")?)
            }
            _ => None,
        };
        Ok(Self { id, server, method, params, tool })
    }

    fn subject(&self) -> ToolId {
        match &self.tool {
            Some(tool) => ToolId::of(&provider_of(&self.server), tool),
            None => read_id(&self.server, self.method.name()),
        }
    }
}

impl Service for RelayService {
    type Request = RelayedRequest;

    fn parse(&self, envelope: &Envelope) -> Result<ReceivedCall<RelayedRequest>, Malformed> {
        let ids = |id: String, method: String| CallIds { tool_call_id: id, tool_name: method };
        let request = json::read::<McpRelayRequest>(&envelope.body).map_err(|error| Malformed {
            ids: ids(envelope.message_id.clone(), McpRelayRequest::TYPE.to_owned()),
            reason: error.to_string(),
        })?;

        let ids = ids(request.tool_call_id.clone(), request.method.clone());
        let request = match RelayedRequest::of(request) {
            Ok(request) => request,
            Err(reason) => return Err(Malformed { ids, reason }),
        };
        let (default_budget, may_repeat) = match &request.tool {
            Some(tool) => {
                let server = Some(request.server.as_str());
                (self.set.call_timeout(server, tool), self.set.may_repeat(server, tool))
            }
            None => (READ_TIMEOUT, true),
        };
        let repeat = if may_repeat { Repeat::Harmless } else { Repeat::Never };
        Ok(ReceivedCall { ids, request, default_budget, repeat })
    }

    fn authorize(
        &self,
        call: &ReceivedCall<RelayedRequest>,
        received: Received<'_>,
    ) -> Result<(), Reply> {
        self.check(&call.ids, &call.request, received)
    }

    fn serve(&self, request: RelayedRequest, context: Context) -> BoxFuture<'_, Reply> {
        Box::pin(async move {
            let ids = CallIds {
                tool_call_id: request.id.clone(),
                tool_name: request.method.name().to_owned(),
            };
            let reply = match self.relay(request, context).await {
                Ok(result) => {
                    Reply::of(&McpRelayResponse { tool_call_id: ids.tool_call_id, result })
                }
                Err(error) => reply_to(&ids, Err(error)),
            };
            with_headers(reply)
        })
    }

    fn fail(&self, ids: &CallIds, failure: Failure) -> Reply {
        with_headers(tool_failure(ids, failure))
    }

    fn default_reply_topic(&self) -> Option<Topic> {
        None
    }

    fn source(&self) -> &str {
        &self.source
    }
}

impl RelayService {
    /// Whether a request may be made.
    pub(super) fn check(
        &self,
        ids: &CallIds,
        request: &RelayedRequest,
        received: Received<'_>,
    ) -> Result<(), Reply> {
        let checked = self.grants.check(received, || request.subject());
        checked.map_err(|error| with_headers(reply_to(ids, Err(error))))
    }

    async fn relay(&self, request: RelayedRequest, context: Context) -> Result<RawJson, CallError> {
        let RelayedRequest { server, method, params, tool, .. } = request;
        let caller = caller_of(&context, None);
        let context = context.call;
        let relayed = match tool {
            Some(tool) => {
                let arguments = params.member("arguments").map(|text| text.text().to_owned());
                let call = Call {
                    server: Some(server),
                    tool,
                    arguments: Arguments::Text(arguments).object()?,
                    params: Some(params),
                    naming: Naming::Exact,
                    caller,
                    context,
                };
                self.set.relay_call(call).await
            }
            None => {
                let lookup = Lookup { server, naming: Naming::Exact, caller, context };
                self.set.relay_read(lookup, method, params).await
            }
        };

        let result = relayed.map_err(call_error)?;
        if result.members().is_none() {
            let text = "the server gave a result that is no object";
            return Err(CallError::new(ErrorCode::ExecutionFailed, text));
        }
        Ok(result)
    }
}
