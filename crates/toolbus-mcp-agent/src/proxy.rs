//! `mcp_invoke_tool`: the gateway to every tool of every server.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::{Map, Value};
use toolbus_bus::Envelope;
use toolbus_bus::requester::{self, Requester};
use toolbus_tools::bus::{RemoteCall, error_of, output_of};
use toolbus_tools::call::{CallError, Invocation, Output};
use toolbus_tools::{Door, Executor, Subject};
use toolbus_wire::header::{self, Headers};
use toolbus_wire::message::mcp::McpNearestNames;
use toolbus_wire::{ErrorCode, queue, topic};

use crate::index::Index;
use crate::nearest::nearest_names;
use crate::relay::{Relay, is_error_result, result_of};
use crate::resolve::{
    EXACT, find_exact_server, names_known_server, read_object, resolve_call, subject_of,
};
use crate::seen::{check_judged, check_target};

/// How much longer the answer of a bridge may take than the call that it is to.
const ANSWER_GRACE: Duration = Duration::from_secs(1);

pub(crate) struct InvokeTool {
    pub(crate) requester: Requester,
    pub(crate) index: Arc<Index>,
}

impl Executor for InvokeTool {
    fn execute(&self, call: Invocation) -> BoxFuture<'_, Result<Output, CallError>> {
        Box::pin(self.invoke(call))
    }

    fn coerce(&self, arguments: &mut Map<String, Value>) {
        if let Some(inner) = arguments.get_mut("arguments") {
            read_object(inner);
        }
    }

    fn subject_members(&self) -> &'static [&'static str] {
        &["server_name", "tool_name", EXACT]
    }

    fn resolve(&self, arguments: &mut Map<String, Value>) -> Result<Option<Subject>, CallError> {
        Ok(resolve_call(&self.index.servers(), arguments))
    }

    /// As long as the bridge grants, once the names are exact.
    fn timeout(&self, arguments: &Map<String, Value>) -> Option<Duration> {
        let named = |name: &str| arguments.get(name).and_then(Value::as_str);
        self.granted_time(named("server_name")?, named("tool_name")?)
    }

    fn extension(&self, arguments: &Map<String, Value>) -> Option<Duration> {
        let named = |name: &str| arguments.get(name).and_then(Value::as_str);
        self.granted_extension(named("server_name")?, named("tool_name")?)
    }

    fn await_target<'a>(&'a self, arguments: &'a Map<String, Value>) -> BoxFuture<'a, ()> {
        Box::pin(self.index.wait_until(|servers| names_known_server(servers, arguments)))
    }
}

impl InvokeTool {
    async fn invoke(&self, mut call: Invocation) -> Result<Output, CallError> {
        let server = take_text(&mut call.arguments, "server_name");
        let tool = take_text(&mut call.arguments, "tool_name");
        check_judged(&call, &subject_of(None, &server, &tool).id)?;
        let arguments = call.arguments.remove("arguments");
        let arguments = arguments.unwrap_or_else(|| Value::Object(Map::new()));
        self.call(&server, &tool, arguments, call).await
    }

    /// Has a bridge call a tool of a server. Of `call`, the arguments are not looked at.
    pub(crate) async fn call(
        &self,
        server: &str,
        tool: &str,
        arguments: Value,
        call: Invocation,
    ) -> Result<Output, CallError> {
        let checked = check_target(&self.index, &call, server, Some(tool));
        checked.map_err(|error| match error.code {
            ErrorCode::ToolNotFound if call.scope.view.is_all() => self.with_hint(server, error),
            _ => error,
        })?;

        let asked = call.context.deadline.asked();
        let params = call.params(tool, &arguments);
        let (scope, subject) = (call.scope, call.subject);
        let may_repeat = subject.annotations.may_repeat();
        let topic = self.index.request_topic(server);
        // A client of MCP is told what the server says, and everybody else what models read.
        let is_relayed = scope.door == Door::Mcp && topic.is_some();
        let topic = &topic.unwrap_or(topic::TOOL_INVOKE_MCP);
        let (permit, context) = (&call.permit, call.context);
        let method = "tools/call";
        let relay = Relay { server, topic, method, params, may_repeat, permit, context };
        let replied = if is_relayed {
            relay.request(&self.requester).await
        } else {
            self.request_text(tool, relay).await
        };

        let reply = replied.map_err(|error| match error {
            requester::Error::Timeout { .. } => {
                CallError::new(ErrorCode::Timeout, timed_out(tool, asked))
            }
            error if error.is_unroutable() => CallError::new(
                ErrorCode::Unroutable,
                "no MCP bridge is running: nobody takes calls of MCP tools",
            ),
            error => error_of(tool, error),
        })?;

        let outcome = if is_relayed { relayed_output(reply) } else { output_of(&reply) };
        outcome.map_err(|error| match error.code {
            // The bridge names what there is, whoever asks.
            ErrorCode::ToolNotFound if !scope.view.is_all() => {
                CallError::not_registered(subject.id.as_str()).with_execution(error.execution)
            }
            ErrorCode::ToolNotFound => self.with_hint(server, error),
            _ => error,
        })
    }

    /// How long a call of a tool may take, and its answer on the way; `None` where its bridge does
    /// not say.
    pub(crate) fn granted_time(&self, server: &str, tool: &str) -> Option<Duration> {
        let servers = self.index.servers();
        let timeouts = find_exact_server(&servers, server)?.timeouts.as_ref()?;
        let granted = timeouts.of_tool(tool);
        // A worker leaves a tenth of a call's time to the answer.
        Some(granted + granted / 8 + ANSWER_GRACE)
    }

    /// How much longer than that it may take while its server reports progress.
    pub(crate) fn granted_extension(&self, server: &str, tool: &str) -> Option<Duration> {
        let servers = self.index.servers();
        let timeouts = find_exact_server(&servers, server)?.timeouts.as_ref()?;
        let longest = Duration::from_millis(timeouts.with_progress_ms?);
        let extension = longest.checked_sub(timeouts.of_tool(tool))?;
        Some(extension + extension / 8)
    }

    /// Has a bridge call the tool, for who reads its text.
    async fn request_text(
        &self,
        tool: &str,
        call: Relay<'_>,
    ) -> Result<Envelope, requester::Error> {
        let Relay { server, topic, params, may_repeat, permit, context, .. } = call;
        let shared = queue::mcp_bridge_invoke(self.requester.agent());
        let workers = if *topic == topic::TOOL_INVOKE_MCP { &shared } else { topic.as_str() };
        let remote = RemoteCall {
            may_repeat,
            topic,
            workers: Some(workers),
            tool,
            params,
            session: None,
            headers: Headers::new()
                .with(header::TOOL_PROVIDER, "mcp")
                .with(header::MCP_SERVER, server.to_lowercase())
                .with(header::EXACT, "1"),
            permit,
            context,
        };
        remote.request(&self.requester).await
    }

    /// Names the servers that there are, where the bridge has not: models misremember names more
    /// often than servers go.
    fn with_hint(&self, server: &str, error: CallError) -> CallError {
        let servers = self.index.servers();
        let is_known = servers.iter().any(|known| known.server_name.eq_ignore_ascii_case(server));
        let names = nearest_names(server, servers.iter().map(|server| server.server_name.as_str()));
        let has_hint = error.details.as_deref().and_then(McpNearestNames::of_details).is_some();
        if names.is_empty() || is_known || has_hint {
            return error;
        }
        CallError::new(error.code, format!("{}. Servers: {}.", error.message, names.join(", ")))
    }
}

/// The output of a call that was relayed.
fn relayed_output(reply: Envelope) -> Result<Output, CallError> {
    let result = result_of(reply)?;
    Ok(Output { is_error: is_error_result(&result), mcp: Some(result), ..Output::default() })
}

fn timed_out(tool: &str, asked: Duration) -> String {
    let time = match asked.as_secs() {
        0 => format!("{}ms", asked.as_millis()),
        seconds => format!("{seconds}s"),
    };
    format!(
        "MCP tool '{tool}' timed out after {time} — the MCP bridge did not respond. The \
         underlying MCP server may be temporarily unavailable. Call mcp_list_services to check \
         which servers are registered, or try an alternative approach."
    )
}

fn take_text(arguments: &mut Map<String, Value>, name: &str) -> String {
    match arguments.remove(name) {
        Some(Value::String(text)) => text,
        _ => String::new(),
    }
}
