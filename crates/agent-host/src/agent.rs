//! The agent: its tools, and the one invoker that runs them.

use std::sync::Arc;
use std::time::Duration;

use toolbus_bus::requester::Requester;
use toolbus_bus::{Bus, SubscribeError};
use toolbus_mcp_agent::McpDirectory;
use toolbus_tools::{GrantKey, Guides, Invoker, Registry, Scope};
use toolbus_wire::name::{AgentName, InstanceId};

/// An agent on a bus. Clones are the same agent.
#[derive(Clone)]
pub struct Agent {
    requester: Requester,
    invoker: Invoker,
    directory: McpDirectory,
}

/// Why an agent could not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A queue could not be had.
    #[error("the agent cannot listen")]
    Subscribe(#[from] SubscribeError),
    /// A tool could not be registered.
    #[error("a tool cannot be registered")]
    Register(#[from] toolbus_tools::registry::Error),
}

impl Agent {
    /// Starts an agent of this name, with every tool there is. With a key, what leaves it for workers
    /// carries a grant.
    ///
    /// # Errors
    /// When a queue cannot be had.
    pub async fn start(
        bus: Arc<dyn Bus>,
        name: AgentName,
        instance: &InstanceId,
        grant_key: Option<GrantKey>,
    ) -> Result<Self, Error> {
        let registry = Arc::new(Registry::new());
        let guides = Guides::default();
        let requester = Requester::start(Arc::clone(&bus), name, instance).await?;
        guides.register(&registry)?;
        toolbus_scripts::tool::register(&registry, &guides, requester.clone())?;
        let directory =
            McpDirectory::start(&bus, requester.clone(), instance, Arc::clone(&registry), guides)
                .await?;
        let mut invoker = Invoker::builder(registry);
        if let Some(key) = grant_key {
            invoker = invoker.grants(key);
        }

        Ok(Self { requester, invoker: invoker.build(), directory })
    }

    /// Runs its tools.
    #[must_use]
    pub fn invoker(&self) -> &Invoker {
        &self.invoker
    }

    /// What it knows of MCP servers.
    #[must_use]
    pub fn directory(&self) -> &McpDirectory {
        &self.directory
    }

    /// Makes the tools of MCP servers tools of this agent, each by its own name.
    pub fn offer_directly(&self) {
        self.directory.offer_directly();
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

    /// The scope of calls that whoever runs this process makes.
    #[must_use]
    pub fn local_scope(&self) -> Arc<Scope> {
        Scope::local(self.name().clone())
    }

    /// Stops listening; calls that run end with an error.
    pub async fn close(&self) {
        self.directory.close().await;
        self.requester.close().await;
    }
}
