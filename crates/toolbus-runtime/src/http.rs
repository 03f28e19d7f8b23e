//! A small HTTP/1 server that cannot be used to hurt its process: connections are bounded in
//! number, request heads in size and time, request bodies in time, and all of it ends when the
//! server is closed.
//!
//! What is served, and how large a body may be, is the router's affair. A request that is answered
//! before all of it was read is the last one of its connection.

mod request_body;
mod respond;
pub mod visitors;

use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use toolbus_config::ListenAddress;

use request_body::{BodyProgress, BodyTimeouts};

/// How long a client may take to send a request's head.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// Largest request head, in bytes.
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// How long accepting pauses after it failed, which it does for want of file handles.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(500);
/// How long what a client still sends of a request is read after its answer. The system would
/// otherwise tell the client that the connection broke, which can overtake the answer.
const LINGER_TIMEOUT: Duration = Duration::from_secs(1);

/// What holds for the connections of one server.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Most connections at once; more wait in the system's queue.
    pub connections_max: usize,
    /// How long a connection lives, whatever it does. `None`: as long as both ends want.
    pub lifetime: Option<Duration>,
}

/// A running server. It is closed when this is dropped.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    stop: CancellationToken,
    /// Fires with `stop` at the latest.
    ending: CancellationToken,
    tasks: TaskTracker,
}

impl Server {
    /// The address that is really listened on, with the port that the system chose for port 0.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Closes the port, lets requests that run be answered, for `grace` at most, and closes what is
    /// left. Tells whether nothing was left.
    pub async fn drain(self, grace: Duration) -> bool {
        self.ending.cancel();
        let drained = tokio::time::timeout(grace, self.tasks.wait()).await.is_ok();
        self.close().await;
        drained
    }

    /// Closes the port and its connections, and waits until they are closed.
    pub async fn close(self) {
        self.stop.cancel();
        self.tasks.wait().await;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Opens the port and serves `router` until the server is closed or dropped.
///
/// # Errors
/// When the address is in use, not of this machine, or its name does not resolve.
pub async fn serve(address: &ListenAddress, router: Router, limits: Limits) -> io::Result<Server> {
    serve_within(address, router, limits, BodyTimeouts::default()).await
}

/// Checks that the port can be opened, for a program that opens it only after it has started what
/// is served there. The port is closed again: clients are refused until it can answer them.
///
/// # Errors
/// As [`serve`].
pub async fn check_port(address: &ListenAddress) -> io::Result<()> {
    bind_listener(address).await.map(drop)
}

async fn serve_within(
    address: &ListenAddress,
    router: Router,
    limits: Limits,
    body_timeouts: BodyTimeouts,
) -> io::Result<Server> {
    let listener = bind_listener(address).await?;
    let stop = CancellationToken::new();
    let ending = stop.child_token();
    let tasks = TaskTracker::new();
    let server = Server { address: listener.local_addr()?, stop, ending, tasks };

    let acceptor = Acceptor {
        router,
        limits,
        body_timeouts,
        stop: server.stop.clone(),
        ending: server.ending.clone(),
        tasks: server.tasks.clone(),
    };
    server.tasks.spawn(acceptor.run(listener));
    server.tasks.close();

    Ok(server)
}

async fn bind_listener(address: &ListenAddress) -> io::Result<TcpListener> {
    if !address.host().is_empty() {
        return TcpListener::bind((address.host(), address.port())).await;
    }

    // Both families where the system can, else the older one alone.
    let any = |host: IpAddr| SocketAddr::new(host, address.port());
    TcpListener::bind(&[any(Ipv6Addr::UNSPECIFIED.into()), any(Ipv4Addr::UNSPECIFIED.into())][..])
        .await
}

struct Acceptor {
    router: Router,
    limits: Limits,
    body_timeouts: BodyTimeouts,
    stop: CancellationToken,
    ending: CancellationToken,
    tasks: TaskTracker,
}

impl Acceptor {
    async fn run(self, listener: TcpListener) {
        let permits = Arc::new(Semaphore::new(self.limits.connections_max));

        // Dropping either wait loses nothing: a connection not accepted stays in the queue.
        while let Some(Ok(permit)) =
            self.ending.run_until_cancelled(Arc::clone(&permits).acquire_owned()).await
        {
            match self.ending.run_until_cancelled(listener.accept()).await {
                None => return,
                Some(Ok((stream, _))) => {
                    let connection = self.serve_connection(stream);
                    self.tasks.spawn(async move {
                        connection.await;
                        drop(permit);
                    });
                }
                Some(Err(error)) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_BACKOFF).await;
                }
            }
        }
    }

    /// Serves one connection until it ends, its time is up, or the server is closed.
    fn serve_connection(&self, stream: TcpStream) -> impl Future<Output = ()> + use<> {
        let router = self.router.clone();
        let body_timeouts = self.body_timeouts;
        let progress = Arc::new(BodyProgress::default());
        let body_progress = Arc::clone(&progress);
        let respond = move |request| {
            let progress = Arc::clone(&body_progress);
            Box::pin(respond::respond(router.clone(), request, body_timeouts, progress))
        };

        let mut connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIMEOUT)
            .max_buf_size(HEAD_BYTES_MAX)
            .serve_connection(TokioIo::new(stream), service_fn(respond));

        let ending = self.ending.clone();
        let served = async move {
            let serving = poll_fn(|context| connection.poll_without_shutdown(context));
            if ending.run_until_cancelled(serving).await.is_none() {
                Pin::new(&mut connection).graceful_shutdown();
                let _ = poll_fn(|context| connection.poll_without_shutdown(context)).await;
            }

            if progress.is_unread() {
                let _ = close_gently(connection.into_parts().io.into_inner()).await;
            }
        };

        let stop = self.stop.clone();
        let lifetime = self.limits.lifetime;
        async move {
            // How a client's connection ends concerns nobody: it fails, or its time is up.
            let _ = stop
                .run_until_cancelled(async {
                    match lifetime {
                        Some(lifetime) => drop(tokio::time::timeout(lifetime, served).await),
                        None => served.await,
                    }
                })
                .await;
        }
    }
}

/// Ends a connection whose client may still be sending what nobody wants.
async fn close_gently(mut stream: TcpStream) -> io::Result<()> {
    stream.shutdown().await?;

    let mut unwanted = vec![0; 8 << 10];
    let read = async {
        while stream.read(&mut unwanted).await? > 0 {}
        Ok(())
    };
    tokio::time::timeout(LINGER_TIMEOUT, read).await?
}

#[cfg(test)]
mod tests;
