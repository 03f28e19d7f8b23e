//! A TCP proxy between one process and the broker, whose links can be reset, silenced, delayed and
//! narrowed. It knows no protocol.
//!
//! A silenced link keeps its connections and carries nothing; connections that are made meanwhile
//! are taken and silent as well. Whatever is under way when a link is delayed or narrowed is not
//! lost, and nothing is reordered.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

#[cfg(test)]
mod tests;

/// Bytes that are read at a time.
const CHUNK_BYTES: usize = 16 << 10;
/// Chunks of one direction that wait out their delay: 1 MiB.
const CHUNKS_MAX: usize = 64;
/// How long the broker may take to accept.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause after an error of the listener.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(50);

/// How the links are now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LinkState {
    /// Nothing goes to the broker.
    pub is_silent_up: bool,
    /// Nothing comes from the broker.
    pub is_silent_down: bool,
    /// What each chunk is late, each way.
    pub latency: Duration,
    /// Most bytes a second each way; `None`: any number.
    pub bytes_per_second: Option<u32>,
}

/// A listening proxy. Its port and its connections are closed when it is dropped.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    upstream: SocketAddr,
    link: watch::Sender<LinkState>,
    /// Cancelled to reset what is connected; then there is another.
    reset: watch::Sender<CancellationToken>,
    closed: CancellationToken,
    tasks: TaskTracker,
}

#[derive(Debug, Clone, Copy)]
enum Direction {
    Up,
    Down,
}

impl Proxy {
    /// Listens on a port of its own and connects whoever comes to `upstream`.
    ///
    /// # Errors
    /// When there is no port.
    pub async fn start(upstream: SocketAddr) -> std::io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            upstream,
            link: watch::Sender::new(LinkState::default()),
            reset: watch::Sender::new(CancellationToken::new()),
            closed: CancellationToken::new(),
            tasks: TaskTracker::new(),
        });

        shared.tasks.spawn(accept_connections(listener, Arc::clone(&shared)));
        Ok(Self { address, shared })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Resets every connection, on both sides, as a crash of a router on the way would.
    pub fn reset(&self) {
        self.shared.reset.send_replace(CancellationToken::new()).cancel();
    }

    /// Changes how the links are.
    pub fn set_link(&self, state: LinkState) {
        self.shared.link.send_replace(state);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.closed.cancel();
    }
}

async fn accept_connections(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        // Both arms only wait.
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = shared.closed.cancelled() => return,
        };

        match accepted {
            Ok((client, _)) => {
                let reset = shared.reset.borrow().clone();
                shared.tasks.spawn(serve_connection(client, Arc::clone(&shared), reset));
            }
            Err(_) => tokio::time::sleep(ACCEPT_BACKOFF).await,
        }
    }
}

async fn serve_connection(client: TcpStream, shared: Arc<Shared>, reset: CancellationToken) {
    let connecting = tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(shared.upstream));
    let Ok(Ok(broker)) = connecting.await else {
        reset_at_drop(&client);
        return;
    };
    // Small frames must not wait for others to fill a packet.
    let _ = (client.set_nodelay(true), broker.set_nodelay(true));

    let (from_client, to_client) = client.into_split();
    let (from_broker, to_broker) = broker.into_split();
    let mut up = Pump::new(from_client, to_broker, Direction::Up, &shared);
    let mut down = Pump::new(from_broker, to_client, Direction::Down, &shared);

    // All arms only wait for both sides' end; what is dropped here is reset below.
    let is_reset = tokio::select! {
        _ = async { tokio::join!(up.run(), down.run()) } => false,
        () = reset.cancelled() => true,
        () = shared.closed.cancelled() => true,
    };

    if is_reset {
        for half in [up.to, down.to] {
            reset_at_drop(half.as_ref());
            // Dropped otherwise, it would send an orderly end first.
            half.forget();
        }
    }
}

/// Has the connection end with RST instead of FIN once it is dropped.
fn reset_at_drop(stream: &TcpStream) {
    // Fails where it is reset already.
    let _ = stream.set_zero_linger();
}

/// Carries one direction of a connection.
struct Pump {
    from: OwnedReadHalf,
    to: OwnedWriteHalf,
    direction: Direction,
    link: watch::Receiver<LinkState>,
}

impl Pump {
    fn new(from: OwnedReadHalf, to: OwnedWriteHalf, direction: Direction, shared: &Shared) -> Self {
        Self { from, to, direction, link: shared.link.subscribe() }
    }

    /// Carries until this direction ends, and passes the end on.
    async fn run(&mut self) {
        let (queue, chunks) = mpsc::channel(CHUNKS_MAX);
        let Self { from, to, direction, link } = self;
        let reading = read_chunks(from, queue);
        let writing = write_chunks(to, chunks, LinkWatch { direction: *direction, link });

        tokio::join!(reading, writing);
    }
}

struct Chunk {
    read_at: Instant,
    bytes: Vec<u8>,
}

async fn read_chunks(from: &mut OwnedReadHalf, queue: mpsc::Sender<Chunk>) {
    let mut buffer = vec![0; CHUNK_BYTES];
    loop {
        match from.read(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(length) => {
                let bytes = buffer[..length].to_vec();
                if queue.send(Chunk { read_at: Instant::now(), bytes }).await.is_err() {
                    return;
                }
            }
        }
    }
}

async fn write_chunks(
    to: &mut OwnedWriteHalf,
    mut chunks: mpsc::Receiver<Chunk>,
    mut watch: LinkWatch<'_>,
) {
    while let Some(Chunk { read_at, bytes }) = chunks.recv().await {
        watch.wait_while_silent().await;
        let state = watch.state();
        tokio::time::sleep_until(read_at + state.latency).await;

        if let Some(rate) = state.bytes_per_second {
            let share = bytes.len() as f64 / f64::from(rate.max(1));
            tokio::time::sleep(Duration::from_secs_f64(share)).await;
        }

        // What went silent during the delay stays here.
        watch.wait_while_silent().await;
        if to.write_all(&bytes).await.is_err() {
            return;
        }
    }

    watch.wait_while_silent().await;
    // Fails where the other side is gone.
    let _ = to.shutdown().await;
}

/// The state of the link, as one direction sees it.
struct LinkWatch<'a> {
    direction: Direction,
    link: &'a mut watch::Receiver<LinkState>,
}

impl LinkWatch<'_> {
    fn state(&self) -> LinkState {
        *self.link.borrow()
    }

    async fn wait_while_silent(&mut self) {
        let direction = self.direction;
        let carries = |state: &LinkState| match direction {
            Direction::Up => !state.is_silent_up,
            Direction::Down => !state.is_silent_down,
        };
        // Fails when the proxy is gone, and the connection with it.
        let _ = self.link.wait_for(carries).await;
    }
}
