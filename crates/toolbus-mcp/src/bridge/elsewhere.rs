//! Requests of RockBot for servers that another bridge has: they come to any bridge, and are passed
//! on.

use std::sync::Arc;

use serde_json::Value;
use toolbus_mcp_agent::AnnouncedServers;
use toolbus_tools::call::ARGUMENTS_LIMITS;
use toolbus_wire::message::tool::ToolInvokeRequest;
use toolbus_wire::name::{AgentName, McpServerSegment};
use toolbus_wire::{Topic, topic};

use crate::server_pool::{ServerPool, Whereabouts};

/// Where the servers are that this bridge does not have.
#[derive(Clone)]
pub(super) struct Elsewhere {
    /// The agent that the bridges are named after.
    pub(super) agent: AgentName,
    pub(super) announced: Arc<AnnouncedServers>,
}

impl Elsewhere {
    /// The topic of the bridge that has this server; `None` where that is this one, or none.
    pub(super) fn topic_of_server(&self, pool: &ServerPool, server: &str) -> Option<Topic> {
        self.topic_of(pool.find_whereabouts(server), || self.announced.request_topic(server))
    }

    /// The topic of the bridge that has the server of a call; `None` where that is this one, or
    /// none.
    pub(super) fn topic_of_call(
        &self,
        pool: &ServerPool,
        server: Option<&str>,
        request: &ToolInvokeRequest,
    ) -> Option<Topic> {
        let wrapped = || wrapped_server(request);
        match server.map(str::to_owned).or_else(wrapped) {
            Some(server) => self.topic_of_server(pool, &server),
            None => {
                let tool = &request.tool_name;
                let announced = || self.announced.topic_of_tool(tool);
                self.topic_of(pool.find_whereabouts_of_tool(tool), announced)
            }
        }
    }

    /// Whether another bridge has announced a server that this one does not know.
    pub(super) fn has_server(&self, pool: &ServerPool, server: &str) -> bool {
        self.topic_of_server(pool, server).is_some()
    }

    fn topic_of(
        &self,
        whereabouts: Whereabouts,
        announced: impl FnOnce() -> Option<Topic>,
    ) -> Option<Topic> {
        match whereabouts {
            Whereabouts::Here => None,
            Whereabouts::Elsewhere(name) => {
                Some(topic::mcp_server(&self.agent, &McpServerSegment::of(name.as_str())))
            }
            Whereabouts::Unknown => announced(),
        }
    }
}

/// The server that a call of `mcp_invoke_tool` names, which is a call of a tool of that server.
fn wrapped_server(request: &ToolInvokeRequest) -> Option<String> {
    if !matches!(request.tool_name.as_str(), "mcp_invoke_tool" | "invoke_tool") {
        return None;
    }
    let arguments = request.arguments.as_deref()?;
    let arguments: Value = toolbus_json::from_str(arguments, &ARGUMENTS_LIMITS).ok()?;
    let server = arguments.get("server_name").or_else(|| arguments.get("serverName"))?;
    server.as_str().map(str::to_owned)
}
