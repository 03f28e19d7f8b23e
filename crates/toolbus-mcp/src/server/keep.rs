//! The keeper: the one task that connects a server, lists its tools, notices when it is lost, and
//! tries again, each time later than before.

use std::convert::Infallible;
use std::sync::atomic::Ordering;

use super::*;

/// How soon a server that was lost is tried again.
const RETRY_PAUSE_MIN: Duration = Duration::from_secs(1);
/// The longest pause between two attempts. A connection that held longer starts the pauses anew.
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(60);
/// How long after a change of its tools a server is left to finish changing them.
const TOOLS_CHANGED_PAUSE: Duration = Duration::from_millis(500);

impl Server {
    /// Keeps the server connected until it is stopped.
    pub(crate) async fn keep(self: Arc<Self>) {
        // Until it has listed its tools, it has the names that it had last.
        let known = self.shared.trust.known_claims(&self.entry).await;
        if self.listed().is_none() {
            self.shared.claims.set(self.position, known);
        }
        let mut failed_in_a_row = 0;
        for attempt in 1.. {
            self.phase.send_replace(Phase::Connecting);
            let began = Instant::now();
            let Some(failure) = self.stop.run_until_cancelled(self.attempt()).await else { break };
            if began.elapsed() > RETRY_PAUSE_MAX {
                failed_in_a_row = 0;
            }
            failed_in_a_row += 1;
            self.log(&failure, failed_in_a_row);
            if self.is_told_away() {
                self.set_away(Some(&failure));
            }
            let now = Instant::now();
            let next_at = now + retry_pause(failed_in_a_row);
            let failed = FailedAttempt { failure, attempt, failed_in_a_row, at: now, next_at };
            self.phase.send_replace(Phase::Failed(Arc::new(failed)));
            let mut wanted = self.wanted_attempt.subscribe();
            tokio::select! {
                () = sleep_until(next_at) => {}
                _ = wanted.wait_for(|wanted| *wanted > attempt) => {}
                () = self.stop.cancelled() => break,
            }
        }
        let last = self.phase.send_replace(Phase::Stopped);
        if let Phase::Connected(connection, _) = last {
            connection.close().await;
        }
        self.shared.announce();
    }

    /// Connects, and stays until the connection is lost. Dropped, it leaves an open connection in
    /// `phase` for its caller to close.
    async fn attempt(&self) -> Failure {
        let connection = match self.connect().await {
            Ok(connection) => Arc::new(connection),
            Err(failure) => {
                self.shared.means.metrics.not_connected(&self.entry.name);
                return failure;
            }
        };
        self.shared.means.metrics.connected(&self.entry.name);
        self.set_away(None);
        tracing::info!(
            server = %self.entry.name,
            protocol = connection.identity.protocol,
            tools = self.listed().map_or(0, |listed| listed.catalogue.len()),
            "connected"
        );
        self.phase.send_replace(Phase::Connected(Arc::clone(&connection), Instant::now()));
        // A listing that is dropped half-way has changed nothing.
        let why = tokio::select! {
            () = connection.over() => connection.why_over().await,
            never = self.follow_tools(&connection) => match never {},
            never = connection.hear_of_tools() => match never {},
        };
        connection.mark_lost();
        why
    }

    async fn connect(&self) -> Result<Connection, Failure> {
        let limit = self.shared.options.connect_timeout;
        let connected = timeout(limit, async {
            let connection = self.open().await?;
            self.list(&connection).await?;
            Ok(connection)
        });
        connected.await.unwrap_or(Err(Failure::timeout(limit)))
    }

    /// Opens a connection in the way that worked last time, else in those that may work after the
    /// failure of the one before.
    async fn open(&self) -> Result<Connection, Failure> {
        let mut handshake = *self.handshake.lock();
        let mut before: Option<Failure> = None;
        loop {
            let failure = match self.shake(handshake).await {
                Ok(connection) => {
                    *self.handshake.lock() = handshake;
                    return Ok(connection);
                }
                Err(failure) => failure,
            };
            if let Some(next) = self.after(handshake, &failure) {
                tracing::debug!(server = %self.entry.name, %failure, ?next, "tried in another way");
                (handshake, before) = (next, Some(failure));
                continue;
            }
            if failure.may_be_of_the_handshake {
                // The server may be another one by now.
                *self.handshake.lock() = Handshake::Discover;
            }
            return Err(match before {
                Some(newer) if failure.may_be_of_the_handshake && handshake.is_older_http() => {
                    Failure::of_both_transports(&newer, &failure)
                }
                _ => failure,
            });
        }
    }

    /// The way that is tried after another has failed.
    fn after(&self, failed: Handshake, failure: &Failure) -> Option<Handshake> {
        let may_be_older_http = failure.may_be_older_http && self.entry.falls_back();
        match failed {
            Handshake::Discover | Handshake::Initialize if may_be_older_http => {
                Some(Handshake::OlderHttp)
            }
            Handshake::Discover if failure.may_be_of_the_handshake => Some(Handshake::Initialize),
            _ => None,
        }
    }

    async fn shake(&self, handshake: Handshake) -> Result<Connection, Failure> {
        let cut = self.stop.child_token();
        let means = &self.shared.means;
        Connection::open(&self.entry, &self.reach, means, handshake, cut).await
    }

    async fn follow_tools(&self, connection: &Connection) -> Infallible {
        loop {
            let stamp = *self.listing.lock().await;
            let stamp = stamp.filter(|_| self.holds_back());
            tokio::select! {
                () = connection.tools_changed() => {}
                () = connection.offer_changed() => {}
                () = self.shared.trust.wait_until_edited(&self.entry, stamp) => {}
            }
            self.list_again(connection).await;
        }
    }

    async fn list_again(&self, connection: &Connection) {
        sleep(TOOLS_CHANGED_PAUSE).await;
        let limit = self.shared.options.connect_timeout;
        let listed = timeout(limit, self.list(connection)).await;
        if let Err(failure) = listed.unwrap_or(Err(Failure::timeout(limit))) {
            tracing::warn!(server = %self.entry.name, %failure, "its changed tools are not known");
        }
    }

    /// Whether agents are told that an attempt has failed. A server that was there may be back at
    /// once, and one that an agent is about to register is not one of the servers yet.
    fn is_told_away(&self) -> bool {
        let was_there = matches!(*self.phase.borrow(), Phase::Connected(..));
        let is_one_of_them = self.origin == Origin::Operator
            || self.is_kept.load(Ordering::Relaxed)
            || self.listed().is_some();
        is_one_of_them && !was_there
    }

    /// A server that stays away is no news.
    fn log(&self, failure: &Failure, failed_in_a_row: u32) {
        let last_words = failure.last_words();
        let server = &self.entry.name;
        if failed_in_a_row == 1 {
            tracing::warn!(%server, %failure, last_words, "a server is not connected");
        } else {
            tracing::debug!(%server, %failure, last_words, failed_in_a_row, "still not connected");
        }
    }
}

/// How long after this many failures in a row the next attempt is made.
fn retry_pause(failed_in_a_row: u32) -> Duration {
    let doubled = 2_u32.saturating_pow(failed_in_a_row.saturating_sub(1));
    RETRY_PAUSE_MIN.saturating_mul(doubled).min(RETRY_PAUSE_MAX)
}

#[cfg(test)]
mod tests;
