//! A small HTTP/1 server that cannot be used to hurt its process: connections are bounded in
//! number, request heads in size and time, request bodies and a client's silence while it is
//! answered in time, and all of it ends when the server is closed. Where there is no room for a new
//! connection, the one that has waited longest for a request is closed.
//!
//! What is served, and how large a body may be, is the router's affair. A request that is answered
//! before all of it was read is the last one of its connection. Where a request comes from is among
//! its extensions, as a [`SocketAddr`].

mod clocked_stream;
mod guarded_body;
mod places;
mod request_body;
mod respond;
pub mod visitors;
mod waiting;

use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::Extensions;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use toolbus_config::ListenAddress;

use clocked_stream::ClockedStream;
pub use places::with_places;
use request_body::BodyProgress;
use waiting::{Connection, WaitingConnections};

/// What the header `server` of every answer is: by it `doctor` tells a port of ours.
pub(crate) const SERVER_NAME: &str = "toolbus";
/// Largest request head, in bytes.
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// How long accepting pauses after it failed, which it does for want of file handles.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(500);
/// How often a connection that waits is looked for, to make room for a new one.
const ROOM_INTERVAL: Duration = Duration::from_millis(50);
/// What a client is told that did not send a whole head in time.
const HEAD_TIMED_OUT: &[u8] =
    b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
/// How long what a client still sends of a request is read after its answer. The system would
/// otherwise tell the client that the connection broke, which can overtake the answer.
const LINGER_TIMEOUT: Duration = Duration::from_secs(1);

/// How long a server waits for its clients.
#[derive(Debug, Clone, Copy)]
pub struct Timeouts {
    /// For the whole head of a request, from the end of the one before.
    pub head: Duration,
    /// For the next part of a body that is being read.
    pub body_idle: Duration,
    /// For a whole body.
    pub body_total: Duration,
    /// For a client to take a part of its answer.
    pub write: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            head: Duration::from_secs(5),
            body_idle: Duration::from_secs(10),
            body_total: Duration::from_secs(60),
            write: Duration::from_secs(30),
        }
    }
}

/// What holds for the connections of one server.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Most connections at once. One more makes the connection close that has waited longest for a
    /// request; where all are busy it waits, and the next ones do in the system's queue.
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
    serve_within(address, router, limits, Timeouts::default()).await
}

/// Checks that the port can be opened, for a program that opens it only after it has started what
/// is served there. The port is closed again: clients are refused until it can answer them.
///
/// # Errors
/// As [`serve`].
pub async fn check_port(address: &ListenAddress) -> io::Result<()> {
    bind_listener(address).await.map(drop)
}

/// As [`serve`], with other clocks.
///
/// # Errors
/// Those of [`serve`].
pub async fn serve_within(
    address: &ListenAddress,
    router: Router,
    limits: Limits,
    timeouts: Timeouts,
) -> io::Result<Server> {
    let listener = bind_listener(address).await?;
    let stop = CancellationToken::new();
    let ending = stop.child_token();
    let tasks = TaskTracker::new();
    let server = Server { address: listener.local_addr()?, stop, ending, tasks };

    let acceptor = Acceptor {
        router,
        limits,
        timeouts,
        waiting: WaitingConnections::default(),
        stop: server.stop.clone(),
        ending: server.ending.clone(),
        tasks: server.tasks.clone(),
    };
    server.tasks.spawn(acceptor.run(listener));
    server.tasks.close();

    Ok(server)
}

/// Whether a request with these extensions comes from this machine. One of another server, which
/// does not say where it comes from, is taken for one from elsewhere.
#[must_use]
pub fn is_from_here(extensions: &Extensions) -> bool {
    let peer = extensions.get::<SocketAddr>();
    // A port for both families writes addresses of the older one as ones of the newer.
    peer.is_some_and(|peer| peer.ip().to_canonical().is_loopback())
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
    timeouts: Timeouts,
    waiting: WaitingConnections,
    stop: CancellationToken,
    ending: CancellationToken,
    tasks: TaskTracker,
}

impl Acceptor {
    async fn run(self, listener: TcpListener) {
        let permits = Arc::new(Semaphore::new(self.limits.connections_max));

        // Dropping either wait loses nothing that was begun.
        while let Some(accepted) = self.ending.run_until_cancelled(listener.accept()).await {
            match accepted {
                Ok((stream, peer)) => {
                    let room = self.find_room(&permits);
                    let Some(Some(permit)) = self.ending.run_until_cancelled(room).await else {
                        return;
                    };
                    let connection = self.serve_connection(stream, peer);
                    self.tasks.spawn(async move {
                        connection.await;
                        drop(permit);
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    let pause = tokio::time::sleep(ACCEPT_BACKOFF);
                    if self.ending.run_until_cancelled(pause).await.is_none() {
                        return;
                    }
                }
            }
        }
    }

    /// Waits until there is room for one more connection, and makes some where others only wait.
    async fn find_room(&self, permits: &Arc<Semaphore>) -> Option<OwnedSemaphorePermit> {
        if let Ok(permit) = Arc::clone(permits).try_acquire_owned() {
            return Some(permit);
        }
        loop {
            self.waiting.evict_longest();
            let acquire = Arc::clone(permits).acquire_owned();
            if let Ok(permit) = tokio::time::timeout(ROOM_INTERVAL, acquire).await {
                return permit.ok();
            }
        }
    }

    /// Serves one connection until it ends, its time is up, or the server is closed.
    fn serve_connection(
        &self,
        stream: TcpStream,
        peer: SocketAddr,
    ) -> impl Future<Output = ()> + use<> {
        let timeouts = self.timeouts;
        let shared = Arc::new(Connection::default());
        let place = self.waiting.join(Arc::clone(&shared));
        let progress = Arc::new(BodyProgress::default());
        let answering = respond::Answering {
            router: self.router.clone(),
            peer,
            timeouts,
            progress: Arc::clone(&progress),
            place,
        };
        let stream = ClockedStream::new(stream, timeouts.write, Arc::clone(&shared));

        let mut connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(timeouts.head)
            .max_buf_size(HEAD_BYTES_MAX)
            .serve_connection(
                TokioIo::new(stream),
                service_fn(move |request| Box::pin(answering.clone().respond(request))),
            );

        let ending = self.ending.clone();
        let served = async move {
            let serving = poll_fn(|context| connection.poll_without_shutdown(context));
            // Every arm only waits: what was begun of a request goes on or is given up as a whole.
            let ended = tokio::select! {
                ended = serving => Some(is_timeout(ended)),
                () = shared.evicted.cancelled() => Some(true),
                () = ending.cancelled() => None,
            };
            let is_head_late = match ended {
                Some(is_late) => is_late,
                None => {
                    Pin::new(&mut connection).graceful_shutdown();
                    let ended = poll_fn(|context| connection.poll_without_shutdown(context)).await;
                    is_timeout(ended)
                }
            };

            let parts = connection.into_parts();
            let mut stream = parts.io.into_inner().into_inner();
            if is_head_late && !parts.read_buf.is_empty() {
                let answer = stream.write_all(HEAD_TIMED_OUT);
                let _ = tokio::time::timeout(LINGER_TIMEOUT, answer).await;
                let _ = close_gently(stream).await;
            } else if progress.is_unread() {
                let _ = close_gently(stream).await;
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

/// Whether a connection ended because the head of a request did not come in time.
fn is_timeout(ended: Result<(), hyper::Error>) -> bool {
    ended.is_err_and(|error| error.is_timeout())
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
