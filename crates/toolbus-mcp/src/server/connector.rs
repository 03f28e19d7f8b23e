//! Keeps one server connected: the one task that connects it, lists its tools, notices when it is
//! lost, and retries with a growing backoff.
//!
//! The connector owns the connection's phase. At most one connection is open for new calls, and
//! calls of a server that stays away are refused at once: see [`phase`].

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::catalogue_cache::ToolCatalogueCache;
use super::{ServerOrigin, ServerState};
use crate::change_pace::ChangePace;
use crate::config::Entry;
use crate::connection::{
    CallFailure, Connection, Handshake, ServerAccess, StartAttempt, StartWatch, resolve_target,
};
use crate::failure::Failure;
use crate::ownership::Ownership;
use crate::server_pool::PoolContext;

mod phase;

use phase::{ConnectionPhase, FailedAttempt};

/// How soon a server that was lost is retried.
const RETRY_BACKOFF: Duration = Duration::from_secs(1);
/// How long a failed attempt waits for a stop that it may be due to.
const STOP_NOTICE_GRACE: Duration = Duration::from_millis(10);
/// The longest pause between two attempts. A connection that lasted longer resets the backoff.
const RETRY_BACKOFF_MAX: Duration = Duration::from_secs(60);
/// How long after a failed attempt a call that needs the server has the next one made.
const ON_DEMAND_BACKOFF: Duration = Duration::from_secs(1);
/// How long changes that a server reports one after the other are collected before it is listed.
const LIST_CHANGE_GRACE: Duration = Duration::from_millis(50);
/// The pause between the first listings of a server that goes on changing; later ones are longer.
const LIST_CHANGE_BACKOFF: Duration = Duration::from_millis(500);
/// How old a listing is at least when agents have the server list again.
const REFRESH_INTERVAL: Duration = Duration::from_secs(30);

/// Connects one server, and hands its connection out to calls.
pub(crate) struct ServerConnector {
    entry: Arc<Entry>,
    context: Arc<PoolContext>,
    access: ServerAccess,
    ownership: Ownership,
    stop: CancellationToken,
    phase: watch::Sender<ConnectionPhase>,
    /// The number of the attempt that a call wants made without waiting for its time.
    requested_attempt: watch::Sender<u64>,
    /// Notified when agents want the server to list again. However many do, and however often, one
    /// of them is remembered.
    refresh_requested: Notify,
    change_pace: Mutex<ChangePace>,
    /// The handshake that worked last time.
    handshake: Mutex<Handshake>,
    /// Why the server is away, as agents are told. One that comes back at the next attempt was
    /// never away.
    unavailable: RwLock<Option<Arc<str>>>,
}

/// An attempt that a waiting call may request, and when the one before it failed.
#[derive(Clone, Copy)]
struct NextAttempt {
    number: u64,
    failed_at: Instant,
}

impl ServerConnector {
    pub(super) fn new(
        entry: Arc<Entry>,
        origin: ServerOrigin,
        context: Arc<PoolContext>,
        ownership: Ownership,
        stop: CancellationToken,
    ) -> Self {
        Self {
            access: ServerAccess::new(&entry, origin, &context.deps),
            entry,
            context,
            ownership,
            stop,
            phase: watch::Sender::new(ConnectionPhase::Configured),
            requested_attempt: watch::Sender::new(0),
            refresh_requested: Notify::new(),
            change_pace: Mutex::new(ChangePace::new(LIST_CHANGE_BACKOFF)),
            handshake: Mutex::new(Handshake::Discover),
            unavailable: RwLock::default(),
        }
    }

    /// The state of the connection, for people.
    pub(super) fn state(&self, tool_count: usize) -> ServerState {
        self.phase.borrow().state(tool_count)
    }

    /// Why the server is away, if it is.
    pub(crate) fn unavailable_reason(&self) -> Option<Arc<str>> {
        self.unavailable.read().clone()
    }

    /// Since when it is being connected for the first time, if it is.
    pub(super) fn connecting_since(&self) -> Option<Instant> {
        self.phase.borrow().connecting_since()
    }

    /// Remembers that the server is away, or back, and announces it if that is new.
    fn set_unavailable(&self, failure: Option<&Failure>) {
        let reason = failure.map(|failure| Arc::from(failure.to_string()));

        let mut unavailable = self.unavailable.write();
        if *unavailable != reason {
            *unavailable = reason;
            drop(unavailable);
            self.context.announce();
        }
    }

    /// Waits until the first attempt has ended, one way or the other.
    pub(super) async fn wait_first_attempt(&self) -> Result<(), Failure> {
        let mut phase = self.phase.subscribe();
        let has_ended = |phase: &ConnectionPhase| {
            !matches!(
                phase,
                ConnectionPhase::Configured
                    | ConnectionPhase::Standby
                    | ConnectionPhase::Starting(_, None)
            )
        };

        match phase.wait_for(has_ended).await.as_deref() {
            Ok(ConnectionPhase::Starting(_, Some(failed)) | ConnectionPhase::Failed(failed)) => {
                Err(failed.failure.clone())
            }
            Ok(ConnectionPhase::Stopped) | Err(_) => Err(Failure::new("it was closed")),
            Ok(_) => Ok(()),
        }
    }

    /// Waits until [`ServerConnector::run`] has ended and closed the connection.
    pub(super) async fn wait_stopped(&self) {
        let is_stopped = |phase: &ConnectionPhase| matches!(phase, ConnectionPhase::Stopped);
        // An error means that the task is gone already.
        let _ = self.phase.subscribe().wait_for(is_stopped).await;
    }

    /// A connection that is open for new calls: the one there is, or the one that an attempt under
    /// way or a new one gives. Refused at once while the circuit is open.
    pub(super) async fn acquire(
        &self,
        cancelled: &CancellationToken,
        until: Instant,
    ) -> Result<Arc<Connection>, CallFailure> {
        let mut phase = self.phase.subscribe();
        // The last attempt that is not to be this call's answer: it was over before this call.
        let mut attempt_before = None;
        let mut has_requested = false;

        loop {
            let mut next = None;
            let now = phase.borrow_and_update().clone();
            if let Some((failure, retry_after)) = now.open_circuit() {
                return Err(CallFailure::Unavailable { failure: failure.clone(), retry_after });
            }

            match &now {
                ConnectionPhase::Connected(connection, _) if !connection.is_over() => {
                    return Ok(Arc::clone(connection));
                }
                ConnectionPhase::Failed(failed) => {
                    if *attempt_before.get_or_insert(failed.attempt) != failed.attempt {
                        return Err(CallFailure::NotSent(failed.failure.clone()));
                    }
                    let attempt = NextAttempt { number: failed.attempt + 1, failed_at: failed.at };
                    next = Some(attempt).filter(|_| !has_requested);
                }
                ConnectionPhase::Disabled => {
                    return Err(CallFailure::NotSent(Failure::disabled()));
                }
                ConnectionPhase::Stopped => return Err(CallFailure::closed()),
                // The outcome of an attempt that is being made is this call's answer.
                ConnectionPhase::Starting(..)
                | ConnectionPhase::Standby
                | ConnectionPhase::Configured => {
                    attempt_before.get_or_insert(0);
                }
                // A connection that is over: the connector is about to see that.
                ConnectionPhase::Connected(..) => {}
            }

            // Every arm only waits, and the phase is looked at again after each.
            tokio::select! {
                changed = phase.changed() => {
                    if changed.is_err() {
                        return Err(CallFailure::closed());
                    }
                }
                attempt = wait_on_demand_backoff(next) => {
                    self.requested_attempt.send_replace(attempt);
                    has_requested = true;
                }
                () = cancelled.cancelled() => return Err(CallFailure::CancelledUnsent),
                () = sleep_until(until) => return Err(CallFailure::TimedOutUnsent),
            }
        }
    }

    /// Has the server list again before long, or be tried if it is away. Costs nothing where that
    /// is about to happen.
    pub(super) fn request_refresh(&self) {
        let attempt = match &*self.phase.borrow() {
            ConnectionPhase::Connected(..) => {
                self.refresh_requested.notify_one();
                return;
            }
            ConnectionPhase::Failed(failed)
                if !failed.is_circuit_open() && failed.at.elapsed() >= ON_DEMAND_BACKOFF =>
            {
                failed.attempt + 1
            }
            _ => return,
        };
        self.requested_attempt.send_replace(attempt);
    }

    /// Keeps the server connected until it is stopped, for as long as it is this bridge's.
    /// `is_announced` says whether agents know of the server.
    pub(super) async fn run(&self, cache: &ToolCatalogueCache, is_announced: impl Fn() -> bool) {
        if self.entry.is_disabled() {
            self.phase.send_replace(ConnectionPhase::Disabled);
            self.stop.cancelled().await;
            self.phase.send_replace(ConnectionPhase::Stopped);
            return;
        }

        // Until it has listed its tools, it has the names that it had last.
        cache.claim_pinned_names().await;

        let mut attempts = 1..;
        while let Some(term) = self.wait_term().await {
            self.keep_connected(cache, &is_announced, &term, &mut attempts).await;
            if self.stop.is_cancelled() {
                break;
            }

            tracing::info!(server = %self.entry.name, "another bridge has the MCP server now");
            self.end_connection(ConnectionPhase::Standby, "another bridge has it").await;
            self.set_unavailable(None);
        }

        self.end_connection(ConnectionPhase::Stopped, "it was closed").await;
        self.context.announce();
    }

    /// Waits until the server is this bridge's; `None` when it is stopped.
    async fn wait_term(&self) -> Option<CancellationToken> {
        if !self.ownership.is_owned() {
            self.change_phase(ConnectionPhase::Standby);
        }
        self.stop.run_until_cancelled(self.ownership.wait_term()).await
    }

    /// Enters a phase without a connection, and closes the one there was.
    async fn end_connection(&self, phase: ConnectionPhase, why: &'static str) {
        let last = self.change_phase(phase);
        if let ConnectionPhase::Connected(connection, _) = last {
            connection.close(&Failure::new(why)).await;
        }
    }

    /// Keeps the server connected until it is stopped or the term is over.
    async fn keep_connected(
        &self,
        cache: &ToolCatalogueCache,
        is_announced: &impl Fn() -> bool,
        term: &CancellationToken,
        attempts: &mut impl Iterator<Item = u64>,
    ) {
        let mut failed_in_a_row = 0;
        let mut failed_since_connected = 0;
        let mut failed_before = None;

        for attempt in attempts {
            let limit = self.entry.startup_limit(self.context.options.connect_timeout);
            let watch = Arc::new(StartWatch::begin(limit));
            let starting = ConnectionPhase::Starting(Arc::clone(&watch), failed_before.take());
            self.change_phase(starting);

            let began = Instant::now();
            // Boxed: it is large, and lasts as long as the connection.
            let following = Box::pin(self.connect_and_follow(cache, &watch));
            let Some(failure) = self.within(term, following).await else { return };

            if began.elapsed() > RETRY_BACKOFF_MAX {
                failed_in_a_row = 0;
            }
            failed_in_a_row += 1;
            let was_connected = self.was_connected();
            let has_lost_session = self.has_lost_session();
            failed_since_connected = if was_connected { 1 } else { failed_since_connected + 1 };
            self.log_failure(&failure, failed_in_a_row);
            // A server that was connected may be back at once: only a second failure is announced.
            if is_announced() && !was_connected {
                self.set_unavailable(Some(&failure));
            }

            // The server is there: the call that found it out need not wait. Not again and again.
            let is_at_once = has_lost_session && failed_in_a_row == 1;
            let backoff = if is_at_once { Duration::ZERO } else { retry_backoff(failed_in_a_row) };
            let now = Instant::now();
            let failed = Arc::new(FailedAttempt {
                failure,
                attempt,
                failed_in_a_row,
                failed_since_connected,
                at: now,
                next_at: now + backoff,
            });
            self.change_phase(ConnectionPhase::Failed(Arc::clone(&failed)));
            let next_at = failed.next_at;
            failed_before = Some(failed);

            let mut requested = self.requested_attempt.subscribe();
            let pause = async {
                tokio::select! {
                    () = sleep_until(next_at) => {}
                    _ = requested.wait_for(|requested| *requested > attempt) => {}
                }
            };
            if self.within(term, pause).await.is_none() {
                return;
            }
        }
    }

    /// The output of some work, unless the server is stopped or the term is over before.
    async fn within<T>(
        &self,
        term: &CancellationToken,
        work: impl Future<Output = T>,
    ) -> Option<T> {
        self.stop.run_until_cancelled(term.run_until_cancelled(work)).await.flatten()
    }

    /// Enters a phase, and records it when that opens or closes the circuit. Returns the last one.
    fn change_phase(&self, phase: ConnectionPhase) -> ConnectionPhase {
        let is_open = phase.open_circuit().is_some();
        let last = self.phase.send_replace(phase);
        let was_open = last.open_circuit().is_some();

        let server = &self.entry.name;
        if is_open != was_open {
            self.context.deps.metrics.count_circuit_change(server, is_open);
        }
        if is_open && !was_open {
            tracing::warn!(%server, "refusing calls of MCP server until it can be connected");
        }
        last
    }

    fn was_connected(&self) -> bool {
        matches!(*self.phase.borrow(), ConnectionPhase::Connected(..))
    }

    /// Whether the connection is over because the server has forgotten its session.
    fn has_lost_session(&self) -> bool {
        matches!(&*self.phase.borrow(), ConnectionPhase::Connected(connection, _)
            if connection.has_lost_session())
    }

    /// Connects, and returns when the connection is lost. Dropped, it leaves an open connection in
    /// `phase` for its caller to close.
    async fn connect_and_follow(&self, cache: &ToolCatalogueCache, watch: &StartWatch) -> Failure {
        let metrics = &self.context.deps.metrics;
        let connection = match self.connect(cache, watch).await {
            Ok(connection) => Arc::new(connection),
            Err(failure) => {
                // A stop cuts requests off a moment before it is seen here, for the children of a
                // token are cancelled before it. It ends this wait, and nothing has failed.
                sleep(STOP_NOTICE_GRACE).await;
                metrics.count_failed_connect(&self.entry.name);
                return failure;
            }
        };

        metrics.count_connect(&self.entry.name);
        self.set_unavailable(None);
        tracing::info!(
            server = %self.entry.name,
            protocol = connection.identity.protocol,
            tools = cache.tool_count(),
            "connected"
        );
        self.change_phase(ConnectionPhase::Connected(Arc::clone(&connection), Instant::now()));

        // A listing that is dropped half-way has changed nothing.
        let (why, is_hung) = tokio::select! {
            () = connection.wait_over() => (connection.why_over().await, false),
            why = connection.wait_hung() => (why, true),
            never = self.follow_changes(&connection, cache) => match never {},
            never = connection.subscribe_to_list_changes() => match never {},
        };
        connection.record_lost();
        if is_hung {
            metrics.count_hung(&self.entry.name);
            self.set_unavailable(Some(&why));
            // Before the next attempt: the old program may hold what the new one needs.
            connection.close(&why).await;
        }
        why
    }

    /// Opens a connection and lists the server's tools, within the time that its start may take.
    async fn connect(
        &self,
        cache: &ToolCatalogueCache,
        watch: &StartWatch,
    ) -> Result<Connection, Failure> {
        let connecting = timeout(watch.limit(), async {
            let connection = self.open_connection(watch).await?;
            watch.set_listing();
            cache.refresh(&connection).await?;
            Ok(connection)
        });

        connecting.await.unwrap_or_else(|_| {
            let last_words = watch.progress().last_words;
            Err(Failure::timeout(watch.limit()).of_child(None, last_words))
        })
    }

    /// Opens a connection in the way that worked last time, else in those that may work after the
    /// failure of the one before.
    async fn open_connection(&self, watch: &StartWatch) -> Result<Connection, Failure> {
        let target = resolve_target(&self.entry, &self.access, &self.context.deps).await?;
        let mut handshake = *self.handshake.lock();
        let mut failure_before: Option<Failure> = None;

        loop {
            let attempt = StartAttempt { target: &target, handshake, watch };
            let failure = match self.try_handshake(attempt).await {
                Ok(connection) => {
                    *self.handshake.lock() = handshake;
                    return Ok(connection);
                }
                Err(failure) => failure,
            };

            if let Some(next) = self.next_handshake(handshake, &failure) {
                tracing::debug!(
                    server = %self.entry.name, %failure, handshake = next.as_str(),
                    "retrying with another handshake"
                );
                handshake = next;
                failure_before = Some(failure);
                continue;
            }

            if failure.may_be_of_the_handshake {
                // The server may be another one by now.
                *self.handshake.lock() = Handshake::Discover;
            }
            return Err(match failure_before {
                Some(newer) if failure.may_be_of_the_handshake && handshake.is_older_http() => {
                    Failure::of_both_transports(&newer, &failure)
                }
                _ => failure,
            });
        }
    }

    /// The handshake that is tried after another has failed.
    fn next_handshake(&self, failed: Handshake, failure: &Failure) -> Option<Handshake> {
        let may_be_older_http = failure.may_be_older_http && self.entry.falls_back();
        match failed {
            Handshake::Discover | Handshake::Initialize if may_be_older_http => {
                Some(Handshake::OlderHttp)
            }
            Handshake::Discover if failure.may_be_of_the_handshake => Some(Handshake::Initialize),
            _ => None,
        }
    }

    async fn try_handshake(&self, attempt: StartAttempt<'_>) -> Result<Connection, Failure> {
        let cut = self.stop.child_token();
        Connection::open(&self.entry, &self.access, &self.context.deps, attempt, cut).await
    }

    /// Lists again when the server reports a change, an operator accepts one, or agents want it.
    async fn follow_changes(
        &self,
        connection: &Connection,
        cache: &ToolCatalogueCache,
    ) -> Infallible {
        loop {
            self.wait_listing_due(connection, cache).await;

            let limit = self.context.options.connect_timeout;
            let listed = timeout(limit, cache.refresh(connection)).await;
            if let Err(failure) = listed.unwrap_or(Err(Failure::timeout(limit))) {
                tracing::warn!(
                    server = %self.entry.name, %failure, "listing changed tools failed"
                );
            }
        }
    }

    /// Waits until the server has to list again. Changes that go on have it list less and less
    /// often; what agents want waits until the last listing is old enough.
    async fn wait_listing_due(&self, connection: &Connection, cache: &ToolCatalogueCache) {
        let mut change_due = None;
        let mut refresh_due = None;

        loop {
            let due = change_due.into_iter().chain(refresh_due).min();
            // Every arm only waits.
            tokio::select! {
                biased;
                () = sleep_until_some(due) => break,
                () = wait_changed(connection, cache), if change_due.is_none() => {
                    let now = Instant::now();
                    let due = self.change_pace.lock().due(now);
                    change_due = Some(due.max(now + LIST_CHANGE_GRACE));
                }
                () = self.refresh_requested.notified(), if refresh_due.is_none() => {
                    let listed_from = cache.listed_from().unwrap_or_else(Instant::now);
                    refresh_due = Some(listed_from + REFRESH_INTERVAL);
                }
            }
        }

        if change_due.is_some() {
            self.change_pace.lock().record(Instant::now());
        }
    }

    /// Logs a failed attempt: only the first in a row is a warning.
    fn log_failure(&self, failure: &Failure, failed_in_a_row: u32) {
        let server = &self.entry.name;
        let last_words = failure.last_words();
        if failed_in_a_row == 1 {
            tracing::warn!(%server, %failure, last_words, "MCP server is not connected");
        } else {
            tracing::debug!(
                %server, %failure, last_words, failed_in_a_row, "MCP server is still not connected"
            );
        }
    }
}

/// Waits until the server reports a change, or an operator accepts one.
async fn wait_changed(connection: &Connection, cache: &ToolCatalogueCache) {
    tokio::select! {
        () = connection.wait_tools_changed() => {}
        () = connection.wait_offer_changed() => {}
        () = cache.wait_for_pins_edit() => {}
    }
}

/// Waits until this moment; for ever without one.
async fn sleep_until_some(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

/// Waits until this attempt may be made on demand, and returns its number; for ever without one.
async fn wait_on_demand_backoff(next: Option<NextAttempt>) -> u64 {
    let Some(NextAttempt { number, failed_at }) = next else {
        return std::future::pending().await;
    };
    sleep_until(failed_at + ON_DEMAND_BACKOFF).await;
    number
}

/// How long after this many failures in a row the next attempt is made.
fn retry_backoff(failed_in_a_row: u32) -> Duration {
    let doubled = 2_u32.saturating_pow(failed_in_a_row.saturating_sub(1));
    RETRY_BACKOFF.saturating_mul(doubled).min(RETRY_BACKOFF_MAX)
}

#[cfg(test)]
mod tests;
