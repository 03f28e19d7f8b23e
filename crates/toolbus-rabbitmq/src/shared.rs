//! What everything on a bus shares: the state of its connection, its limits, and who is in trouble.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::TryFutureExt as _;
use lapin::BasicProperties;
use parking_lot::Mutex;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolbus_bus::metrics::Traffic;
use toolbus_bus::port::{Health, PublishError, Subscription};

use crate::Config;
use crate::frame;
use crate::link::Link;
use crate::metrics::Metrics;
use crate::publisher::{IN_FLIGHT_MAX, Outgoing, PublishCommand, PublishOutcome};
use crate::topology::Topology;

/// Bytes of body that go under one permit of what may be in flight: all permits are 64 MiB.
const BYTES_A_PERMIT: usize = 16 << 10;
pub(crate) const IN_FLIGHT_BYTES_MAX: usize = IN_FLIGHT_MAX * BYTES_A_PERMIT;
/// How long a connection that is cut may take to end, its goodbye included.
const CUT_TIMEOUT: Duration = Duration::from_secs(5);

/// A message for [`Shared::send`].
pub(crate) struct Message {
    pub(crate) exchange: lapin::types::ShortString,
    pub(crate) routing_key: lapin::types::ShortString,
    pub(crate) properties: BasicProperties,
    pub(crate) body: bytes::Bytes,
}

/// How the connection is.
#[derive(Clone)]
pub(crate) enum ConnectionState {
    Down(Arc<str>),
    Up(Arc<Session>),
    /// The broker is there and takes no messages, for this reason.
    Blocked(Arc<Session>, Arc<str>),
}

/// One connection while it lasts, and who publishes on it.
pub(crate) struct Session {
    pub(crate) link: Arc<Link>,
    pub(crate) publisher: mpsc::Sender<PublishCommand>,
}

/// What the bus, its supervisor and its consumers share.
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) topology: Arc<Topology>,
    pub(crate) state: watch::Sender<ConnectionState>,
    /// Cancelled when the bus is closed: nothing new begins.
    pub(crate) closing: CancellationToken,
    /// Parents of what stops each consumer, and of what drops its handlers.
    pub(crate) stop_consumers: CancellationToken,
    pub(crate) expire_consumers: CancellationToken,
    /// Cancelled when the consumers of a closed bus have ended: the connection may go once every
    /// message on it is confirmed.
    pub(crate) hang_up: CancellationToken,
    /// Cancelled when confirms are not waited for any longer.
    pub(crate) cut: CancellationToken,
    pub(crate) consumers: TaskTracker,
    pub(crate) tasks: TaskTracker,
    pub(crate) traffic: Traffic,
    pub(crate) metrics: Metrics,
    in_flight: Arc<Semaphore>,
    /// Subscriptions that have no consumer at the broker, and why.
    interrupted_subscriptions: Mutex<BTreeMap<String, String>>,
}

impl Shared {
    pub(crate) fn new(config: Config) -> Self {
        let down = ConnectionState::Down("not connected yet".into());
        Self {
            topology: Arc::new(Topology::new(&config)),
            config,
            state: watch::Sender::new(down),
            closing: CancellationToken::new(),
            stop_consumers: CancellationToken::new(),
            expire_consumers: CancellationToken::new(),
            hang_up: CancellationToken::new(),
            cut: CancellationToken::new(),
            consumers: TaskTracker::new(),
            tasks: TaskTracker::new(),
            traffic: Traffic::new("rabbitmq"),
            metrics: Metrics::new(),
            in_flight: Arc::new(Semaphore::new(IN_FLIGHT_MAX)),
            interrupted_subscriptions: Mutex::default(),
        }
    }

    pub(crate) fn health(&self) -> Health {
        if self.closing.is_cancelled() {
            return Health::Down { reason: "the bus is closed".to_owned() };
        }

        match &*self.state.borrow() {
            ConnectionState::Down(reason) => return Health::Down { reason: reason.to_string() },
            ConnectionState::Blocked(_, reason) => {
                return Health::Blocked { reason: reason.to_string() };
            }
            ConnectionState::Up(_) => {}
        }

        match self.interrupted_subscriptions.lock().first_key_value() {
            Some((name, reason)) => {
                Health::Down { reason: format!("the subscription {name} is interrupted: {reason}") }
            }
            None => Health::Up,
        }
    }

    /// Ends everything, once what is in flight is confirmed or `grace` is over.
    pub(crate) async fn close(&self, grace: Duration) {
        self.closing.cancel();
        self.stop_consumers.cancel();
        self.expire_consumers.cancel();
        self.consumers.close();
        self.consumers.wait().await;
        self.hang_up.cancel();
        self.tasks.close();

        if tokio::time::timeout(grace, self.tasks.wait()).await.is_err() {
            self.cut.cancel();
            // What is in flight ends as the connection does.
            if tokio::time::timeout(CUT_TIMEOUT, self.tasks.wait()).await.is_err() {
                tracing::error!("the connection to the broker did not end");
            }
        }
    }

    /// Ends everything at once, without waiting for it.
    pub(crate) fn cancel_all(&self) {
        for token in
            [&self.closing, &self.stop_consumers, &self.expire_consumers, &self.hang_up, &self.cut]
        {
            token.cancel();
        }
    }

    /// Notes that a subscription is interrupted, or is not any more.
    pub(crate) fn set_interruption(&self, subscription: &Subscription, reason: Option<String>) {
        let mut interrupted_subscriptions = self.interrupted_subscriptions.lock();
        match reason {
            Some(reason) => {
                interrupted_subscriptions.insert(interruption_key(subscription), reason)
            }
            None => interrupted_subscriptions.remove(&interruption_key(subscription)),
        };
    }

    /// Why a subscription is interrupted.
    pub(crate) fn interruption_of(&self, subscription: &Subscription) -> Option<String> {
        self.interrupted_subscriptions.lock().get(&interruption_key(subscription)).cloned()
    }

    /// Publishes a message and waits for what becomes of it. While the broker is away or blocked it
    /// waits, for as long as the configuration says.
    pub(crate) async fn send(&self, message: Message) -> Result<(), SendError> {
        let by = Instant::now() + self.config.broker_timeout;
        let header_bytes = frame::encoded_bytes(&message.properties);
        let mut outgoing = self.admit(message, by).await?;

        loop {
            let session = self.session(by).await?;
            let frame_max = session.link.frame_bytes_max();

            if header_bytes > frame_max {
                return Err(SendError::Refused(format!(
                    "properties and headers of {header_bytes} bytes, over the limit of {frame_max}"
                )));
            }

            let (outcome, answer) = oneshot::channel();
            let command = PublishCommand { outgoing, outcome };

            if let Err(mpsc::error::SendError(command)) = session.publisher.send(command).await {
                outgoing = command.outgoing;
                self.wait_for_end_of(&session, by).await?;
                continue;
            }

            let answer = tokio::time::timeout(self.config.confirm_within, answer);
            match answer.await {
                Ok(Ok(PublishOutcome::Confirmed)) => return Ok(()),
                Ok(Ok(PublishOutcome::Unroutable)) => return Err(SendError::Unroutable),
                Ok(Ok(PublishOutcome::Refused(reason))) => return Err(SendError::Refused(reason)),
                Ok(Ok(PublishOutcome::NotSent(back))) => outgoing = *back,
                // The task of the publisher has ended without a word.
                Ok(Ok(PublishOutcome::Unconfirmed) | Err(_)) => return Err(SendError::Unconfirmed),
                Err(_) => {
                    self.metrics.record_late();
                    return Err(SendError::Unconfirmed);
                }
            }
        }
    }

    /// The connection, once messages flow on it.
    pub(crate) async fn session(&self, by: Instant) -> Result<Arc<Session>, SendError> {
        if let Some(session) = self.state.borrow().session() {
            return Ok(session);
        }
        let mut state = self.state.subscribe();
        let up = async {
            // The sender is in `self`, so the wait does not fail.
            let state =
                state.wait_for(ConnectionState::is_up).await.map_err(|_| SendError::Closed)?;
            state.session().ok_or(SendError::Closed)
        };
        self.unless_closing(by, up).await
    }

    async fn wait_for_end_of(&self, session: &Arc<Session>, by: Instant) -> Result<(), SendError> {
        let mut state = self.state.subscribe();
        let ended = async {
            let _ = state.wait_for(|state| !state.is_of_session(session)).await;
            Ok(())
        };
        self.unless_closing(by, ended).await
    }

    /// Gives a message its share of what may be in flight.
    async fn admit(&self, message: Message, by: Instant) -> Result<Outgoing, SendError> {
        let Message { exchange, routing_key, properties, body } = message;
        let share = (1 + body.len() / BYTES_A_PERMIT).min(IN_FLIGHT_MAX);
        let share = u32::try_from(share).unwrap_or(u32::MAX);
        let share = match Arc::clone(&self.in_flight).try_acquire_many_owned(share) {
            Ok(share) => share,
            Err(_) => {
                let acquire = Arc::clone(&self.in_flight).acquire_many_owned(share);
                let acquire = acquire.map_err(|_| SendError::Closed);
                self.unless_closing(by, acquire).await?
            }
        };

        Ok(Outgoing { exchange, routing_key, properties, body, share })
    }

    /// Waits, but not beyond `by`, and not on a closed bus.
    pub(crate) async fn unless_closing<T>(
        &self,
        by: Instant,
        wait: impl Future<Output = Result<T, SendError>>,
    ) -> Result<T, SendError> {
        // What waits here waits for others and does no work of its own.
        tokio::select! {
            biased;
            result = wait => result,
            () = self.closing.cancelled() => Err(SendError::Closed),
            () = tokio::time::sleep_until(by) => Err(SendError::Unavailable(self.describe_outage())),
        }
    }

    /// How many subscriptions are interrupted.
    pub(crate) fn count_interrupted(&self) -> usize {
        self.interrupted_subscriptions.lock().len()
    }

    /// Why messages do not flow.
    pub(crate) fn describe_outage(&self) -> String {
        match &*self.state.borrow() {
            ConnectionState::Down(reason) => reason.to_string(),
            ConnectionState::Blocked(_, reason) => {
                format!("the broker takes no messages: {reason}")
            }
            ConnectionState::Up(_) => "the broker takes too long".to_owned(),
        }
    }
}

/// Subscriptions of one name may have several patterns, and each a consumer of its own.
fn interruption_key(subscription: &Subscription) -> String {
    format!("{} to {}", subscription.name, subscription.pattern)
}

impl ConnectionState {
    pub(crate) fn is_up(&self) -> bool {
        matches!(self, Self::Up(_))
    }

    /// The connection on which messages flow.
    pub(crate) fn session(&self) -> Option<Arc<Session>> {
        match self {
            Self::Up(session) => Some(Arc::clone(session)),
            _ => None,
        }
    }

    fn is_of_session(&self, session: &Arc<Session>) -> bool {
        match self {
            Self::Up(own) | Self::Blocked(own, _) => Arc::ptr_eq(own, session),
            Self::Down(_) => false,
        }
    }
}

/// Why a message was not published.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SendError {
    #[error("no queue takes it")]
    Unroutable,
    #[error("the broker refused it: {0}")]
    Refused(String),
    #[error("the broker is not reachable: {0}")]
    Unavailable(String),
    #[error("the broker did not confirm it")]
    Unconfirmed,
    #[error("the bus is closed")]
    Closed,
}

impl SendError {
    pub(crate) fn about(self, topic: &toolbus_wire::Topic) -> PublishError {
        match self {
            Self::Unroutable => PublishError::Unroutable(topic.clone()),
            Self::Refused(reason) => PublishError::Refused(reason),
            Self::Unavailable(reason) => PublishError::Unavailable(reason),
            Self::Unconfirmed => PublishError::Unconfirmed,
            Self::Closed => PublishError::Closed,
        }
    }
}
