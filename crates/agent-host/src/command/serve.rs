//! `serve`: the agent's tools on the bus, until stopped.

use std::net::SocketAddr;

use toolbus_bus::responder::Responder;
use toolbus_rabbitmq::{Start, join};
use toolbus_runtime::health::{Need, State};
use toolbus_runtime::service::{BoxError, Context, Exit};
use toolbus_tools::bus::ServeOptions;
use toolbus_wire::name::{AgentName, InstanceId};

use super::LEAVE_TIMEOUT;
use crate::agent::Agent;
use crate::face::FaceServer;
use crate::fleet::{self, Fleet};
use crate::settings::Settings;

pub(super) async fn run(settings: Settings, context: Context) -> Result<Exit, BoxError> {
    let ready = context.health.component("tools", Need::Required);
    let name = AgentName::parse(&settings.name)?;
    let instance = InstanceId::parse(&context.identity.instance)?;
    let grant_key = settings.grants.load_key()?;
    let fleet = match Fleet::start(&settings, &context, &name, Start::Whenever).await {
        Err(fleet::Error::Join(join::Error::Stopped)) => return Ok(Exit::SUCCESS),
        started => started?,
    };
    let agent = Agent::start(fleet.bus().clone(), name.clone(), &instance, grant_key).await?;

    if settings.direct_tools {
        agent.offer_directly();
    }

    let options = ServeOptions {
        agent: name.clone(),
        instance,
        concurrency: settings.bus.prefetch,
        parked: Vec::new(),
    };
    let served = toolbus_tools::bus::serve(fleet.bus().clone(), agent.invoker(), options).await?;

    if settings.bus.url.is_none() {
        tracing::warn!("no broker is set: nobody on a bus can call its tools");
    }

    match agent.directory().refresh().await {
        Ok(true) => {}
        Ok(false) => {
            tracing::info!("no MCP bridge is there yet; it announces its servers when it comes");
        }
        // It is asked again when the broker is back.
        Err(error) => tracing::warn!(%error, "could not ask for MCP servers"),
    }

    let face = FaceServer::open(&settings.mcp_face, &agent).await?;
    if let Some(face) = &face {
        tracing::info!(address = %face.address(), "serving MCP clients");
    }

    set_status(&context, &agent, face.as_ref().map(FaceServer::address));
    ready.set(State::Up);
    tracing::info!(agent = %name, "serving");

    context.shutdown.requested().cancelled().await;
    // A part of the grace stays for leaving the bus.
    let grace = settings.shutdown.grace.duration() * 4 / 5;
    let [everybody, alone] = served.map(|responder| Responder::stop(responder, grace));
    let clients = async {
        if let Some(face) = face {
            face.close(grace).await;
        }
    };

    futures_util::future::join3(everybody, alone, clients).await;
    agent.close().await;
    fleet.stop(LEAVE_TIMEOUT).await;
    Ok(Exit::SUCCESS)
}

/// What `/status` tells of the agent.
fn set_status(context: &Context, agent: &Agent, face: Option<SocketAddr>) {
    let agent = agent.clone();
    context.health.describe(move || {
        let tools: Vec<_> = agent
            .invoker()
            .registry()
            .snapshot()
            .tools()
            .iter()
            .map(|entry| entry.tool.name.clone())
            .collect();
        let away = agent.directory().away_servers();
        let servers = agent.directory().servers();
        let servers = servers.iter().map(|server| server.server_name.clone());
        let servers: Vec<_> = servers.filter(|server| !away.contains(server)).collect();

        let mut status =
            serde_json::json!({"agent": agent.name(), "tools": tools, "mcpServers": servers});
        if !away.is_empty() {
            status["mcpServersAway"] = away.into();
        }
        if let Some(face) = face {
            status["mcpFace"] = face.to_string().into();
        }
        status
    });
}
