//! The ways in: streamable HTTP at `/` and `/mcp`, or standard input and output.
//!
//! Over HTTP there are no sessions in either era of the protocol: every tool is one question and
//! one answer, so any process can answer any request, and a restart goes unnoticed. A request whose
//! `Host` or `Origin` is not one of ours is refused, or any web page could read the account through
//! its reader's browser. `/health` has no such check, for whoever probes by address, and tells
//! nothing.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
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

/// The port could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot serve MCP at {address}")]
pub(crate) struct Error {
    address: ListenAddress,
    #[source]
    source: std::io::Error,
}

/// An open port. Closed when this is dropped.
pub(crate) struct Door {
    server: Server,
    stop: CancellationToken,
}

impl Door {
    pub(crate) async fn open(settings: &HttpSettings, handler: Handler) -> Result<Self, Error> {
        let stop = CancellationToken::new();
        let served = http::serve(&settings.address, router(settings, handler, &stop), LIMITS).await;
        let failed = |source| Error { address: settings.address.clone(), source };
        Ok(Self { server: served.map_err(failed)?, stop })
    }

    /// The address that is really listened on.
    pub(crate) fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Takes no more requests, waits up to `grace` until those that run are answered, and closes
    /// every connection. Tells whether all were answered.
    pub(crate) async fn close(self, grace: Duration) -> bool {
        let answered = self.server.drain(grace).await;
        self.stop.cancel();
        answered
    }
}

/// Serves the client at the other end of standard input and output until it has gone, or `stop`.
///
/// # Errors
/// When what comes first is not MCP.
pub(crate) async fn stdio(
    handler: Handler,
    stop: CancellationToken,
) -> Result<(), Box<ServerInitializeError>> {
    let client = handler.serve_with_ct(rmcp::transport::stdio_pipes(), stop).await;
    match client {
        Ok(client) => {
            // However it ends: nobody is there any more.
            let _ = client.waiting().await;
            Ok(())
        }
        Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => {
            Ok(())
        }
        Err(error) => Err(Box::new(error)),
    }
}

fn router(settings: &HttpSettings, handler: Handler, stop: &CancellationToken) -> Router {
    let make = move || Ok(handler.clone());
    let config = config(settings, stop.clone());
    let service = Service::new(make, Arc::new(NeverSessionManager::default()), config);
    let mcp = any(async |State(service): State<Service>, request: Request| -> Response {
        service.handle(request).await.map(Body::new)
    });
    Router::new()
        .route("/", mcp.clone())
        .route("/mcp", mcp)
        .route("/health", get(async || Json(json!({ "alive": true }))))
        .with_state(service)
}

fn config(settings: &HttpSettings, stop: CancellationToken) -> StreamableHttpServerConfig {
    let config = StreamableHttpServerConfig::default();
    let hosts: Vec<_> =
        config.allowed_hosts.iter().chain(&settings.allowed_hosts).cloned().collect();
    let local = ["http://localhost:*", "http://127.0.0.1:*", "http://[::1]:*"].map(str::to_owned);
    let origins = local.into_iter().chain(settings.allowed_origins.iter().cloned());
    config
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_allowed_hosts(hosts)
        .with_allowed_origins(origins)
        .enforce_origin_validation()
        .with_max_request_body_bytes(BODY_BYTES_MAX)
        .with_cancellation_token(stop)
}
