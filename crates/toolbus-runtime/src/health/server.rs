//! `/healthz`, `/readyz` and `/status` over HTTP/1.
//!
//! The port is for probes and operators and must not be a way to hurt the process: connections are
//! bounded in number and in time, request heads in size and time, and bodies are never read.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::Health;
use crate::config::ListenAddress;

/// Most connections at once; more wait in the system's queue.
const CONNECTIONS_MAX: usize = 64;
/// How long a client may take to send a request's head.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a connection lives, whatever it does.
const CONNECTION_LIFETIME: Duration = Duration::from_secs(60);
/// Largest request head, in bytes.
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// How long accepting pauses after it failed, which it does for want of file handles.
const ACCEPT_PAUSE: Duration = Duration::from_millis(500);

/// The port could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot serve health at {address}")]
pub struct Error {
    address: ListenAddress,
    #[source]
    source: io::Error,
}

/// A running health port. It is closed when this is dropped.
#[derive(Debug)]
pub struct HealthServer {
    address: SocketAddr,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl HealthServer {
    /// The address that is really listened on, with the port that the system chose for port 0.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Closes the port and its connections, and waits until they are closed.
    pub async fn close(self) {
        self.stop.cancel();
        self.tasks.wait().await;
    }
}

impl Drop for HealthServer {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Opens the port and answers from `health` until the server is closed or dropped.
///
/// # Errors
///
/// When the address is in use, not of this machine, or its name does not resolve.
pub async fn serve(address: &ListenAddress, health: Health) -> Result<HealthServer, Error> {
    let failed = |source| Error { address: address.clone(), source };
    let listener = bind(address).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    let router = Router::new()
        .route("/healthz", get(async || Json(serde_json::json!({ "alive": true }))))
        .route("/readyz", get(readyz))
        .route("/status", get(async |State(health): State<Health>| Json(health.status())))
        .with_state(health);
    let server =
        HealthServer { address: bound, stop: CancellationToken::new(), tasks: TaskTracker::new() };
    let acceptor = Acceptor { router, stop: server.stop.clone(), tasks: server.tasks.clone() };
    server.tasks.spawn(acceptor.run(listener));
    server.tasks.close();
    Ok(server)
}

async fn bind(address: &ListenAddress) -> io::Result<TcpListener> {
    if !address.host().is_empty() {
        return TcpListener::bind((address.host(), address.port())).await;
    }
    // Both families where the system can, else the older one alone.
    let any = |host: IpAddr| SocketAddr::new(host, address.port());
    TcpListener::bind(&[any(Ipv6Addr::UNSPECIFIED.into()), any(Ipv4Addr::UNSPECIFIED.into())][..])
        .await
}

async fn readyz(State(health): State<Health>) -> Response {
    let report = health.readiness();
    let ready = report["ready"] == true;
    let code = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (code, Json(report)).into_response()
}

struct Acceptor {
    router: Router,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Acceptor {
    async fn run(self, listener: TcpListener) {
        let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        // Dropping either wait loses nothing: a connection not accepted stays in the queue.
        while let Some(Ok(slot)) =
            self.stop.run_until_cancelled(Arc::clone(&slots).acquire_owned()).await
        {
            match self.stop.run_until_cancelled(listener.accept()).await {
                None => return,
                Some(Ok((stream, _))) => {
                    let connection = self.connection(stream);
                    self.tasks.spawn(async move {
                        connection.await;
                        drop(slot);
                    });
                }
                Some(Err(error)) => {
                    tracing::warn!(%error, "cannot accept a connection to the health port");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    fn connection(&self, stream: TcpStream) -> impl Future<Output = ()> + use<> {
        let served = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIMEOUT)
            .max_buf_size(HEAD_BYTES_MAX)
            .serve_connection(TokioIo::new(stream), TowerToHyperService::new(self.router.clone()));
        let stop = self.stop.clone();
        async move {
            // How a probe's connection ends is nobody's concern: it errs, or its time is up.
            let _ =
                stop.run_until_cancelled(tokio::time::timeout(CONNECTION_LIFETIME, served)).await;
        }
    }
}
