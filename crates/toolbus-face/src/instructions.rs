//! What the agent tells the models of clients that connect to its own tools: how those are found.
//!
//! It is made from the tools that the client sees. What is not there is not spoken of.

use std::collections::BTreeSet;

use toolbus_tools::Scope;
use toolbus_tools::registry::Snapshot;
use toolbus_wire::name::AgentName;

/// Most groups that are named.
const GROUPS_MAX: usize = 24;

/// The tools that models find other tools with, and what they are told of them.
const FINDERS: [(&[&str], &str); 3] = [
    (
        &["list_tool_guides", "get_tool_guide"],
        "Read the guide of a group of tools before you use it for the first time: \
         list_tool_guides lists the guides, get_tool_guide returns one.",
    ),
    (&["tool_search"], "tool_search finds tools by words."),
    (
        &["mcp_list_services", "mcp_get_service_details", "mcp_invoke_tool"],
        "Tools of MCP servers are called by mcp_invoke_tool; mcp_list_services lists the servers, \
         mcp_get_service_details tells what a tool takes.",
    ),
];

/// The instructions of an agent for clients of this scope.
pub(crate) fn instructions_of_agent(agent: &AgentName, tools: &Snapshot, scope: &Scope) -> String {
    let seen: Vec<_> = tools.seen_by(scope).filter(|entry| entry.tool.kind.is_local()).collect();
    let is_seen = |name: &&str| seen.iter().any(|entry| entry.tool.name == **name);
    let groups: BTreeSet<_> = seen.iter().filter_map(|entry| entry.tool.group.as_deref()).collect();

    let mut text = format!("These are the tools of the agent {agent}, run by Toolbus.");
    if !groups.is_empty() {
        let mut named: Vec<_> = groups.iter().take(GROUPS_MAX).copied().collect();
        if groups.len() > GROUPS_MAX {
            named.push("and more");
        }
        text.push_str(&format!(" Their groups: {}.", named.join(", ")));
    }

    for (names, how) in FINDERS {
        if names.iter().all(is_seen) {
            text.push(' ');
            text.push_str(how);
        }
    }
    text
}

#[cfg(test)]
mod tests;
