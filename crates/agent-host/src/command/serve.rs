//! `serve`: the agent's tools on the bus, until stopped.

use toolbus_bus::responder::Responder;
use toolbus_rabbitmq::Start;
use toolbus_runtime::health::{Need, State};
use toolbus_runtime::service::{BoxError, Context, Exit};
use toolbus_wire::name::{AgentName, InstanceId};

use super::COMMAND_GRACE;
use crate::agent::Agent;
use crate::fleet::Fleet;
use crate::settings::Settings;

pub(super) async fn run(settings: Settings, context: Context) -> Result<Exit, BoxError> {
    let ready = context.health.component("tools", Need::Required);
    let name = AgentName::parse(&settings.name)?;
    let instance = InstanceId::parse(&context.identity.instance)?;
    let fleet = Fleet::start(&settings, &context, &name, Start::Whenever).await?;
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
    if !agent.services().refresh().await? {
        tracing::info!("no MCP bridge is there yet; it announces its servers when it comes");
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
    fleet.stop(COMMAND_GRACE).await;
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
