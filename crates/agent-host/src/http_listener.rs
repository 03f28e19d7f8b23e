//! The HTTP port of the agent: turns, tasks of other agents, and tools, for programs; and for MCP
//! clients where their address is the same. Each part has its own paths, its own names that it is
//! reached by, and its own places for requests; the tokens of clients hold for all.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use futures_util::future::join4;
use toolbus_a2a::{HttpServer, HttpServerConfig, TaskIntake};
use toolbus_agent::Agent;
use toolbus_config::ListenAddress;
use toolbus_face::Face;
use toolbus_fetch::FetchConfig;
use toolbus_http::tool_api::{self, ToolApi, ToolApiDeps};
use toolbus_http::{ApiDeps, TurnApi};
use toolbus_runtime::http;
use toolbus_tools::View;

use crate::face::open_face;
use crate::fleet::Fleet;
use crate::http_clients::HttpClients;
use crate::http_settings::HttpSettings;
use crate::settings::Settings;
use crate::webhook_sender::WebhookSender;

/// What answers over HTTP.
pub(crate) struct HttpListener {
    /// Turns, where there is an agent.
    turns: Option<TurnApi>,
    /// Tools for programs, where they are served.
    tools: Option<ToolApi>,
    /// Tasks of other agents, where they are done.
    tasks: Option<HttpServer>,
    /// MCP clients, where they come to this port.
    face: Option<Face>,
    server: http::Server,
}

/// Why nothing does.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// Webhooks cannot be sent.
    #[error("webhooks cannot be sent")]
    Webhooks(#[source] reqwest::Error),
    /// The port could not be opened.
    #[error("cannot serve HTTP at {address}")]
    Listen {
        address: ListenAddress,
        #[source]
        source: std::io::Error,
    },
}

impl HttpListener {
    /// Checks that the port of the settings can be opened, where they name one.
    pub(crate) async fn check_port(settings: &HttpSettings) -> Result<(), Error> {
        let Some(address) = &settings.address else { return Ok(()) };
        let checked = http::check_port(address).await;
        checked.map_err(|source| Error::Listen { address: address.clone(), source })
    }

    /// Opens the port of the settings, where they name one, for these clients and what there is:
    /// turns of this agent and tasks that it takes, and tools.
    pub(crate) async fn open(
        settings: &Settings,
        fleet: &Fleet,
        clients: &HttpClients,
        agent: Option<(&Agent, Option<TaskIntake>)>,
    ) -> Result<Option<Self>, Error> {
        let Some(address) = &settings.http.address else { return Ok(None) };
        let mut parts = Parts::default();
        let (agent, intake) = match agent {
            Some((agent, intake)) => (Some(agent), intake),
            None => (None, None),
        };

        let turns_max = usize::from(settings.agent.turns_max.get());
        let turns = agent.map(|agent| {
            let name = fleet.toolbus().name().clone();
            let deps = ApiDeps { name, agent: agent.clone(), turns_max };
            let turns = TurnApi::new(settings.http.api_settings(clients), deps);
            parts.add(turns.router(), toolbus_http::connections_max(turns_max));
            turns
        });
        let tasks = intake.map(|intake| {
            let api = settings.http.api_settings(clients);
            let public_url = settings.a2a.public_url.clone();
            let config = HttpServerConfig { api, public_url, ..HttpServerConfig::default() };
            let connections_max = config.connections_max();
            let tasks = HttpServer::new(config, intake);
            parts.add(tasks.router(), connections_max);
            tasks
        });
        let tools = open_tool_api(settings, fleet, clients)?;
        if let Some(tools) = &tools {
            parts.add(tools.router(), tool_api::CONNECTIONS_MAX);
        }
        let face = settings.shares_port().then(|| {
            let face = open_face(&settings.mcp_face, clients, fleet.toolbus());
            parts.add(face.router(), toolbus_face::CONNECTIONS_MAX);
            face
        });

        let Some((router, connections_max)) = parts.into_router() else { return Ok(None) };
        let limits = http::Limits { connections_max, lifetime: None };
        let served = http::serve(address, router, limits).await;
        let server = served.map_err(|source| Error::Listen { address: address.clone(), source })?;
        Ok(Some(Self { turns, tools, tasks, face, server }))
    }

    /// Where clients reach it.
    pub(crate) fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Where MCP clients reach it, where they do.
    pub(crate) fn face_address(&self) -> Option<SocketAddr> {
        self.face.as_ref().map(|_| self.address())
    }

    /// Says what is served.
    pub(crate) fn report(&self) {
        let address = self.address();
        if self.turns.is_some() {
            tracing::info!(%address, "serving turns over HTTP");
        }
        if self.tools.is_some() {
            tracing::info!(%address, "serving tools over HTTP");
        }
        if self.face.is_some() {
            tracing::info!(%address, "serving MCP clients");
        }
    }

    /// Takes no more requests, and waits up to `grace` for those that are under way.
    pub(crate) async fn close(self, grace: Duration) {
        let turns = async {
            if let Some(turns) = self.turns {
                turns.drain(grace).await;
            }
        };
        let tools = async {
            if let Some(tools) = self.tools {
                tools.drain(grace).await;
            }
        };
        let tasks = async {
            if let Some(tasks) = self.tasks {
                tasks.drain(grace).await;
            }
        };
        let face = async {
            if let Some(face) = &self.face {
                face.drain(grace).await;
            }
        };
        join4(turns, tools, tasks, face).await;

        self.server.close().await;
        if let Some(face) = self.face {
            face.close().await;
        }
    }
}

/// What is served at the port.
#[derive(Default)]
struct Parts {
    /// Each with the connections that its clients may have.
    routers: Vec<(Router, usize)>,
}

impl Parts {
    fn add(&mut self, router: Router, connections_max: usize) {
        self.routers.push((router, connections_max));
    }

    /// All of them as one, and the connections of all. Where there are several, none takes the
    /// connections of another.
    fn into_router(self) -> Option<(Router, usize)> {
        let connections_max = self.routers.iter().map(|(_, connections)| connections).sum();
        let are_several = self.routers.len() > 1;
        let routers = self.routers.into_iter().map(|(router, connections)| match are_several {
            true => http::with_places(router, connections),
            false => router,
        });
        Some((routers.reduce(Router::merge)?, connections_max))
    }
}

/// Tools for programs, where they are wanted and there is a place for what is kept of them.
fn open_tool_api(
    settings: &Settings,
    fleet: &Fleet,
    clients: &HttpClients,
) -> Result<Option<ToolApi>, Error> {
    let http = &settings.http;
    let parts = (fleet.state(), fleet.discovery());
    let (true, (Some(state), Some(discovery))) = (http.tool_api.enabled, parts) else {
        return Ok(None);
    };

    let allowed_hosts = http.tool_api.webhook_hosts.clone();
    let sender = WebhookSender::new(FetchConfig { allowed_hosts, ..FetchConfig::default() });
    let deps = ToolApiDeps {
        name: fleet.toolbus().name().clone(),
        invoker: fleet.toolbus().invoker().clone(),
        policy: fleet.policy().clone(),
        discovery: discovery.clone(),
        store: state.store().clone(),
        view: View::all(),
        webhooks: Some(Arc::new(sender.map_err(Error::Webhooks)?)),
        vault: state.vault.clone(),
    };
    let config = http.tool_api.config(&http.plans);
    Ok(Some(ToolApi::start(http.api_settings(clients), config, deps)))
}
