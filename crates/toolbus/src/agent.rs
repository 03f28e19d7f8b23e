//! The agent: its tools, the one invoker that runs them, and what it knows of MCP servers.
//!
//! It lives on a bus that somebody else owns, and runs no service for others.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use toolbus_bus::Bus;
use toolbus_bus::requester::Requester;
use toolbus_mcp_agent::McpDirectory;
use toolbus_scripts::ScriptAllowance;
use toolbus_tools::invoker::InvokerBuilder;
use toolbus_tools::tool_search::{self, FindTools};
use toolbus_tools::{Guides, Invoker, Registry};
use toolbus_wire::name::{AgentName, InstanceId};

use crate::error::Error;

/// An agent on a bus. Clones are the same agent.
#[derive(Clone)]
pub struct Agent {
    requester: Requester,
    invoker: Invoker,
    directory: McpDirectory,
}

/// What an agent is started with.
pub(crate) struct AgentDeps {
    pub(crate) bus: Arc<dyn Bus>,
    pub(crate) name: AgentName,
    pub(crate) instance: InstanceId,
    pub(crate) registry: Arc<Registry>,
    pub(crate) invoker: InvokerBuilder,
    pub(crate) guides: Guides,
    pub(crate) builtin_tools: BuiltinTools,
    /// Finds tools where `tool_search` does not.
    pub(crate) tool_finder: Option<Arc<dyn FindTools>>,
}

/// Which tools an agent has by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BuiltinTools {
    /// The two that models read guides with.
    pub(crate) guides: bool,
    /// `execute_python_script`, with the limits that models are told.
    pub(crate) scripts: Option<ScriptAllowance>,
    /// `tool_search`.
    pub(crate) search: bool,
}

impl Agent {
    /// Starts an agent, and registers the tools that it has by itself.
    pub(crate) async fn start(deps: AgentDeps) -> Result<Self, Error> {
        let AgentDeps {
            bus,
            name,
            instance,
            registry,
            invoker,
            guides,
            builtin_tools,
            tool_finder,
        } = deps;
        let requester = Requester::start(Arc::clone(&bus), name, &instance).await?;

        if builtin_tools.guides {
            guides.register(&registry)?;
        }
        if let Some(allowance) = builtin_tools.scripts {
            toolbus_scripts::tool::register(&registry, &guides, requester.clone(), allowance)?;
        }
        if builtin_tools.search {
            tool_search::register(&registry, tool_finder)?;
        }

        let directory =
            McpDirectory::start(&bus, requester.clone(), &instance, registry, guides).await?;
        Ok(Self { requester, invoker: invoker.build(), directory })
    }

    /// The invoker of its tools.
    ///
    /// A call that is made here ends with its own scope. To have it end with the
    /// [`Toolbus`](crate::Toolbus) as well, make it there.
    #[must_use]
    pub fn invoker(&self) -> &Invoker {
        &self.invoker
    }

    /// What it knows of MCP servers.
    #[must_use]
    pub fn directory(&self) -> &McpDirectory {
        &self.directory
    }

    /// What it sends requests over the bus with, for executors of remote tools.
    #[must_use]
    pub fn requester(&self) -> &Requester {
        &self.requester
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &AgentName {
        self.requester.agent()
    }

    /// Waits up to `limit` for a tool that has yet to be announced, and says whether it is there.
    ///
    /// The tools that come late all come with the first announcement of a bridge, so that ends the
    /// wait for any other, but for tools of MCP servers.
    pub async fn wait_for_tool(&self, name: &str, limit: Duration) -> bool {
        let registry = self.invoker.registry();
        let is_late = || !self.directory.offers_directly() && self.directory.has_heard();
        let arrival = registry.wait_until(|tools| tools.find(name).is_some() || is_late());

        // Time may be up: the tool is not there then, which the answer says.
        let _ = tokio::time::timeout(limit, arrival).await;
        registry.find(name).is_some()
    }

    /// Stops listening; calls that run end with an error.
    pub(crate) async fn close(&self) {
        self.directory.close().await;
        self.requester.close().await;
    }
}

impl fmt::Debug for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Agent").field("name", self.name()).finish_non_exhaustive()
    }
}
