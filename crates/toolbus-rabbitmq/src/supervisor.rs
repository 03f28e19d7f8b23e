//! Keeps one connection to the broker for as long as the bus is open.
//!
//! The only place that opens connections, notices their end and says how the broker is. What
//! needs the connection looks at [`ConnectionState`] and waits for it to change.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use lapin::{Channel, Event};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::ConnectError;
use crate::backoff::{Backoff, random_below};
use crate::error::reason;
use crate::link::Link;
use crate::publisher::Publisher;
use crate::shared::{ConnectionState, Session, Shared};

/// How often the connection's state is looked at beside the events: the library does not announce
/// every end.
const STATUS_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Which of the broker's nodes is tried next: a random one first, so that a fleet spreads over
/// them, then one after the other.
struct NodeRotation {
    count: usize,
    next: usize,
}

impl NodeRotation {
    fn new(count: usize) -> Self {
        Self { count, next: random_below(count) }
    }

    fn after(node: usize, count: usize) -> Self {
        Self { count, next: (node + 1) % count }
    }

    fn advance(&mut self) -> usize {
        let node = self.next;
        self.next = (node + 1) % self.count;
        node
    }
}

/// A connection on which all is ready.
pub(crate) struct ReadyConnection {
    /// Which of the broker's nodes it leads to.
    node: usize,
    session: Arc<Session>,
    publisher: Publisher,
    channel: Channel,
    drain: CancellationToken,
}

impl ReadyConnection {
    /// Connects to a node, declares the exchanges, and opens the channel for publishing. Each of
    /// connecting and declaring may take as long as `limit`.
    async fn open(shared: &Shared, node: usize, limit: Duration) -> Result<Self, ConnectError> {
        let address = &shared.config.nodes[node];
        let link = Arc::new(Link::open(&shared.config, address, limit).await?);
        let drain = CancellationToken::new();
        let topology = Arc::clone(&shared.topology);
        let metrics = shared.metrics.clone();
        let (publisher, commands) =
            Publisher::new(Arc::clone(&link), topology, metrics, drain.clone());

        let error = match tokio::time::timeout(limit, publisher.open()).await {
            Ok(Ok(channel)) => {
                let session = Arc::new(Session { link, publisher: commands });
                return Ok(Self { node, session, publisher, channel, drain });
            }
            Ok(Err(error)) => ConnectError::of(&error, address),
            Err(_) => ConnectError::TimedOut { address: address.to_string(), limit },
        };

        link.close().await;
        Err(error)
    }
}

/// Tries one node after the other until one succeeds, `limit` is over, or an error is final: that
/// of a node is when all others were final, too.
pub(crate) async fn connect_first(
    shared: &Shared,
    limit: Duration,
) -> Result<ReadyConnection, ConnectError> {
    let deadline = Instant::now() + limit;
    let nodes = &shared.config.nodes;
    // A node that does not answer leaves time for the others.
    let attempt_limit = limit / u32::try_from(nodes.len()).unwrap_or(u32::MAX);
    let attempt_limit = attempt_limit.min(shared.config.connect_within);

    let mut rotation = NodeRotation::new(nodes.len());
    let mut backoff = Backoff::with_rounds_of(nodes.len());
    let mut refusals = 0;
    let address = nodes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let mut last = ConnectError::TimedOut { address, limit };

    // What the last whole attempt said tells more than that time is up.
    while let Ok(attempt) = tokio::time::timeout_at(
        deadline,
        ReadyConnection::open(shared, rotation.advance(), attempt_limit),
    )
    .await
    {
        let error = match attempt {
            Ok(ready) => return Ok(ready),
            Err(error) => error,
        };

        shared.metrics.not_connected();
        refusals = if error.is_final() { refusals + 1 } else { 0 };
        let is_final = refusals >= nodes.len() || (error.is_final() && !error.is_of_one_node());
        // A refusal says more than that another node is down.
        if error.is_final() || !last.is_final() {
            last = error;
        }

        let next = Instant::now() + backoff.next();
        if is_final || next >= deadline {
            break;
        }

        tokio::time::sleep_until(next).await;
    }

    Err(last)
}

/// Serves one connection after the other until the bus hangs up.
pub(crate) async fn supervise(shared: Arc<Shared>, first: Option<ReadyConnection>) {
    let nodes = &shared.config.nodes;
    let mut ready = first;
    let mut rotation = match &ready {
        Some(ready) => NodeRotation::after(ready.node, nodes.len()),
        None => NodeRotation::new(nodes.len()),
    };
    let mut backoff = Backoff::with_rounds_of(nodes.len());

    loop {
        let next = match ready.take() {
            Some(ready) => Some(ready),
            None => reconnect(&shared, &mut rotation, &mut backoff).await,
        };

        let Some(next) = next else { break };
        let began = Instant::now();
        let address = &nodes[next.node];
        let Some(reason) = serve_connection(&shared, next).await else { break };
        tracing::warn!(broker = %address, reason, "lost the connection to the broker");
        shared.metrics.record_lost();
        backoff.note_uptime(began.elapsed());

        if wait_for_next_attempt(&shared, &mut backoff).await.is_none() {
            break;
        }
    }

    shared.state.send_replace(ConnectionState::Down("the bus is closed".into()));
}

/// Tries one node after the other for ever. `None` when the bus hangs up meanwhile.
async fn reconnect(
    shared: &Shared,
    rotation: &mut NodeRotation,
    backoff: &mut Backoff,
) -> Option<ReadyConnection> {
    let mut logged = BTreeMap::new();
    loop {
        let node = rotation.advance();
        let open = ReadyConnection::open(shared, node, shared.config.connect_within);
        // Dropping an attempt is safe: what it has opened is closed as it is dropped.
        let attempt = tokio::select! {
            biased;
            () = shared.hang_up.cancelled() => return None,
            attempt = open => attempt,
        };

        let error = match attempt {
            Ok(ready) => return Some(ready),
            Err(error) => error.with_cause(),
        };

        shared.metrics.not_connected();
        shared.state.send_replace(ConnectionState::Down(error.as_str().into()));

        if logged.get(&node) != Some(&error) {
            tracing::warn!(error, "no connection to the broker; reconnecting");
            logged.insert(node, error);
        }

        wait_for_next_attempt(shared, backoff).await?;
    }
}

/// Waits before the next attempt. `None` when the bus hangs up meanwhile.
async fn wait_for_next_attempt(shared: &Shared, backoff: &mut Backoff) -> Option<()> {
    // Either arm only waits.
    tokio::select! {
        biased;
        () = shared.hang_up.cancelled() => None,
        () = tokio::time::sleep(backoff.next()) => Some(()),
    }
}

/// Lets messages flow until the connection is lost, which gives the reason, or the bus hangs up.
async fn serve_connection(shared: &Shared, ready: ReadyConnection) -> Option<String> {
    let ReadyConnection { node, session, publisher, channel, drain } = ready;
    let link = &session.link;

    let mut events = pin!(link.connection.events_listener());
    let mut publishing = shared.tasks.spawn(publisher.run(channel));

    tracing::info!(broker = %shared.config.nodes[node], "connected to the broker");
    shared.metrics.record_connected();
    shared.state.send_replace(ConnectionState::Up(Arc::clone(&session)));

    let mut status_check = tokio::time::interval(STATUS_CHECK_INTERVAL);
    let lost = loop {
        let mut last_error = None;

        // Every arm only waits, and none loses anything when another ends first.
        tokio::select! {
            event = events.next() => match event {
                Some(Event::ConnectionBlocked(reason)) => {
                    tracing::warn!(reason, "the broker takes no messages");
                    shared.metrics.record_blocked();
                    let blocked = ConnectionState::Blocked(Arc::clone(&session), reason.into());
                    shared.state.send_replace(blocked);
                }
                Some(Event::ConnectionUnblocked) => {
                    tracing::info!("the broker takes messages again");
                    shared.state.send_replace(ConnectionState::Up(Arc::clone(&session)));
                }
                Some(Event::Error(error)) => last_error = Some(reason(&error)),
                _ => {}
            },

            ended = &mut publishing => {
                break Some(match ended {
                    Ok(Err(error)) => reason(&error),
                    _ => "the publisher has ended".to_owned(),
                });
            }

            _ = status_check.tick() => {}
            () = shared.hang_up.cancelled() => break None,
        }

        if !link.is_connected() {
            break Some(last_error.unwrap_or_else(|| "the connection was closed".to_owned()));
        }
    };

    if let Some(reason) = &lost {
        shared.state.send_replace(ConnectionState::Down(reason.as_str().into()));
    } else {
        drain.cancel();
        // Either arm only waits; a publisher that is cut off ends as the link closes.
        tokio::select! {
            _ = &mut publishing => {}
            () = shared.cut.cancelled() => {}
        }
    }

    link.close().await;
    lost
}
