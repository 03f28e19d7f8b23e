//! The clocks of peers: by how much they differ from ours, and how long a message was on its way
//! when that is taken into account.
//!
//! A message says when it was sent, by its sender's clock. Its age by our clock is its time on the
//! way and the difference of the two clocks, and one message cannot tell the one from the other.
//! But nothing arrives before it was sent. So the smallest age of several messages is the
//! difference of the clocks and the shortest way: the difference at least. What another age has
//! beyond it was spent on the way, and is never too much, whatever the clocks say. And a smallest
//! age below zero proves that the sender's clock is ahead of ours by as much at least.
//!
//! Of two processes whose clocks differ, the one that is behind sees it: a worker by the requests
//! of its callers, a caller by the heartbeats of its workers. No message is sent for it.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use toolbus_wire::clock::unix_now;
use toolbus_wire::{Envelope, header};

use crate::metrics::ClockSkew;

/// By how much two clocks may differ before it is reported, and by how much that must change to be
/// reported again. A message that is no later than this agrees with what is known of its peer.
const SKEW_GRACE: Duration = Duration::from_secs(2);
/// After how long it is reported again, where it has not changed.
const REPORT_INTERVAL: Duration = Duration::from_secs(60 * 60);
/// The smallest age is that of the last two times as long: long enough to outlast a backlog and a
/// broker that blocks publishers, short enough to forget a clock that has been set.
const WINDOW_INTERVAL: Duration = Duration::from_secs(2 * 60);
/// For how long every message of a peer must be over time until its clock counts as set back.
const SET_BACK_GRACE: Duration = Duration::from_secs(5);
/// Most peers that are remembered. Of more nothing is known.
const PEERS_MAX: usize = 1_024;
/// Longest name of a peer that is remembered.
const PEER_BYTES_MAX: usize = 255;

/// The clocks of the peers that one end of calls hears.
pub(crate) struct PeerClocks {
    peers: Mutex<HashMap<Box<str>, PeerClock>>,
    skew: ClockSkew,
}

/// What the messages of one peer tell of its clock. Ages are in milliseconds.
#[derive(Debug, Clone)]
struct PeerClock {
    window_start: Instant,
    smallest_age: i64,
    /// Of the window before.
    earlier_smallest_age: Option<i64>,
    /// Since when messages are over time, and none was as young as it should be.
    overdue_since: Option<Instant>,
    reported: Option<Report>,
}

#[derive(Debug, Clone, Copy)]
struct Report {
    ahead: Duration,
    at: Instant,
}

impl PeerClocks {
    pub(crate) fn new() -> Self {
        Self { peers: Mutex::default(), skew: ClockSkew::new() }
    }

    /// How long a request was on its way, at least: never more than it truly was, unless a clock
    /// was set back meanwhile. Its caller wants to stop waiting at `moment`, by its own clock, and
    /// `left` before that it was sent.
    pub(crate) fn time_on_way(
        &self,
        request: &Envelope,
        moment: Duration,
        left: Duration,
    ) -> Duration {
        // Each process of a caller has a reply topic of its own, and a clock of its own.
        let Some(process) = &request.reply_to else { return Duration::ZERO };
        let age = age_of(moment.saturating_sub(left));
        let heard = self.with_peer(process.as_str(), age, |clock, now| {
            let on_way = clock.take_request(age, left, now);
            (on_way, clock.ahead(), clock.is_report_due(now))
        });
        let Some((on_way, ahead, is_report_due)) = heard else { return Duration::ZERO };

        self.skew.record(&request.source, ahead);
        if is_report_due {
            report(&request.source, process.as_str(), ahead);
        }
        on_way
    }

    /// When a request was sent, by our clock as far as the difference is known: too late where its
    /// caller's clock is ahead by more, and too early where it is behind. `None` where the request
    /// does not say.
    pub(crate) fn sent_at(&self, request: &Envelope) -> Option<Duration> {
        let sent_at = stated_start(request)?;
        let process = request.reply_to.as_ref()?;
        let ahead = self.peers.lock().get(process.as_str()).map(PeerClock::ahead);
        Some(sent_at.saturating_sub(ahead.unwrap_or_default()))
    }

    /// Whether a request was held up: another of its caller's process came with less age, by more
    /// than [`SKEW_GRACE`].
    pub(crate) fn is_late(&self, request: &Envelope) -> bool {
        let (Some(sent_at), Some(process)) = (stated_start(request), &request.reply_to) else {
            return false;
        };
        let age = age_of(sent_at);
        let peers = self.peers.lock();
        let smallest = peers.get(process.as_str()).map_or(age, PeerClock::smallest_known_age);
        milliseconds(age.saturating_sub(smallest)) > SKEW_GRACE
    }

    /// Takes a heartbeat, which a worker's process sends to the agent `caller`.
    pub(crate) fn hear_heartbeat(&self, caller: &str, worker: &str, heartbeat: &Envelope) {
        // To the second, and earlier rather than later than it was.
        let age = age_of(Duration::from_secs(heartbeat.timestamp));
        let heard = self.with_peer(worker, age, |clock, now| {
            clock.take_age(age, now);
            (clock.ahead(), clock.is_report_due(now))
        });
        let Some((ahead, is_report_due)) = heard else { return };

        self.skew.record(caller, ahead);
        if is_report_due {
            report(&heartbeat.source, worker, ahead);
        }
    }

    /// What is known of a peer, that of a new one beginning with this age; `None` where there are
    /// too many.
    fn with_peer<T>(
        &self,
        process: &str,
        age: i64,
        take: impl FnOnce(&mut PeerClock, Instant) -> T,
    ) -> Option<T> {
        let now = Instant::now();
        let mut peers = self.peers.lock();
        if !peers.contains_key(process) {
            if peers.len() >= PEERS_MAX {
                peers.retain(|_, clock| now - clock.window_start < 2 * WINDOW_INTERVAL);
            }
            if peers.len() >= PEERS_MAX || process.len() > PEER_BYTES_MAX {
                return None;
            }
            peers.insert(process.into(), PeerClock::new(age, now));
        }
        peers.get_mut(process).map(|clock| take(clock, now))
    }
}

impl PeerClock {
    fn new(age: i64, now: Instant) -> Self {
        Self {
            window_start: now,
            smallest_age: age,
            earlier_smallest_age: None,
            overdue_since: None,
            reported: None,
        }
    }

    /// Takes the age of a request that has `left` to live, and returns how much of it was spent on
    /// the way.
    fn take_request(&mut self, age: i64, left: Duration, now: Instant) -> Duration {
        let on_way = milliseconds(age.saturating_sub(self.take_age(age, now)));
        if on_way < SKEW_GRACE {
            self.overdue_since = None;
        }
        if on_way < left {
            return on_way;
        }

        // Its broker would have dropped it. Either it was held up before the broker had it, or
        // after; or a clock was set, and then all that come from now on are like it.
        let since = *self.overdue_since.get_or_insert(now);
        if now - since < SET_BACK_GRACE {
            return on_way;
        }
        *self = Self { reported: self.reported, ..Self::new(age, now) };
        Duration::ZERO
    }

    /// Takes the age of a message, and returns the smallest age of all.
    fn take_age(&mut self, age: i64, now: Instant) -> i64 {
        let window_age = now - self.window_start;
        if window_age >= WINDOW_INTERVAL {
            let is_earlier = window_age < 2 * WINDOW_INTERVAL;
            self.earlier_smallest_age = is_earlier.then_some(self.smallest_age);
            self.smallest_age = age;
            self.window_start = now;
        }

        self.smallest_age = self.smallest_age.min(age);
        self.smallest_known_age()
    }

    fn smallest_known_age(&self) -> i64 {
        self.smallest_age.min(self.earlier_smallest_age.unwrap_or(i64::MAX))
    }

    /// By how much the peer's clock is ahead of ours, at least.
    fn ahead(&self) -> Duration {
        milliseconds(self.smallest_known_age().saturating_neg())
    }

    /// Whether the difference is to be reported, which is noted as done.
    fn is_report_due(&mut self, now: Instant) -> bool {
        let ahead = self.ahead();
        let is_news = self.reported.is_none_or(|report| {
            ahead.abs_diff(report.ahead) > SKEW_GRACE || now - report.at >= REPORT_INTERVAL
        });
        let is_due = ahead > SKEW_GRACE && is_news;
        if is_due {
            self.reported = Some(Report { ahead, at: now });
        }
        is_due
    }
}

fn report(peer: &str, process: &str, ahead: Duration) {
    let seconds = ahead.as_secs_f64();
    tracing::warn!(peer, process, seconds, "the clock of a peer is ahead of ours");
}

/// When a request was sent, by its caller's clock; `None` where it does not say.
fn stated_start(request: &Envelope) -> Option<Duration> {
    let moment = request.headers.get(header::DEADLINE_MS)?.trim().parse().ok()?;
    Duration::from_millis(moment).checked_sub(request.expires_after?)
}

/// How old a message is by our clock, in milliseconds; below zero where it is yet to be sent.
fn age_of(sent_at: Duration) -> i64 {
    let milliseconds = |time: Duration| i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
    milliseconds(unix_now()).saturating_sub(milliseconds(sent_at))
}

/// So many milliseconds; none where it is below zero.
fn milliseconds(count: i64) -> Duration {
    Duration::from_millis(u64::try_from(count).unwrap_or_default())
}

#[cfg(test)]
mod tests;
