//! `serve`: the agent's tools on the bus, until stopped.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};
use toolbus::{InstanceId, Toolbus};
use toolbus_discovery::{DiscoveryState, LifecycleCounts};
use toolbus_rabbitmq::{Start, join};
use toolbus_runtime::health::{Need, State};
use toolbus_runtime::service::{BoxError, Context, Exit};

use super::{LEAVE_TIMEOUT, misuse};
use crate::agent_server::AgentServer;
use crate::bus_policy;
use crate::face::FaceServer;
use crate::fleet::{self, Fleet, Membership};
use crate::http_clients::HttpClients;
use crate::http_listener::HttpListener;
use crate::policy_reload::{self, SettingsSource};
use crate::settings::Settings;
use crate::state::KeptState;

/// Says whether there is an MCP bridge to have servers from.
fn report_bridge(toolbus: &Toolbus) {
    match toolbus.has_bridge() {
        Ok(true) => {}
        Ok(false) => {
            tracing::info!("no MCP bridge is there yet; it announces its servers when it comes");
        }
        // It is asked again when the broker is back.
        Err(error) => tracing::warn!(%error, "could not ask for MCP servers"),
    }
}

pub(super) async fn run(
    settings: Settings,
    source: SettingsSource,
    context: Context,
) -> Result<Exit, BoxError> {
    let ready = context.health.component("tools", Need::Required);
    // At once, and not when the broker is there and servers have been started.
    let clients = match HttpClients::load(&settings).await {
        Ok(clients) => clients,
        Err(mistakes) => return Ok(misuse(mistakes)),
    };
    check_ports(&settings).await?;

    let membership = Membership {
        start: Start::Whenever,
        instance: InstanceId::parse(&context.identity.instance)?,
        concurrency: Some(settings.bus.prefetch),
    };
    let fleet = match Fleet::start(&settings, &context, membership).await {
        Err(fleet::Error::Join(join::Error::Stopped)) => return Ok(Exit::SUCCESS),
        started => started?,
    };
    let toolbus = fleet.toolbus();
    bus_policy::warn(&settings);
    policy_reload::follow(fleet.policy().clone(), source, &context.shutdown)?;

    if fleet.is_embedded() {
        tracing::warn!("no broker is set: nobody on a bus can call its tools");
    }

    report_bridge(toolbus);

    let clients = clients.with_ids(&settings, &fleet).await?;
    let face = match settings.shares_port() {
        true => None,
        false => FaceServer::open(&settings.mcp_face, &clients, toolbus).await?,
    };
    if let Some(face) = &face {
        tracing::info!(address = %face.address(), "serving MCP clients");
    }

    let agent = AgentServer::start(&settings, &fleet).await?;
    if let Some(agent) = &agent {
        agent.report();
    }
    let served = agent.as_ref().map(AgentServer::agent);
    let http = HttpListener::open(&settings, &fleet, &clients, served).await?;
    if let Some(http) = &http {
        http.report();
    }

    if let Some(state) = fleet.state() {
        state.report();
    }
    let own_face = face.as_ref().map(FaceServer::address);
    let ports = Ports {
        face: own_face.or_else(|| http.as_ref().and_then(HttpListener::face_address)),
        http: http.as_ref().map(HttpListener::address),
    };
    set_status(&context, &fleet, ports);
    ready.set(State::Up);
    tracing::info!(agent = %toolbus.name(), "serving tool calls");

    context.shutdown.requested().cancelled().await;
    // A part of the grace stays for leaving the bus.
    let mut grace = settings.shutdown.grace.duration() * 4 / 5;
    // Turns call tools: those end first.
    if agent.is_some() || http.is_some() {
        grace /= 2;
        close_agent(agent, http, grace).await;
    }
    let clients = async {
        if let Some(face) = face {
            face.close(grace).await;
        }
    };
    futures_util::future::join(toolbus.drain(grace), clients).await;

    fleet.stop(LEAVE_TIMEOUT).await;
    Ok(Exit::SUCCESS)
}

/// Checks that the ports of the settings can be opened.
async fn check_ports(settings: &Settings) -> Result<(), BoxError> {
    FaceServer::check_port(&settings.mcp_face).await?;
    HttpListener::check_port(&settings.http).await?;
    Ok(())
}

/// Ends turns and requests, with `grace` for those that are under way.
async fn close_agent(agent: Option<AgentServer>, http: Option<HttpListener>, grace: Duration) {
    let agent = async {
        if let Some(agent) = agent {
            agent.close(grace).await;
        }
    };
    let http = async {
        if let Some(http) = http {
            http.close(grace).await;
        }
    };
    futures_util::future::join(agent, http).await;
}

/// What `/status` tells of the tools that can be found.
fn describe_discovery(state: &DiscoveryState) -> Value {
    let LifecycleCounts { registered, discoverable, optimized, not_recommended } = state.lifecycles;
    json!({
        "registered": state.registered,
        "discoverable": state.discoverable,
        "isCurrent": state.is_current,
        "learnedCalls": state.learned_calls,
        "dropped": state.dropped,
        "lifecycle": {
            "registered": registered,
            "discoverable": discoverable,
            "optimized": optimized,
            "notRecommended": not_recommended,
        },
    })
}

/// Where others reach it.
struct Ports {
    face: Option<SocketAddr>,
    http: Option<SocketAddr>,
}

/// What `/status` tells of the agent.
fn set_status(context: &Context, fleet: &Fleet, ports: Ports) {
    let toolbus = fleet.toolbus().clone();
    let policy = fleet.policy().clone();
    let scripts_memory = fleet.scripts_memory();
    let state = fleet.state().map(KeptState::describe);
    let discovery = fleet.discovery().cloned();
    context.health.describe(move || {
        let tools: Vec<_> =
            toolbus.tools().tools().iter().map(|entry| entry.tool.name.clone()).collect();
        let away = toolbus.directory().away_servers();
        let servers = toolbus.directory().servers();
        let names = |connecting: bool| -> Vec<String> {
            let known = servers.iter().filter(|server| server.connecting == connecting);
            let names = known.map(|server| server.server_name.clone());
            names.filter(|server| !away.contains(server)).collect()
        };
        let (connecting, servers) = (names(true), names(false));

        let mut status = json!({"agent": toolbus.name(), "tools": tools, "mcpServers": servers});
        if !connecting.is_empty() {
            status["mcpServersConnecting"] = connecting.into();
        }
        let book = policy.book();
        status["policy"] =
            json!({"revision": book.revision().as_str(), "rules": book.rule_count()});
        if !away.is_empty() {
            status["mcpServersAway"] = away.into();
        }
        if let Some(memory) = scripts_memory {
            status["scripts"] = json!({"memory": memory});
        }
        if let Some(state) = &state {
            status["state"] = state.clone();
        }
        if let Some(discovery) = &discovery {
            status["discovery"] = describe_discovery(&discovery.state());
        }
        if let Some(face) = ports.face {
            status["mcpFace"] = face.to_string().into();
        }
        if let Some(http) = ports.http {
            status["http"] = http.to_string().into();
        }
        status
    });
}
