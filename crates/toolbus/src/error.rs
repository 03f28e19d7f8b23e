//! Why a [`Toolbus`](crate::Toolbus) could not be opened.

use toolbus_bus::{SubscribeError, Topic};
use toolbus_tools::registry;

/// Why a [`Toolbus`](crate::Toolbus) could not be opened. What had been started is stopped again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The agent's name cannot be a part of topics and queues.
    #[error("the agent's name cannot be used")]
    Name(#[source] toolbus_wire::name::Error),
    /// A tool's name is not one that models can call it by.
    #[error(
        "{0:?} cannot be the name of a tool: it takes 1 to {max} of `A-Z`, `a-z`, `0-9`, `_`, `-`",
        max = crate::TOOL_NAME_BYTES_MAX
    )]
    ToolName(String),
    /// A tool cannot be registered: its name is taken, or its schema is none that can be checked.
    #[error("a tool cannot be registered")]
    Tool(#[from] registry::Error),
    /// Parked calls were given to an agent that answers no calls from the bus.
    #[error("parked calls are not resumed by an agent that serves no calls: {0} were given")]
    ParkedWithoutServing(usize),
    /// A parked call came by a topic that this agent does not answer.
    #[error("a parked call came by {0}, which this agent does not answer")]
    ParkedElsewhere(Topic),
    /// A queue cannot be had.
    #[error("the bus cannot be listened to")]
    Subscribe(#[from] SubscribeError),
    /// The MCP servers cannot be started.
    #[cfg(feature = "mcp")]
    #[error(transparent)]
    Mcp(#[from] crate::mcp_servers::McpError),
}
