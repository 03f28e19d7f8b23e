//! `search_known_services`, as models call it.

use serde_json::{Value, json};
use toolbus_tools::call::{Invocation, Output};
use toolbus_tools::registry::{self, Registry};
use toolbus_tools::{Guide, Tool};

use crate::KnownServices;

/// Its name.
pub const NAME: &str = "search_known_services";
const SOURCE: &str = "service-search";

/// The guide to the search.
#[must_use]
pub fn guide() -> Guide {
    Guide {
        name: SOURCE.to_owned(),
        summary: "Find the MCP server or agent for a task in one search".to_owned(),
        document: include_str!("guide.md").to_owned(),
    }
}

/// Registers the tool, which searches these services.
///
/// # Errors
/// When its name is taken.
pub fn register(registry: &Registry, services: &KnownServices) -> Result<(), registry::Error> {
    let services = services.clone();
    registry.register(definition(), move |call: Invocation| {
        let query = call.arguments.get("query").and_then(Value::as_str).unwrap_or_default();
        std::future::ready(Ok(Output::text(services.snapshot().search(query))))
    })
}

fn definition() -> Tool {
    Tool::new(
        NAME,
        "Searches all known A2A agents and MCP servers by keywords, and returns up to 5 ranked \
         results with a summary of each. Use it before list_known_agents or mcp_list_services. \
         Type \"a2a\" is called by invoke_agent, \"mcp\" by mcp_invoke_tool.",
        SOURCE,
    )
    .read_only()
    .in_group(SOURCE)
    .with_alias("SearchKnownServices")
    .with_parameters(json!({
        "type": "object",
        "properties": {
            "query": {
                "type": "string",
                "description": "Keywords describing the task (e.g. \"reschedule meeting\", \"aws \
                                spend audit\")"
            }
        },
        "required": ["query"]
    }))
    .with_missing_argument("Missing required parameter: {}.")
}

#[cfg(test)]
mod tests;
