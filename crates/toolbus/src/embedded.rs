//! The services that live in this process beside the agent, on the same bus.

use std::sync::Arc;
use std::time::Duration;

use toolbus_bus::Bus;
use toolbus_bus::responder::Responder;
#[cfg(feature = "mcp")]
use toolbus_mcp::bridge::Bridge;
use toolbus_scripts::{ScriptAllowance, WorkerOptions};
use toolbus_tools::GrantCheck;
use toolbus_wire::name::{AgentName, InstanceId};

use crate::error::Error;
use crate::scripting::LocalScripts;

/// Services at work. What is not set does not run here.
pub(crate) struct Embedded {
    scripts: Option<Responder>,
    #[cfg(feature = "mcp")]
    bridge: Option<Bridge>,
}

/// Which services are to run.
pub(crate) struct EmbeddedServices {
    pub(crate) scripts: Option<(LocalScripts, ScriptAllowance)>,
    #[cfg(feature = "mcp")]
    pub(crate) mcp: Option<crate::mcp_servers::McpServers>,
    /// Which requests they take.
    pub(crate) grant_check: GrantCheck,
}

impl EmbeddedServices {
    /// Starts them on a bus. Those that have started end when another cannot.
    pub(crate) async fn start(
        self,
        bus: &Arc<dyn Bus>,
        agent: &AgentName,
    ) -> Result<Embedded, Error> {
        let instance = InstanceId::random();

        #[cfg(feature = "mcp")]
        let bridge = match self.mcp {
            Some(servers) => {
                let check = self.grant_check.clone();
                let (pool, options) = servers.start(agent, instance.clone(), check)?;
                Some(Bridge::start(bus, pool, options).await?)
            }
            None => None,
        };
        #[cfg(not(feature = "mcp"))]
        let _ = agent;

        let scripts = match self.scripts {
            Some((LocalScripts { runner, concurrency }, allowance)) => {
                let options = WorkerOptions { concurrency, allowance, grants: self.grant_check };
                Some(toolbus_scripts::serve(Arc::clone(bus), &instance, runner, options).await?)
            }
            None => None,
        };

        Ok(Embedded {
            scripts,
            #[cfg(feature = "mcp")]
            bridge,
        })
    }
}

impl Embedded {
    /// The MCP servers that run here.
    #[cfg(feature = "mcp")]
    pub(crate) fn servers(&self) -> Option<toolbus_mcp::server_pool::ServerPool> {
        self.bridge.as_ref().map(|bridge| bridge.servers().clone())
    }

    /// Takes no more requests, waits up to `grace` for those that run, and ends every service.
    pub(crate) async fn stop(self, grace: Duration) {
        let scripts = async {
            if let Some(scripts) = self.scripts {
                scripts.stop(grace).await;
            }
        };

        #[cfg(feature = "mcp")]
        let bridge = async {
            if let Some(bridge) = self.bridge {
                bridge.stop(grace).await;
            }
        };
        #[cfg(not(feature = "mcp"))]
        let bridge = std::future::ready(());

        futures_util::future::join(scripts, bridge).await;
    }
}
