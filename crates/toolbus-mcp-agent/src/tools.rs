//! The five tools.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::{Map, Value, json};
use toolbus_bus::requester::Requester;
use toolbus_tools::call::{ARGUMENTS_LIMITS, CallError, Invocation, Output};
use toolbus_tools::id::ToolId;
use toolbus_tools::registry::Offer;
use toolbus_tools::{Executor, Guide, Tool, View};
use toolbus_wire::ErrorCode;
use toolbus_wire::message::mcp::{
    McpRegisterServerRequest, McpRegisterServerResponse, McpToolDetails,
    McpUnregisterServerRequest, McpUnregisterServerResponse,
};

use crate::index::Index;
use crate::manage::{self, DETAILS_LIMITS, ask, ask_details};
use crate::proxy::InvokeTool;
use crate::resolve::{find_server, provider_of};
use crate::seen::{seen_summary, sees_read};

/// Who provides the tools. No server is called so: [`RESERVED`](crate::server_name::RESERVED).
pub(crate) const SOURCE: &str = "mcp:management";
/// The tool that registers a server.
pub const REGISTER_SERVER: &str = "mcp_register_server";
/// The tool that takes one out.
pub const UNREGISTER_SERVER: &str = "mcp_unregister_server";
/// The group of the tools, which is the name of their guide.
pub(crate) const GROUP: &str = "mcp";
pub(crate) const MISSING: &str = "Missing required parameter: {}";

/// The guide that goes with the tools.
pub(crate) fn guide() -> Guide {
    Guide {
        name: GROUP.to_owned(),
        summary: "Reach external services through MCP servers: find, inspect and call their tools"
            .to_owned(),
        document: include_str!("guide.md").to_owned(),
    }
}

/// The names of the five tools.
pub(crate) fn names() -> Vec<String> {
    let tools =
        [list_services(), service_details(), invoke_tool(), register_server(), unregister_server()];
    tools.map(|tool| tool.name).into()
}

/// The five tools.
pub(crate) fn offers(index: &Arc<Index>, requester: &Requester) -> Vec<Offer> {
    let listed = Arc::clone(index);
    let list = move |call: Invocation| {
        std::future::ready(Ok(Output::text(list_servers(&listed, &call.scope.view))))
    };
    let requester = || requester.clone();

    vec![
        Offer::new(list_services(), list),
        Offer::new(
            service_details(),
            GetDetails { requester: requester(), index: Arc::clone(index) },
        ),
        Offer::new(invoke_tool(), InvokeTool { requester: requester(), index: Arc::clone(index) }),
        Offer::new(register_server(), RegisterServer { requester: requester() }),
        Offer::new(unregister_server(), UnregisterServer { requester: requester() }),
    ]
}

fn list_services() -> Tool {
    Tool::new(
        "mcp_list_services",
        "Lists the MCP servers, each with a summary and the names of its tools and prompts, and why \
         it is unavailable if it is. Call it first when you need live, personal or external data.",
        SOURCE,
    ).in_group(GROUP)
    .read_only()
}

fn service_details() -> Tool {
    Tool::new(
        "mcp_get_service_details",
        "Returns the tools of one MCP server with the schemas of their arguments. Pass tool_name \
         to get one tool only: the schemas of a whole server are long.",
        SOURCE,
    )
    .in_group(GROUP)
    .read_only()
    .with_timeout(manage::TIMEOUT)
    .with_missing_argument(MISSING)
    .with_parameters(json!({
        "type": "object",
        "properties": {
            "server_name": {"type": "string", "description": "Name of the server, as listed"},
            "tool_name": {"type": "string", "description": "Name of one of its tools"}
        },
        "required": ["server_name"]
    }))
}

fn invoke_tool() -> Tool {
    Tool::new(
        "mcp_invoke_tool",
        "Calls a tool of an MCP server: the gateway to everything outside. Take the names from \
         mcp_list_services and the arguments from mcp_get_service_details.",
        SOURCE,
    )
    .in_group(GROUP)
    .with_missing_argument(MISSING)
    .with_parameters(json!({
        "type": "object",
        "properties": {
            "server_name": {"type": "string", "description": "Name of the server, as listed"},
            "tool_name": {"type": "string", "description": "Name of the tool, as listed"},
            "arguments": {"type": "object", "description": "Arguments of the tool"}
        },
        "required": ["server_name", "tool_name"]
    }))
}

fn register_server() -> Tool {
    Tool::new(
        REGISTER_SERVER,
        "Connects a new MCP server by its URL (type 'sse' or 'http'), or by a command where the \
         operator allows that (type 'stdio').",
        SOURCE,
    )
    .in_group(GROUP)
    .with_timeout(manage::TIMEOUT)
    .with_missing_argument(MISSING)
    .with_parameters(json!({
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "What to call the server"},
            "type": {"type": "string", "enum": ["sse", "http", "streamable-http", "stdio"]},
            "url": {"type": "string", "description": "Where the server is"},
            "command": {"type": "string", "description": "Program to start, for type 'stdio'"},
            "args": {"type": "array", "items": {"type": "string"}},
            "env": {"type": "object", "additionalProperties": {"type": "string"}}
        },
        "required": ["name", "type"],
        "if": {"properties": {"type": {"const": "stdio"}}, "required": ["type"]},
        "then": {"required": ["command"]},
        "else": {"required": ["url"]}
    }))
}

fn unregister_server() -> Tool {
    Tool::new(UNREGISTER_SERVER, "Disconnects an MCP server and forgets it.", SOURCE)
        .in_group(GROUP)
        .destructive()
        .with_timeout(manage::TIMEOUT)
        .with_missing_argument(MISSING)
        .with_parameters(json!({
            "type": "object",
            "properties": {
                "server_name": {"type": "string", "description": "Name of the server, as listed"}
            },
            "required": ["server_name"]
        }))
}

/// The servers as a view sees them.
fn list_servers(index: &Index, view: &View) -> String {
    let servers = index.servers();
    let seen: Vec<_> = servers.iter().filter_map(|server| seen_summary(server, view)).collect();
    serde_json::to_string(&seen).expect("a summary has only text and numbers")
}

struct GetDetails {
    requester: Requester,
    index: Arc<Index>,
}

impl Executor for GetDetails {
    fn execute(&self, call: Invocation) -> BoxFuture<'_, Result<Output, CallError>> {
        Box::pin(async move {
            let view = &call.scope.view;
            let server_name = argument(&call.arguments, "server_name").to_lowercase();
            let wanted = call.arguments.get("tool_name").and_then(Value::as_str);
            let servers = self.index.servers();
            let known = find_server(&servers, &server_name);
            // In the words of a bridge that has no such server.
            if !view.is_all() && known.and_then(|known| seen_summary(known, view)).is_none() {
                return Ok(Output::error(format!("Server '{server_name}' is not connected")));
            }

            let server_name = known.map_or(server_name, |known| known.server_name.to_lowercase());
            let timed_out = || format!("Timed out waiting for service details for '{server_name}'");
            let context = call.context.clone();
            let details = ask_details(&self.requester, &server_name, context, timed_out).await?;
            if let Some(error) = details.error {
                return Ok(Output::error(error));
            }

            let provider = provider_of(&server_name);
            let tools: Vec<Value> = details
                .tools
                .iter()
                .filter(|tool| wanted.is_none_or(|name| tool.name.eq_ignore_ascii_case(name)))
                .filter(|tool| view.sees(&ToolId::of(&provider, &tool.name)))
                .map(describe_tool)
                .collect();
            if let (Some(name), true) = (wanted, tools.is_empty()) {
                return Ok(Output::error(format!(
                    "No tool named '{name}' found on server '{server_name}'"
                )));
            }
            let sees_prompts = sees_read(view, &server_name, "prompts/get");
            let prompts = details.prompts.filter(|_| sees_prompts).unwrap_or_default();
            let mut text = json!({
                "server": {
                    "name": details.server_name,
                    "implementationName": details.implementation_name,
                    "title": details.title,
                    "version": details.version,
                    "description": details.description,
                    "instructions": details.instructions,
                },
                "tools": tools,
                "prompts": prompts,
            });
            // They name tools, whoever reads them.
            if let Some(notices) = details.notices.filter(|_| view.is_all()) {
                text["notices"] = json!(notices);
            }
            Ok(Output::text(text.to_string()))
        })
    }
}

fn describe_tool(tool: &McpToolDetails) -> Value {
    let schema = tool.parameters_schema.as_deref();
    // As JSON, not as text in JSON: that is half as long and easier to read for a model.
    let schema =
        schema.and_then(|text| toolbus_json::from_str::<Value>(text, &DETAILS_LIMITS).ok());
    json!({"name": tool.name, "description": tool.description, "parametersSchema": schema})
}

struct RegisterServer {
    requester: Requester,
}

impl Executor for RegisterServer {
    fn execute(&self, call: Invocation) -> BoxFuture<'_, Result<Output, CallError>> {
        Box::pin(async move {
            let question = read_registration(&call.arguments);
            let name = question.server_name.clone();
            let timed_out = || "Timed out waiting for server registration response".to_owned();
            let answer: McpRegisterServerResponse = ask(
                &self.requester,
                &question,
                call.context.clone(),
                Some(&call.permit),
                timed_out,
            )
            .await?;

            Ok(if answer.success {
                let summary = answer.summary.unwrap_or_default();
                Output::text(format!("Server '{name}' registered successfully. {summary}"))
            } else {
                let error = answer.error.unwrap_or_default();
                let text = format!("Failed to register server '{name}': {error}");
                if answer.error_code == Some(ErrorCode::Denied) {
                    return Err(CallError::new(ErrorCode::Denied, text));
                }
                Output::error(text)
            })
        })
    }

    fn coerce(&self, arguments: &mut Map<String, Value>) {
        rename_argument(arguments, "server_name", "name");
        rename_argument(arguments, "arguments", "args");
        if let Some(Value::String(text)) = arguments.get("args") {
            let list = toolbus_json::from_str(text, &ARGUMENTS_LIMITS).ok();
            let list = list.filter(Value::is_array);
            // As one writes a command line, where nothing in it means more than itself.
            let words = || text.split_whitespace().map(Value::from).collect();
            let list = list.or_else(|| (!text.contains(['"', '\'', '\\'])).then(words));
            arguments.extend(list.map(|list| ("args".to_owned(), list)));
        }

        if !arguments.contains_key("type") {
            let kind = if arguments.contains_key("command") { "stdio" } else { "sse" };
            // Without either, the check says what is missing.
            if arguments.contains_key("command") || arguments.contains_key("url") {
                arguments.insert("type".to_owned(), json!(kind));
            }
        }
    }
}

fn read_registration(arguments: &Map<String, Value>) -> McpRegisterServerRequest {
    let text = |name| arguments.get(name).and_then(Value::as_str).map(str::to_owned);
    let list = |name| arguments.get(name).and_then(Value::as_array);
    let map = |name| arguments.get(name).and_then(Value::as_object);
    McpRegisterServerRequest {
        server_name: argument(arguments, "name").to_owned(),
        kind: argument(arguments, "type").to_owned(),
        url: text("url"),
        command: text("command"),
        args: list("args")
            .map(|args| args.iter().filter_map(Value::as_str).map(str::to_owned).collect())
            .unwrap_or_default(),
        env: map("env")
            .into_iter()
            .flatten()
            .filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned().into())))
            .collect(),
    }
}

struct UnregisterServer {
    requester: Requester,
}

impl Executor for UnregisterServer {
    fn execute(&self, call: Invocation) -> BoxFuture<'_, Result<Output, CallError>> {
        Box::pin(async move {
            let name = argument(&call.arguments, "server_name").to_lowercase();
            let question = McpUnregisterServerRequest { server_name: name.clone() };
            let timed_out = || "Timed out waiting for server unregistration response".to_owned();
            let context = call.context.clone();
            let answer: McpUnregisterServerResponse =
                ask(&self.requester, &question, context, Some(&call.permit), timed_out).await?;
            Ok(if answer.success {
                Output::text(format!("Server '{name}' removed successfully."))
            } else {
                let error = answer.error.unwrap_or_default();
                let text = format!("Failed to remove server '{name}': {error}");
                if answer.error_code == Some(ErrorCode::Denied) {
                    return Err(CallError::new(ErrorCode::Denied, text));
                }
                Output::error(text)
            })
        })
    }

    fn coerce(&self, arguments: &mut Map<String, Value>) {
        rename_argument(arguments, "name", "server_name");
    }
}

pub(crate) fn argument<'a>(arguments: &'a Map<String, Value>, name: &str) -> &'a str {
    arguments.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Takes another spelling of a name, when the right one is not there.
fn rename_argument(arguments: &mut Map<String, Value>, from: &str, to: &str) {
    if !arguments.contains_key(to)
        && let Some(value) = arguments.remove(from)
    {
        arguments.insert(to.to_owned(), value);
    }
}
