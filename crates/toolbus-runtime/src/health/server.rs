//! `/healthz`, `/readyz` and `/status` over HTTP/1.
//!
//! The port is for probes and operators and must not be a way to hurt the process: connections are
//! bounded in number and in time, and bodies are never read.

use std::net::SocketAddr;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};

use super::Health;
use crate::http::{self, Limits};
use toolbus_config::ListenAddress;

/// Probes are few, short and come one by one.
const LIMITS: Limits = Limits { connections_max: 64, lifetime: Some(Duration::from_secs(60)) };

/// The port could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot serve health at {address}")]
pub struct Error {
    address: ListenAddress,
    #[source]
    source: std::io::Error,
}

/// A running health port. It is closed when this is dropped.
#[derive(Debug)]
pub struct HealthServer(http::Server);

impl HealthServer {
    /// The address that is really listened on, with the port that the system chose for port 0.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.0.address()
    }

    /// Closes the port and its connections, and waits until they are closed.
    pub async fn close(self) {
        self.0.close().await;
    }
}

/// Opens the port and answers from `health` until the server is closed or dropped.
///
/// # Errors
/// When the address is in use, not of this machine, or its name does not resolve.
pub async fn serve(address: &ListenAddress, health: Health) -> Result<HealthServer, Error> {
    let router = Router::new()
        .route("/healthz", get(async || Json(serde_json::json!({ "alive": true }))))
        .route("/readyz", get(readyz))
        .route("/status", get(async |State(health): State<Health>| Json(health.status())))
        .with_state(health);
    let served = http::serve(address, router, LIMITS).await;
    served.map(HealthServer).map_err(|source| Error { address: address.clone(), source })
}

async fn readyz(State(health): State<Health>) -> Response {
    let report = health.readiness();
    let ready = report["ready"] == true;
    let code = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (code, Json(report)).into_response()
}
