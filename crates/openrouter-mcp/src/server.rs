//! The MCP server's transports: streamable HTTP at `/` and `/mcp`, or standard input and output.
//!
//! Over HTTP there are no sessions in any version of the protocol: every tool call is one request
//! and one response, so any process can answer any request, and a restart goes unnoticed. A request
//! whose `Host` or `Origin` is not allowed is refused, or any web page could read the account
//! through its reader's browser; the names of this machine are for requests that come from it.
//! `/health` has no such check, since probes come by address, and reveals nothing.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{any, get};
use axum::{Json, Router};
use rmcp::ServiceExt as _;
use rmcp::service::ServerInitializeError;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use toolbus_config::ListenAddress;
use toolbus_runtime::http::{self, Limits, Server};

use crate::handler::Handler;
use crate::settings::HttpSettings;

/// Most connections at once; a client has one for each call that runs.
const LIMITS: Limits = Limits { connections_max: 256, lifetime: None };
/// Largest request body, in bytes; arguments are a few hundred.
const BODY_BYTES_MAX: usize = 256 * 1024;

type Service = StreamableHttpService<Handler, NeverSessionManager>;

/// Answers requests under the names that they may be sent to.
#[derive(Clone)]
struct Services {
    /// Requests of this machine: under its own names too.
    local: Service,
    /// All others. `None`: no name is for them.
    others: Option<Service>,
}

/// The port could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot serve MCP at {address}")]
pub(crate) struct Error {
    address: ListenAddress,
    #[source]
    source: std::io::Error,
}

/// A listening MCP server. The port is closed when this is dropped.
pub(crate) struct McpHttpServer {
    server: Server,
    stop: CancellationToken,
}

impl McpHttpServer {
    /// Opens the port and serves MCP clients there.
    pub(crate) async fn start(settings: &HttpSettings, handler: Handler) -> Result<Self, Error> {
        let stop = CancellationToken::new();
        let router = build_router(settings, handler, &stop);

        match http::serve(&settings.address, router, LIMITS).await {
            Ok(server) => Ok(Self { server, stop }),
            Err(source) => Err(Error { address: settings.address.clone(), source }),
        }
    }

    /// The address that is really listened on.
    pub(crate) fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Accepts no more requests, waits up to `grace` for running ones, and closes every connection.
    /// Returns whether all requests were answered.
    pub(crate) async fn close(self, grace: Duration) -> bool {
        let answered = self.server.drain(grace).await;
        self.stop.cancel();
        answered
    }
}

/// Serves the client on standard input and output until it disconnects or `stop` is cancelled.
///
/// # Errors
/// When the first message is not MCP.
pub(crate) async fn serve_stdio(
    handler: Handler,
    stop: CancellationToken,
) -> Result<(), Box<ServerInitializeError>> {
    let client = handler.serve_with_ct(rmcp::transport::stdio_pipes(), stop).await;
    match client {
        Ok(client) => {
            // However it ends, the client has disconnected.
            let _ = client.waiting().await;
            Ok(())
        }
        Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => {
            Ok(())
        }
        Err(error) => Err(Box::new(error)),
    }
}

fn build_router(settings: &HttpSettings, handler: Handler, stop: &CancellationToken) -> Router {
    let service = |names: Vec<String>| {
        let handler = handler.clone();
        let make = move || Ok(handler.clone());
        let config = transport_config(settings, names, stop.clone());
        Service::new(make, Arc::new(NeverSessionManager::default()), config)
    };
    let listed = &settings.allowed_hosts;
    let own = StreamableHttpServerConfig::default().allowed_hosts;
    let services = Services {
        local: service(own.into_iter().chain(listed.iter().cloned()).collect()),
        // Without any name, the transport would let in every one.
        others: (!listed.is_empty()).then(|| service(listed.clone())),
    };
    let mcp = any(async |State(services): State<Services>, request: Request| {
        services.serve_request(request).await
    });

    Router::new()
        .route("/", mcp.clone())
        .route("/mcp", mcp)
        .route("/health", get(async || Json(json!({ "alive": true }))))
        .with_state(services)
}

impl Services {
    async fn serve_request(&self, request: Request) -> Response {
        let service = match http::is_from_here(request.extensions()) {
            true => Some(&self.local),
            false => self.others.as_ref(),
        };
        match service {
            Some(service) => service.handle(request).await.map(Body::new),
            None => StatusCode::FORBIDDEN.into_response(),
        }
    }
}

/// What holds for requests that are sent to one of these names.
fn transport_config(
    settings: &HttpSettings,
    names: Vec<String>,
    stop: CancellationToken,
) -> StreamableHttpServerConfig {
    let local = ["http://localhost:*", "http://127.0.0.1:*", "http://[::1]:*"].map(str::to_owned);
    let origins = local.into_iter().chain(settings.allowed_origins.iter().cloned());

    StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_allowed_hosts(names)
        .with_allowed_origins(origins)
        .enforce_origin_validation()
        .with_max_request_body_bytes(BODY_BYTES_MAX)
        .with_cancellation_token(stop)
}
