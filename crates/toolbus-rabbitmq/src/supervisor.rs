//! Keeps one connection to the broker for as long as the bus is open.
//!
//! The only place that opens connections, notices their end and says how the broker is. What
//! needs the connection looks at [`ConnectionState`] and waits for it to change.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use lapin::{Channel, Event};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::ConnectError;
use crate::backoff::Backoff;
use crate::error::reason;
use crate::link::Link;
use crate::publisher::Publisher;
use crate::shared::{ConnectionState, Session, Shared};

/// How often the connection's state is looked at beside the events: the library does not announce
/// every end.
const STATUS_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// A connection on which all is ready.
pub(crate) struct ReadyConnection {
    session: Arc<Session>,
    publisher: Publisher,
    channel: Channel,
    drain: CancellationToken,
}

impl ReadyConnection {
    /// Connects, declares the exchanges, and opens the channel for publishing.
    pub(crate) async fn open(shared: &Shared) -> Result<Self, ConnectError> {
        let link = Arc::new(Link::open(&shared.config).await?);
        let drain = CancellationToken::new();
        let topology = Arc::clone(&shared.topology);
        let metrics = shared.metrics.clone();
        let (publisher, commands) =
            Publisher::new(Arc::clone(&link), topology, metrics, drain.clone());
        let opened = tokio::time::timeout(shared.config.connect_within, publisher.open()).await;
        let error = match opened {
            Ok(Ok(channel)) => {
                let session = Arc::new(Session { link, publisher: commands });
                return Ok(Self { session, publisher, channel, drain });
            }
            Ok(Err(error)) => ConnectError::of(&error, &shared.config.address),
            Err(_) => ConnectError::TimedOut {
                address: shared.config.address.to_string(),
                limit: shared.config.connect_within,
            },
        };

        link.close().await;
        Err(error)
    }
}

/// Tries until it succeeds, `limit` is over, or an error is final.
pub(crate) async fn connect_first(
    shared: &Shared,
    limit: Duration,
) -> Result<ReadyConnection, ConnectError> {
    let deadline = Instant::now() + limit;
    let mut backoff = Backoff::default();
    let address = shared.config.address.to_string();
    let mut last = ConnectError::TimedOut { address, limit };

    // What the last whole attempt said tells more than that time is up.
    while let Ok(attempt) = tokio::time::timeout_at(deadline, ReadyConnection::open(shared)).await {
        last = match attempt {
            Ok(ready) => return Ok(ready),
            Err(error) => error,
        };

        shared.metrics.not_connected();
        let next = Instant::now() + backoff.next();

        if last.is_final() || next >= deadline {
            break;
        }

        tokio::time::sleep_until(next).await;
    }

    Err(last)
}

/// Serves one connection after the other until the bus hangs up.
pub(crate) async fn supervise(shared: Arc<Shared>, first: Option<ReadyConnection>) {
    let mut ready = first;
    let mut backoff = Backoff::default();

    loop {
        let next = match ready.take() {
            Some(ready) => Some(ready),
            None => reconnect(&shared, &mut backoff).await,
        };

        let Some(next) = next else { break };
        let began = Instant::now();
        let Some(reason) = serve_connection(&shared, next).await else { break };
        tracing::warn!(broker = %shared.config.address, reason, "lost the connection to the broker");
        shared.metrics.record_lost();
        backoff.note_uptime(began.elapsed());

        if wait_for_next_attempt(&shared, &mut backoff).await.is_none() {
            break;
        }
    }

    shared.state.send_replace(ConnectionState::Down("the bus is closed".into()));
}

/// Tries for ever. `None` when the bus hangs up meanwhile.
async fn reconnect(shared: &Shared, backoff: &mut Backoff) -> Option<ReadyConnection> {
    let mut last_logged = String::new();
    loop {
        // Dropping an attempt is safe: what it has opened is closed as it is dropped.
        let attempt = tokio::select! {
            biased;
            () = shared.hang_up.cancelled() => return None,
            attempt = ReadyConnection::open(shared) => attempt,
        };

        let error = match attempt {
            Ok(ready) => return Some(ready),
            Err(error) => error.with_cause(),
        };

        shared.metrics.not_connected();
        shared.state.send_replace(ConnectionState::Down(error.as_str().into()));

        if error != last_logged {
            tracing::warn!(error, "no connection to the broker; reconnecting");
            last_logged = error;
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
    let ReadyConnection { session, publisher, channel, drain } = ready;
    let link = &session.link;

    let mut events = pin!(link.connection.events_listener());
    let mut publishing = shared.tasks.spawn(publisher.run(channel));

    tracing::info!(broker = %shared.config.address, "connected to the broker");
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
