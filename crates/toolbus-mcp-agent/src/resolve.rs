//! Which server and tool a model means: names are forgiven here, before any gate has seen the call,
//! and nowhere behind it. What leaves the agent is exact.
//!
//! What the index does not know stays as it was said: the bridge then takes it to the letter, and
//! says what is wrong with it.

use serde_json::{Map, Value};
use toolbus_tools::Audience;
use toolbus_tools::call::ARGUMENTS_LIMITS;
use toolbus_tools::id::{SERVER_PROVIDER_PREFIX, ToolId};
use toolbus_tools::subject::{DefinitionDigest, Subject};
use toolbus_tools::tool::{Annotations, Risk};
use toolbus_wire::message::mcp::McpServerSummary;

use crate::method_name::is_method_name;
use crate::nearest::{loose_form, only_match};
use crate::tools::SOURCE;

/// The member of the arguments of `mcp_invoke_tool` that says that the names are exact, for callers
/// that have looked them up: nothing is guessed then, and nothing is unwrapped. It is not in the
/// tool's schema, for models have no use for it.
pub const EXACT: &str = "exact";
/// Methods that a bridge answers without the server.
const LISTED_BY_BRIDGE: [&str; 2] = ["prompts/list", "tools/list"];
/// How often a call is taken out of a call that it was wrapped into.
const UNWRAPPED_MAX: usize = 3;

/// Makes the names in the arguments of `mcp_invoke_tool` exact, and answers what the call is about;
/// nothing where they name no tool.
pub(crate) fn resolve_call(
    servers: &[McpServerSummary],
    arguments: &mut Map<String, Value>,
) -> Option<Subject> {
    unwrap_nested(servers, arguments);
    let named = |name: &str| arguments.get(name).and_then(Value::as_str).map(str::to_owned);
    let (Some(server), Some(tool)) = (named("server_name"), named("tool_name")) else {
        return None;
    };

    if is_exact(arguments) {
        let known = find_exact_server(servers, &server);
        return Some(subject_of(known, &server, &tool));
    }

    let known = find_server(servers, &server);
    let server = known.map_or(server, |known| known.server_name.clone());
    let tool = known.and_then(|known| find_tool(known, &tool)).unwrap_or(tool);
    let subject = subject_of(known, &server, &tool);

    arguments.insert("server_name".to_owned(), server.into());
    arguments.insert("tool_name".to_owned(), tool.into());
    Some(subject)
}

/// Whether the server that the arguments of `mcp_invoke_tool` name is known. Where they name none,
/// there is nothing to wait for.
pub(crate) fn names_known_server(
    servers: &[McpServerSummary],
    arguments: &Map<String, Value>,
) -> bool {
    let mut arguments = arguments.clone();
    unwrap_nested(servers, &mut arguments);
    let server = arguments.get("server_name").and_then(Value::as_str);
    let find = if is_exact(&arguments) { find_exact_server } else { find_server };
    server.is_none_or(|server| find(servers, server).is_some())
}

/// What a call of a server's tool is about. Server names are alike without regard to case.
#[must_use]
pub fn subject_of(server: Option<&McpServerSummary>, server_name: &str, tool: &str) -> Subject {
    let digest = server
        .and_then(|server| server.tool_fingerprints.as_ref())
        .and_then(|fingerprints| fingerprints.get(tool));
    let is_listed = |names: fn(&McpServerSummary) -> &Option<Vec<String>>| {
        let names = server.and_then(|server| names(server).as_ref());
        names.is_some_and(|names| names.iter().any(|name| name == tool))
    };
    let declared = Annotations {
        read_only: is_listed(|server| &server.read_only_tools),
        idempotent: is_listed(|server| &server.idempotent_tools),
        destructive: is_listed(|server| &server.destructive_tools),
    };
    let annotations = counted_annotations(declared, server);

    Subject {
        id: ToolId::of(&provider_of(server_name), tool),
        definition: digest.map(|digest| DefinitionDigest::from_text(digest)),
        annotations,
        risk: if annotations.read_only { Risk::Low } else { Risk::High },
        audience: Audience::everybody(),
    }
}

/// Returns the annotations that gates use for a tool. A tool counts as read-only only if the
/// operator added its server, because an agent could register a server that declares every tool
/// read-only. A read-only tool is never destructive, as the protocol defines it.
pub(crate) fn counted_annotations(
    declared: Annotations,
    server: Option<&McpServerSummary>,
) -> Annotations {
    let read_only = declared.read_only && server.is_some_and(|server| server.operator_added);
    Annotations { read_only, destructive: declared.destructive && !read_only, ..declared }
}

/// Returns the id of a read that is no call of a tool. `method` is the name of the protocol method,
/// such as `resources/read`.
#[must_use]
pub fn read_id(server_name: &str, method: &str) -> ToolId {
    debug_assert!(is_method_name(method), "a tool could have the subject of '{method}'");
    ToolId::of(&provider_of(server_name), method)
}

/// Returns the subject of a read. A server answers a read as it likes, so a read counts as
/// read-only only if the operator added the server, or if its bridge answers from what it knows.
pub(crate) fn read_subject(
    server: Option<&McpServerSummary>,
    server_name: &str,
    method: &str,
) -> Subject {
    let is_trusted = server.is_some_and(|server| server.operator_added);
    let read_only = is_trusted || LISTED_BY_BRIDGE.contains(&method);
    Subject {
        id: read_id(server_name, method),
        definition: None,
        annotations: Annotations { read_only, idempotent: true, destructive: false },
        risk: if read_only { Risk::Low } else { Risk::High },
        audience: Audience::everybody(),
    }
}

/// Makes the name of the server in the arguments of a tool that reads exact, and answers what the
/// read is about; nothing where they name no server.
pub(crate) fn resolve_read(
    servers: &[McpServerSummary],
    arguments: &mut Map<String, Value>,
    method: &str,
) -> Option<Subject> {
    let named = arguments.get("server_name").and_then(Value::as_str)?;
    let known = find_server(servers, named);
    let server = known.map_or(named, |known| known.server_name.as_str()).to_owned();
    let subject = read_subject(known, &server, method);

    arguments.insert("server_name".to_owned(), server.into());
    Some(subject)
}

/// What a call of one of the tools is about that manage servers, such as `mcp_register_server`.
#[must_use]
pub fn management_id(tool: &str) -> ToolId {
    ToolId::of(SOURCE, tool)
}

/// The provider of a server's tools, which its subjects and sources are named by.
#[must_use]
pub fn provider_of(server_name: &str) -> String {
    format!("{SERVER_PROVIDER_PREFIX}{}", server_name.to_lowercase())
}

fn is_exact(arguments: &Map<String, Value>) -> bool {
    arguments.get(EXACT).and_then(Value::as_bool) == Some(true)
}

/// Takes a call out of the calls of `mcp_invoke_tool` that some models wrap it into, where the
/// server that it names has no tool of that name itself.
fn unwrap_nested(servers: &[McpServerSummary], arguments: &mut Map<String, Value>) {
    for _ in 0..UNWRAPPED_MAX {
        if is_exact(arguments) {
            return;
        }
        let tool = arguments.get("tool_name").and_then(Value::as_str).unwrap_or_default();
        if !matches!(tool, "mcp_invoke_tool" | "invoke_tool") {
            return;
        }
        let server = arguments.get("server_name").and_then(Value::as_str).unwrap_or_default();
        let has_tool = |server: &McpServerSummary| server.tool_names.iter().any(|t| t == tool);
        if find_server(servers, server).is_some_and(has_tool) {
            return;
        }
        let Some(inner) = arguments.get("arguments").and_then(wrapped_call) else { return };
        *arguments = inner;
    }
}

/// The arguments of the call inside, in the names of `mcp_invoke_tool`.
fn wrapped_call(arguments: &Value) -> Option<Map<String, Value>> {
    let inner = arguments.as_object()?;
    let text = |names: [&str; 2]| {
        names.into_iter().find_map(|name| inner.get(name)?.as_str()).map(Value::from)
    };
    let server = text(["server_name", "serverName"])?;
    let tool = text(["tool_name", "toolName"])?;

    let mut arguments = inner.get("arguments").cloned().unwrap_or(Value::Null);
    read_object(&mut arguments);
    Some(Map::from_iter([
        ("server_name".to_owned(), server),
        ("tool_name".to_owned(), tool),
        ("arguments".to_owned(), arguments),
    ]))
}

/// An object that came as text becomes one, and nothing at all an empty one. Whatever else there is
/// stays for the check to refuse.
pub(crate) fn read_object(value: &mut Value) {
    let text = match &*value {
        Value::Null => "",
        Value::String(text) => text.trim(),
        _ => return,
    };
    if text.is_empty() {
        *value = Value::Object(Map::new());
    } else if let Ok(object @ Value::Object(_)) = toolbus_json::from_str(text, &ARGUMENTS_LIMITS) {
        *value = object;
    }
}

/// The server of this name: in any case, else the only one whose name is spelled so but for
/// punctuation.
pub(crate) fn find_server<'a>(
    servers: &'a [McpServerSummary],
    name: &str,
) -> Option<&'a McpServerSummary> {
    let name = name.trim();
    if let Some(server) = find_exact_server(servers, name) {
        return Some(server);
    }

    let wanted = loose_form(name);
    let is_alike = |server: &&McpServerSummary| loose_form(&server.server_name) == wanted;
    if wanted.is_empty() { None } else { only_match(servers.iter(), is_alike) }
}

pub(crate) fn find_exact_server<'a>(
    servers: &'a [McpServerSummary],
    name: &str,
) -> Option<&'a McpServerSummary> {
    servers.iter().find(|server| server.server_name.eq_ignore_ascii_case(name))
}

/// The tool that this name means: the one of exactly this name, else the only one in another case,
/// else the only one that is spelled so but for punctuation, with or without the server before it.
fn find_tool(server: &McpServerSummary, name: &str) -> Option<String> {
    let tools = || server.tool_names.iter();
    if tools().any(|tool| tool == name) {
        return Some(name.to_owned());
    }
    if let Some(tool) = only_match(tools(), |tool| tool.eq_ignore_ascii_case(name)) {
        return Some(tool.clone());
    }

    let wanted = loose_form(name);
    let prefix = loose_form(&server.server_name);
    let without_prefix = wanted.strip_prefix(&prefix).filter(|_| !prefix.is_empty());
    let is_alike = |tool: &&String| {
        let tool = loose_form(tool);
        tool == wanted || without_prefix == Some(&tool)
    };
    if wanted.is_empty() { None } else { only_match(tools(), is_alike).cloned() }
}

#[cfg(test)]
mod tests;
