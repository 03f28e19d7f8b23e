//! Deadlines: when a caller stops waiting, how much of that a hop may use, and how work is held to
//! it.
//!
//! Every wait of a call that has an end goes through [`Deadline::enforce`]: at the caller
//! ([`requester`](crate::requester)), at the worker ([`responder`](crate::responder)) and around a
//! tool (the invoker of `toolbus-tools`).

use std::pin::pin;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use toolbus_wire::Envelope;
use toolbus_wire::clock::unix_now;
use toolbus_wire::header::{self, Headers};

use crate::Progress;
use crate::clock::PeerClocks;

/// Longest budget that any request gets, whatever it asks for.
pub const REQUEST_TIMEOUT_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// The moment at which a caller stops waiting, and what it asked for in the first place.
///
/// Where the caller allows it, progress moves the moment: each step of the work gives it as long as
/// was asked for once more, up to a last moment ([`Deadline::extended_by_progress`]). Both ends
/// move theirs by the same progress, the caller a little after the worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadline {
    at: Instant,
    asked: Duration,
    /// Where progress can move it to; never before `at`.
    latest: Instant,
}

/// Why work was given up before it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interruption {
    /// It was cancelled, and did not end within the grace for that.
    Cancelled,
    /// Its deadline was over.
    TimedOut,
}

impl Deadline {
    /// A deadline that begins now.
    #[must_use]
    pub fn after(asked: Duration) -> Self {
        let asked = asked.min(REQUEST_TIMEOUT_MAX);
        Self::fixed(Instant::now() + asked, asked)
    }

    /// A deadline that nothing moves.
    fn fixed(at: Instant, asked: Duration) -> Self {
        Self { at, asked, latest: at }
    }

    /// The same deadline, which progress can make later by this much.
    #[must_use]
    pub fn extended_by_progress(self, extension: Duration) -> Self {
        Self { latest: self.at + extension.min(REQUEST_TIMEOUT_MAX), ..self }
    }

    /// The same deadline at a worker that grants its calls this long, and `longest` in all where
    /// progress makes them longer.
    #[must_use]
    pub fn limited_to(self, granted: Duration, longest: Duration) -> Self {
        let now = Instant::now();
        let at = self.at.min(now + granted);
        let latest = match self.latest > self.at {
            true => self.latest.min(now + longest).max(at),
            false => at,
        };
        Self { at, asked: self.asked.min(granted), latest }
    }

    /// The same deadline, as late as progress can make it.
    #[must_use]
    pub(crate) fn at_latest(self) -> Self {
        Self { at: self.latest, ..self }
    }

    /// The deadline at a moment in Unix milliseconds, of which `asked` were asked for.
    #[must_use]
    pub(crate) fn at_unix_ms(unix_ms: u64, asked: Duration) -> Self {
        let left = Duration::from_millis(unix_ms).saturating_sub(unix_now());
        let left = left.min(REQUEST_TIMEOUT_MAX);
        Self::fixed(Instant::now() + left, asked.max(left))
    }

    /// What a request that has just been received asks for. A value that is not a number counts as
    /// missing.
    ///
    /// - Without `rb-deadline-ms`, as from C#: `rb-timeout-ms` from now on; else `default`.
    /// - With it: until that moment, by our clock, and `rb-timeout-ms` at most.
    /// - With it and an expiry, as from our callers: what was left when the request was sent, which
    ///   is its expiry, less the time that it was on its way, by what is known of the caller's
    ///   clock ([`PeerClocks`]); and `rb-timeout-ms` at most.
    ///
    /// The two machines' clocks may differ by minutes, so the last rule takes from the moment
    /// nothing but when the request was sent, and from that only what other requests of the same
    /// caller do not explain as a difference of clocks. Where nothing is known of the caller, the
    /// time on the way counts as none. That gives a request as much time as it has or more, never
    /// less, and no more than was left when it was sent. More is safe: the broker drops what waits
    /// for longer than its expiry, by the one clock that is its own, so whatever comes was still
    /// waited for; and a caller that stops waiting sends a cancel message.
    #[must_use]
    pub(crate) fn of_request(envelope: &Envelope, default: Duration, clocks: &PeerClocks) -> Self {
        let headers = &envelope.headers;
        let number = |name| headers.get(name).and_then(|text| text.trim().parse::<u64>().ok());
        let asked = number(header::TIMEOUT_MS)
            .map_or(default, Duration::from_millis)
            .min(REQUEST_TIMEOUT_MAX);

        let left = match number(header::DEADLINE_MS) {
            Some(unix_ms) => {
                let moment = Duration::from_millis(unix_ms);
                let left = match envelope.expires_after {
                    Some(left) => left.saturating_sub(clocks.time_on_way(envelope, moment, left)),
                    None => moment.saturating_sub(unix_now()),
                };
                if headers.get(header::TIMEOUT_MS).is_some() { left.min(asked) } else { left }
            }
            None => asked,
        };

        let left = left.min(REQUEST_TIMEOUT_MAX);
        let extension = number(header::EXTENSION_MS).map_or(Duration::ZERO, Duration::from_millis);
        let deadline = Self::fixed(Instant::now() + left, asked.max(left));
        deadline.extended_by_progress(extension)
    }

    /// Writes this deadline into the headers of a request: the moment, and what was asked for,
    /// which is all that a C# worker reads; and how much later progress can make it.
    pub fn write(&self, headers: &mut Headers) {
        headers.set(header::TIMEOUT_MS, self.asked.as_millis().to_string());
        headers.set(header::DEADLINE_MS, self.unix_ms().to_string());
        let extension = self.latest.saturating_duration_since(self.at);
        if !extension.is_zero() {
            headers.set(header::EXTENSION_MS, extension.as_millis().to_string());
        }
    }

    /// The moment in Unix milliseconds, as it goes over the wire; now, when it is past.
    #[must_use]
    pub fn unix_ms(&self) -> u64 {
        (unix_now() + self.left()).as_millis().try_into().unwrap_or(u64::MAX)
    }

    /// The moment itself.
    #[must_use]
    pub fn at(&self) -> Instant {
        self.at
    }

    /// What the caller asked for: the number that a text about a timeout names.
    #[must_use]
    pub fn asked(&self) -> Duration {
        self.asked
    }

    /// How much time is left.
    #[must_use]
    pub fn left(&self) -> Duration {
        self.at.saturating_duration_since(Instant::now())
    }

    /// Whether the moment is over.
    #[must_use]
    pub fn is_past(&self) -> bool {
        self.left().is_zero()
    }

    /// Waits for work until it ends, until the deadline, or, once `cancelled` fires, for as long as
    /// `cancel_grace` allows it to tidy up. Work that ends in the same moment has ended. The caller
    /// drops what was interrupted, so whatever the work started must end with it.
    ///
    /// # Errors
    /// Why it was interrupted.
    pub async fn enforce<T>(
        self,
        cancelled: &CancellationToken,
        cancel_grace: Duration,
        work: impl Future<Output = T>,
    ) -> Result<T, Interruption> {
        self.enforce_with(&Progress::none(), cancelled, cancel_grace, work).await
    }

    /// The same for work whose progress may move the deadline.
    ///
    /// # Errors
    /// Why it was interrupted.
    pub async fn enforce_with<T>(
        self,
        progress: &Progress,
        cancelled: &CancellationToken,
        cancel_grace: Duration,
        work: impl Future<Output = T>,
    ) -> Result<T, Interruption> {
        let mut work = pin!(work);

        // Every arm only waits.
        tokio::select! {
            biased;
            ended = &mut work => Ok(ended),
            () = cancelled.cancelled() => {
                let ended = tokio::time::timeout(cancel_grace, work).await;
                ended.map_err(|_| Interruption::Cancelled)
            }
            () = self.wait_over(progress) => Err(Interruption::TimedOut),
        }
    }

    /// Waits until the deadline is over, wherever progress moves it meanwhile.
    pub async fn wait_over(self, progress: &Progress) {
        let mut over = self.at;
        loop {
            tokio::time::sleep_until(over).await;
            let moved = progress.last_step().map_or(self.at, |step| step + self.asked);
            let moved = moved.clamp(self.at, self.latest);
            if moved <= over {
                return;
            }
            over = moved;
        }
    }

    /// The deadline for the next hop: earlier by the smaller of two seconds and a tenth of what is
    /// left, so that its typed error reaches the caller before the caller gives up.
    #[must_use]
    pub fn for_next_hop(&self) -> Self {
        let left = self.left();
        let margin = (left / 10).min(Duration::from_secs(2));
        Self { at: self.at - margin, latest: self.latest - margin, ..*self }
    }
}

#[cfg(test)]
mod tests;
