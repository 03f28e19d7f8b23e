//! `serve`: the agent's tools on the bus, until stopped.

use toolbus_bus::responder::Responder;
use toolbus_rabbitmq::{Start, join};
use toolbus_runtime::health::{Need, State};
use toolbus_runtime::service::{BoxError, Context, Exit};
use toolbus_wire::name::{AgentName, InstanceId};

use super::LEAVE_WITHIN;
use crate::agent::Agent;
use crate::fleet::{self, Fleet};
use crate::settings::Settings;

pub(super) async fn run(settings: Settings, context: Context) -> Result<Exit, BoxError> {
    let ready = context.health.component("tools", Need::Required);
    let name = AgentName::parse(&settings.name)?;
    let instance = InstanceId::parse(&context.identity.instance)?;
    let fleet = match Fleet::start(&settings, &context, &name, Start::Whenever).await {
        Err(fleet::Error::Join(join::Error::Stopped)) => return Ok(Exit::SUCCESS),
        started => started?,
    };
    let agent = Agent::start(fleet.bus().clone(), name.clone(), &instance).await?;
    let concurrency = settings.bus.prefetch;
    let served = toolbus_tools::bus::serve(
        fleet.bus().clone(),
        &name,
        &instance,
        concurrency,
        agent.invoker(),
    )
    .await?;
    if settings.bus.url.is_none() {
        tracing::warn!("no broker is set: nobody outside this process can call its tools");
    }
    match agent.services().refresh().await {
        Ok(true) => {}
        Ok(false) => {
            tracing::info!("no MCP bridge is there yet; it announces its servers when it comes");
        }
        // It is asked again when the broker is back.
        Err(error) => tracing::warn!(%error, "could not ask for MCP servers"),
    }
    describe(&context, &agent);
    ready.set(State::Up);
    tracing::info!(agent = %name, "serving");

    context.shutdown.requested().cancelled().await;
    // A part of the grace stays for leaving the bus.
    let grace = settings.shutdown.grace.duration() * 4 / 5;
    let [everybody, alone] = served.map(|responder| Responder::stop(responder, grace));
    futures_util::future::join(everybody, alone).await;
    agent.close().await;
    fleet.stop(LEAVE_WITHIN).await;
    Ok(Exit::SUCCESS)
}

/// What `/status` tells of the agent.
fn describe(context: &Context, agent: &Agent) {
    let agent = agent.clone();
    context.health.describe(move || {
        let tools: Vec<_> = agent
            .invoker()
            .registry()
            .list()
            .iter()
            .map(|registered| registered.tool.name.clone())
            .collect();
        let servers: Vec<_> =
            agent.services().servers().into_iter().map(|server| server.server_name).collect();
        serde_json::json!({"agent": agent.name(), "tools": tools, "mcpServers": servers})
    });
}
