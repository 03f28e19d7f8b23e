//! The handler of `tool.invoke.mcp`.

use futures_util::future::BoxFuture;
use serde_json::json;
use toolbus_bus::responder::{
    Call as ReceivedCall, Context, Failure, Malformed, Received, Repeat, Reply, Service,
};
use toolbus_bus::{Envelope, Topic};
use toolbus_mcp_agent::provider_of;
use toolbus_tools::GrantCheck;
use toolbus_tools::bus::{read_request, reply_to, tool_failure};
use toolbus_tools::call::{Arguments, CallError, Outcome, Output};
use toolbus_tools::id::ToolId;
use toolbus_wire::header::{self, Headers};
use toolbus_wire::json::RawJson;
use toolbus_wire::message::mcp::{McpNearestNames, McpServerError};
use toolbus_wire::message::tool::{CallIds, ContentKind, ToolInvokeRequest};
use toolbus_wire::name::AgentName;
use toolbus_wire::topic;

use super::elsewhere::Elsewhere;
use crate::call::{Call, Caller, Naming};
use crate::call_result::CallResult;
use crate::server_pool::ServerPool;

#[derive(Clone)]
pub(super) struct InvokeService {
    pub(super) set: ServerPool,
    pub(super) elsewhere: Elsewhere,
    pub(super) agent: AgentName,
    pub(super) source: String,
    pub(super) grants: GrantCheck,
}

impl Service for InvokeService {
    type Request = ToolInvokeRequest;

    fn parse(&self, envelope: &Envelope) -> Result<ReceivedCall<ToolInvokeRequest>, Malformed> {
        // The message type is not looked at: the C# bridge does not, and only requests come here.
        let request = read_request(envelope)?;
        let server = envelope.headers.get(header::MCP_SERVER);
        let may_repeat = self.set.may_repeat(server, &request.tool_name);
        Ok(ReceivedCall {
            ids: CallIds::from(&request),
            default_budget: self.set.call_timeout(server, &request.tool_name),
            repeat: if may_repeat { Repeat::Harmless } else { Repeat::Never },
            request,
        })
    }

    fn authorize(
        &self,
        call: &ReceivedCall<ToolInvokeRequest>,
        received: Received<'_>,
    ) -> Result<(), Reply> {
        self.check(&call.ids, &call.request, received)
    }

    fn forward_to(&self, request: &ToolInvokeRequest, received: Received<'_>) -> Option<Topic> {
        let server = received.envelope.headers.get(header::MCP_SERVER);
        self.elsewhere.topic_of_call(&self.set, server, request)
    }

    fn serve(&self, request: ToolInvokeRequest, context: Context) -> BoxFuture<'_, Reply> {
        Box::pin(async move {
            let ids = CallIds::from(&request);
            with_headers(reply_to(&ids, self.call(request, context).await))
        })
    }

    fn fail(&self, ids: &CallIds, failure: Failure) -> Reply {
        with_headers(tool_failure(ids, failure))
    }

    fn default_reply_topic(&self) -> Option<Topic> {
        Some(topic::tool_result(&self.agent))
    }

    fn source(&self) -> &str {
        &self.source
    }
}

impl InvokeService {
    /// Whether a request may be made.
    pub(super) fn check(
        &self,
        ids: &CallIds,
        request: &ToolInvokeRequest,
        received: Received<'_>,
    ) -> Result<(), Reply> {
        let subject = || {
            // No agent names a server so; without the header a grant is none for this request.
            let server = received.envelope.headers.get(header::MCP_SERVER).unwrap_or_default();
            ToolId::of(&provider_of(server), &request.tool_name)
        };

        let checked = self.grants.check(received, subject);
        checked.map_err(|error| with_headers(reply_to(ids, Err(error))))
    }

    async fn call(&self, request: ToolInvokeRequest, context: Context) -> Outcome {
        // The server gets them as they were written, where they are no text in a text.
        let written = request.arguments.clone().and_then(|text| RawJson::parse(text).ok());
        let written = written.filter(|written| written.text().trim_start().starts_with('{'));
        let arguments = Arguments::Text(request.arguments).object()?;
        let params = written.map(|written| {
            RawJson::of(&json!({"name": request.tool_name}))
                .with_member("arguments", Some(&written))
        });
        let caller = caller_of(&context, request.session_id.as_deref());
        let call = Call {
            server: context.headers().get(header::MCP_SERVER).map(str::to_owned),
            tool: request.tool_name,
            arguments,
            params,
            naming: naming_of(context.headers(), &self.grants),
            caller,
            context: context.call,
        };

        self.set.call(call).await.map(output_of).map_err(call_error)
    }
}

/// Who makes a request: its sender, in the session that it names. RockBot names it in the body.
pub(super) fn caller_of(context: &Context, named: Option<&str>) -> Caller {
    Caller::of(context.source(), context.headers().get(header::SESSION).or(named))
}

/// How the names of a request are meant. Whoever looked them up says so. A grant is for just the
/// names that the request has, so that no others are guessed from them.
pub(super) fn naming_of(headers: &Headers, grants: &GrantCheck) -> Naming {
    let is_exact = headers.get(header::EXACT).is_some() || grants.is_granted(headers);
    if is_exact { Naming::Exact } else { Naming::Forgiving }
}

/// The error as callers get it, with what is known of whether the server had the call.
pub(super) fn call_error(error: crate::call::CallError) -> CallError {
    let answer = CallError::new(error.code(), error.to_string());
    let answer = answer.with_execution(error.execution());
    let nearest = error.nearest_servers().map(|names| McpNearestNames(names.to_vec()).to_details());
    let details = error.server_error().map(McpServerError::to_details).or(nearest);
    let answer = match details {
        Some(details) => answer.with_details(details),
        None => answer,
    };
    let answer = match error.retry_after() {
        Some(wait) => answer.with_retry_after(wait),
        None => answer,
    };
    if error.may_repeat() { answer.of_repeatable() } else { answer }
}

/// A result as an output. Blocks go along only where they say more than the text does.
fn output_of(result: CallResult) -> Output {
    let only_text = result.blocks.iter().all(|block| block.kind == ContentKind::Text);
    // A tool that gives a value should give its text as well, and not every one does.
    let value_as_text = || result.structured.as_ref().map(|value| value.text().to_owned());
    Output {
        content: result.text.or_else(value_as_text),
        blocks: if only_text { Vec::new() } else { result.blocks },
        structured: result.structured,
        is_error: result.is_error,
        ..Output::default()
    }
}

pub(super) fn with_headers(reply: Reply) -> Reply {
    let headers = Headers::new()
        .with(header::CONTENT_TRUST, "tool-output")
        .with(header::TOOL_PROVIDER, "mcp");
    Reply { headers, ..reply }
}
