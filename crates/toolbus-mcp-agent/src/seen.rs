//! What a view sees of the servers that are announced, and which requests are not worth sending.
//!
//! What a view does not see is refused by the gates. Where a view is of a part only, what is not
//! announced is refused in the same words, so that nobody can tell what is hidden from what is not
//! there.

use std::borrow::Cow;

use toolbus_tools::call::{CallError, Invocation};
use toolbus_tools::id::ToolId;
use toolbus_tools::view::View;
use toolbus_wire::ErrorCode;
use toolbus_wire::message::mcp::{McpFeature, McpServerSummary};

use crate::index::Index;
use crate::method_name::is_method_name;
use crate::resolve::{provider_of, read_id};
use crate::server_name::imitates_others;

/// What a view sees of a server: the tools that it sees, and prompts and resources where it sees
/// the reads of them. `None` where that is nothing.
#[must_use]
pub fn seen_summary<'a>(
    server: &'a McpServerSummary,
    view: &View,
) -> Option<Cow<'a, McpServerSummary>> {
    if view.is_all() {
        return Some(Cow::Borrowed(server));
    }

    let name = &server.server_name;
    let provider = provider_of(name);
    let sees_tool = |tool: &String| view.sees(&ToolId::of(&provider, tool));
    let sees_prompts = sees_read(view, name, "prompts/get");
    let sees_resources =
        sees_read(view, name, "resources/list") || sees_read(view, name, "resources/read");
    let sees_feature = |feature: &McpFeature| match feature {
        McpFeature::Completions => sees_read(view, name, "completion/complete"),
        McpFeature::ResourceSubscriptions => sees_read(view, name, "resources/subscribe"),
        _ => false,
    };

    let tool_names: Vec<_> =
        server.tool_names.iter().filter(|name| sees_tool(name)).cloned().collect();
    let prompt_count = server.prompt_count.filter(|_| sees_prompts);
    let resource_count = server.resource_count.filter(|_| sees_resources);
    let features = server.features.as_ref();
    let features =
        features.map(|all| all.iter().filter(|one| sees_feature(one)).cloned().collect());

    // One that has listed nothing yet is there for whoever may list what it will have.
    let is_listed = lists_anything(server);
    let is_seen = !tool_names.is_empty()
        || [prompt_count, resource_count].into_iter().flatten().any(|count| count > 0)
        || (!is_listed && sees_read(view, name, "tools/list"));
    let seen = || McpServerSummary {
        tool_count: u32::try_from(tool_names.len()).unwrap_or(u32::MAX),
        tool_names,
        prompt_count,
        prompt_names: server.prompt_names.clone().filter(|_| sees_prompts),
        resource_count,
        features,
        // These are made of everything that the server has.
        summary: None,
        fingerprint: None,
        tool_fingerprints: None,
        read_only_tools: None,
        idempotent_tools: None,
        destructive_tools: None,
        ..server.clone()
    };
    is_seen.then(|| Cow::Owned(seen()))
}

/// Whether a view sees reads of a server by this method of the protocol.
pub(crate) fn sees_read(view: &View, server_name: &str, method: &str) -> bool {
    view.sees(&read_id(server_name, method))
}

fn lists_anything(server: &McpServerSummary) -> bool {
    let counts = [server.prompt_count, server.resource_count];
    !server.tool_names.is_empty() || counts.into_iter().flatten().any(|count| count > 0)
}

/// Refuses a call whose arguments name another tool than the gates checked.
pub(crate) fn check_judged(call: &Invocation, named: &ToolId) -> Result<(), CallError> {
    let judged = &call.subject.id;
    if judged == named {
        return Ok(());
    }
    let text =
        format!("the call was checked as one of '{judged}', and its arguments name '{named}'");
    Err(CallError::new(ErrorCode::Denied, text))
}

/// Refuses a call whose server is known to be away: it would wait in the bridge's queue until its
/// time is over. In a view of a part, refuses also what is not announced. A server whose tools have
/// ids as others have is not there, whichever bridge may have one: what the gates have judged may
/// be the others. The same applies to a tool with the name of a protocol method.
pub(crate) fn check_target(
    index: &Index,
    call: &Invocation,
    server: &str,
    tool: Option<&str>,
) -> Result<(), CallError> {
    let is_announced = || {
        let servers = index.servers();
        let known = servers.iter().find(|known| known.server_name.eq_ignore_ascii_case(server));
        let lists =
            |known: &McpServerSummary, tool| known.tool_names.iter().any(|name| name == tool);
        known.is_some_and(|known| tool.is_none_or(|tool| lists(known, tool)))
    };
    if !call.scope.view.is_all() && !is_announced() {
        return Err(CallError::not_registered(call.subject.id.as_str()));
    }
    if imitates_others(server) {
        let text = format!("MCP server '{server}' is not connected");
        return Err(CallError::new(ErrorCode::ToolNotFound, text));
    }
    if tool.is_some_and(is_method_name) {
        let text = format!("MCP server '{server}' has no tool with the name of a protocol method");
        return Err(CallError::new(ErrorCode::ToolNotFound, text));
    }

    if index.is_away(server) {
        let text = format!("MCP server '{server}' cannot be reached for now: its bridge is away");
        return Err(CallError::new(ErrorCode::Unroutable, text));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
