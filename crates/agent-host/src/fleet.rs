//! The fleet around the agent: joined over a broker, or embedded in this process.

use std::sync::Arc;
use std::time::Duration;

use toolbus_bus::responder::Responder;
use toolbus_bus::{Bus, MemoryBus, SubscribeError};
use toolbus_config::settings::BusSettings;
use toolbus_mcp::bridge::Bridge;
use toolbus_mcp::settings::McpSettings;
use toolbus_rabbitmq::Start;
use toolbus_rabbitmq::join::{self, BusHealth, JoinDeps};
use toolbus_runtime::health::{Health, Need, State};
use toolbus_runtime::service::Context;
use toolbus_sandbox::settings::ScriptsSettings;
use toolbus_scripts::{Runner, Unavailable};
use toolbus_tools::GrantCheck;
use toolbus_wire::name::{AgentName, InstanceId};

use crate::settings::Settings;

/// A bus, with the services on it that live in this process.
pub struct Fleet {
    bus: Arc<dyn Bus>,
    embedded: Option<Embedded>,
}

struct Embedded {
    scripts: Responder,
    bridge: Bridge,
}

/// Why there is no fleet.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The broker could not be joined.
    #[error("the broker cannot be joined")]
    Join(#[from] join::Error),
    /// An embedded service could not listen.
    #[error("an embedded service cannot listen")]
    Subscribe(#[from] SubscribeError),
    /// The MCP servers could not be started.
    #[error(transparent)]
    Mcp(#[from] toolbus_mcp::settings::Error),
}

impl Fleet {
    /// Joins the fleet of the settings' broker, or brings one up in this process.
    ///
    /// # Errors
    /// When the broker cannot be joined, or the settings of an embedded service are wrong.
    pub async fn start(
        settings: &Settings,
        context: &Context,
        agent: &AgentName,
        start: Start,
    ) -> Result<Self, Error> {
        if settings.bus.url.is_some() {
            let bus = join_bus(&settings.bus, context, start).await?;
            return Ok(Self { bus, embedded: None });
        }
        let bus: Arc<dyn Bus> = Arc::new(MemoryBus::new());
        let embedded =
            Embedded::start(&bus, &settings.scripts, &settings.mcp, agent, &context.health).await?;
        Ok(Self { bus, embedded: Some(embedded) })
    }

    /// The bus.
    #[must_use]
    pub fn bus(&self) -> &Arc<dyn Bus> {
        &self.bus
    }

    /// Waits until every embedded MCP server has been tried, at most `limit`. Answers whether the
    /// fleet is embedded at all.
    pub async fn settled(&self, limit: Duration) -> bool {
        let Some(embedded) = &self.embedded else { return false };
        // Time is up for servers that are slow; they are announced when they come.
        let _ = tokio::time::timeout(limit, embedded.bridge.servers().wait_settled()).await;
        true
    }

    /// Stops what lives here, with `grace` for calls that run, and leaves the bus.
    pub async fn stop(self, grace: Duration) {
        if let Some(Embedded { scripts, bridge }) = self.embedded {
            futures_util::future::join(scripts.stop(grace), bridge.stop(grace)).await;
        }
        self.bus.close(Duration::from_secs(1)).await;
    }
}

impl Embedded {
    async fn start(
        bus: &Arc<dyn Bus>,
        scripts: &ScriptsSettings,
        mcp: &McpSettings,
        agent: &AgentName,
        health: &Health,
    ) -> Result<Self, Error> {
        let instance = InstanceId::random();
        let set = mcp.start_servers()?;
        let options = mcp.bridge_options(vec![agent.clone()], instance.clone());
        let bridge = Bridge::start(bus, set, options).await?;

        let runner: Arc<dyn Runner> = match scripts.runner().await {
            Ok(runner) => runner,
            // The tool stays, and says why it does not work: a model that is told can tell.
            Err(unavailable) => {
                tracing::warn!(%unavailable, "scripts do not run here");
                let component = health.component("scripts", Need::Optional);
                component.set(State::down(&unavailable));
                Arc::new(Unavailable(unavailable.to_string()))
            }
        };

        let concurrency = scripts.max_concurrent;
        // Nobody else is on this bus.
        let grants = GrantCheck::off();
        let scripts =
            toolbus_scripts::serve(Arc::clone(bus), &instance, concurrency, runner, grants).await?;
        Ok(Self { scripts, bridge })
    }
}

/// Joins the bus. The health component `bus` says how it is, from then on.
async fn join_bus(
    settings: &BusSettings,
    context: &Context,
    start: Start,
) -> Result<Arc<dyn Bus>, join::Error> {
    let component = context.health.component("bus", Need::Required);
    let report_health = move |health| {
        component.set(match health {
            BusHealth::Up => State::Up,
            BusHealth::Blocked { reason } => State::degraded(reason),
            BusHealth::Down { reason } => State::down(reason),
        });
    };

    let deps = JoinDeps {
        connection_name: context.identity.connection_name(),
        stop: context.shutdown.requested().clone(),
        tasks: context.shutdown.tasks().clone(),
    };
    join::join(settings, start, deps, report_health).await
}
