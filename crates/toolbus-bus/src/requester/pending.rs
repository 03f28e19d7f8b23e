//! The requests under way: by correlation id for replies, by call id for progress and heartbeats.

use std::collections::{HashMap, VecDeque, hash_map};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;
use toolbus_wire::envelope::new_id;
use toolbus_wire::message::tool::ID_BYTES_MAX;
use toolbus_wire::message::toolbus::{Alive, ToolProgress};
use toolbus_wire::{Envelope, Topic, header};

use super::questions::CallQuestions;
use super::{Error, REQUESTS_MAX};
use crate::{Asker, Progress};

/// A worker is lost when a call that it had taken was in none of its heartbeats for this many
/// checks: 15 s. A worker whose connection was lost waits up to 6.25 s between two attempts to get
/// it back, of which the last may take some seconds more.
const SILENT_CHECKS_MAX: u32 = 30;
/// The same for a request that a queue has refused: whoever takes it from another queue says so at
/// once. This is 2 s.
const REFUSED_CHECKS_MAX: u32 = 4;
/// How many ended requests are remembered, to tell a late reply from a stray one: those that ended
/// without a reply, and those that had one, which comes again now and then since delivery is at
/// least once.
const EXPIRED_MAX: usize = 1_024;
const ANSWERED_MAX: usize = 256;
/// When workers are asked for replies that we may have missed, from when our queue was there again:
/// a worker may be back later than we are.
const REPLY_REQUEST_TIMES: [Duration; 4] =
    [Duration::ZERO, Duration::from_secs(2), Duration::from_secs(5), Duration::from_secs(10)];
/// How many checks after its worker was heard the reply of a silent call is asked for, again and
/// again: 3 s.
const REPLY_REQUEST_CHECKS: u32 = 6;
/// For how long there is taken to be a worker where one was heard of.
const HEARD_TTL: Duration = Duration::from_secs(5);
/// Most subscriptions of which it is remembered when a worker was heard of.
const HEARD_MAX: usize = 256;
/// Most subscriptions that are looked at for consumers in one check.
const UNCLAIMED_MAX: usize = 16;
/// Most calls of one heartbeat that its worker is told to stop; the next one names the rest.
const ABANDONED_MAX: usize = 64;

#[derive(Default)]
pub(super) struct Pending {
    table: Mutex<PendingTable>,
    /// Hears that replies may have been missed.
    missed: Notify,
}

#[derive(Default)]
struct PendingTable {
    by_correlation: HashMap<Arc<str>, PendingRequest>,
    /// Call ids are the caller's own and may be used twice at a time.
    by_call: HashMap<Arc<str>, Vec<Arc<str>>>,
    /// Ended without a reply, oldest first.
    expired: VecDeque<Arc<str>>,
    /// Ended with one, oldest first.
    answered: VecDeque<AnsweredRequest>,
    /// When a worker of a subscription was last heard of, for each that requests are sent to.
    heard_at: HashMap<Arc<str>, Instant>,
    /// No request begins any more.
    closed: bool,
    /// Hears of the message that the requester has sent to itself.
    loopback: Option<oneshot::Sender<()>>,
    /// Replies may have been missed until then, and how often workers have been asked for them.
    missed_replies: Option<MissedReplies>,
}

/// Replies that may have been lost with our queue.
struct MissedReplies {
    /// When our queue was there again.
    since: Instant,
    /// How often workers have been asked.
    asked: usize,
}

/// Where the workers of a request take it from.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Workers {
    pub(super) topic: Topic,
    pub(super) subscription: Arc<str>,
}

impl Workers {
    pub(super) fn new(topic: &Topic, subscription: &str) -> Self {
        Self { topic: topic.clone(), subscription: subscription.into() }
    }
}

struct AnsweredRequest {
    correlation_id: Arc<str>,
    call_id: Arc<str>,
}

struct PendingRequest {
    call_id: Arc<str>,
    /// When it was made.
    made_at: Instant,
    reply: oneshot::Sender<Result<Envelope, Error>>,
    progress: Progress,
    /// What it may ask. It ends with this entry.
    questions_of: Option<Arc<CallQuestions>>,
    /// Checks for which the worker that holds the call may be silent yet. `None`: no worker has
    /// said that it holds it, or the call outlives its worker.
    checks_left: Option<u32>,
    /// What the request ends in when no worker speaks of it in time.
    unless_heard: UnlessHeard,
    /// Which worker has spoken of it last.
    worker: Option<Arc<str>>,
    /// It was published more than once, so several workers may have it.
    has_copies: bool,
    /// Who is to take it, where that is known.
    workers: Option<Workers>,
    /// There was no worker to take it when it was sent, and none has spoken of it.
    is_unclaimed: bool,
}

/// What a request ends in when no worker speaks of it in time.
enum UnlessHeard {
    /// In this error.
    Fails(Error),
    /// In this reply of a worker that did not run the call.
    Tentative(Box<Envelope>),
}

/// What became of a reply.
pub(super) enum Answer {
    Taken,
    Late(String),
    Unknown(String),
}

/// A place in the table, given up when dropped.
pub(super) struct Waiting {
    pending: Arc<Pending>,
    correlation_id: Arc<str>,
}

impl Pending {
    /// Takes a place, unless all are taken or the requester is closed.
    pub(super) fn add(
        self: &Arc<Self>,
        call_id: &str,
        progress: Progress,
        asker: Asker,
    ) -> Result<(Waiting, oneshot::Receiver<Result<Envelope, Error>>), Error> {
        let correlation_id: Arc<str> = new_id().into();
        let call_id: Arc<str> = call_id.into();
        let (reply, receiver) = oneshot::channel();
        let entry = PendingRequest {
            call_id: Arc::clone(&call_id),
            made_at: Instant::now(),
            reply,
            progress,
            questions_of: CallQuestions::new(asker),
            checks_left: None,
            unless_heard: UnlessHeard::Fails(Error::WorkerLost),
            worker: None,
            has_copies: false,
            workers: None,
            is_unclaimed: false,
        };

        let mut table = self.table.lock();
        if table.closed {
            return Err(Error::Closed);
        }

        if table.by_correlation.len() >= REQUESTS_MAX {
            return Err(Error::Busy);
        }

        table.by_correlation.insert(Arc::clone(&correlation_id), entry);
        table.by_call.entry(call_id).or_default().push(Arc::clone(&correlation_id));
        drop(table);

        Ok((Waiting { pending: Arc::clone(self), correlation_id }, receiver))
    }

    /// Ends every request, and those to come, with [`Error::Closed`].
    pub(super) fn close(&self) {
        let mut table = self.table.lock();
        table.closed = true;
        let all: Vec<_> = table.by_correlation.keys().cloned().collect();
        table.end_requests(all, &Error::Closed);
    }

    pub(super) fn len(&self) -> usize {
        self.table.lock().by_correlation.len()
    }

    /// Hands a reply to the request that it answers. A tentative one is kept: another worker may be
    /// running the call, and would speak of it.
    pub(super) fn answer(&self, envelope: Envelope) -> Answer {
        let correlation_id = envelope.correlation_id.as_deref().unwrap_or_default();
        let mut table = self.table.lock();
        if envelope.headers.get(header::TENTATIVE).is_some()
            && let Some(entry) = table.by_correlation.get_mut(correlation_id)
        {
            // It comes again as often as replies are asked for, and must not put off the end.
            if !matches!(entry.unless_heard, UnlessHeard::Tentative(_)) {
                entry.checks_left = Some(SILENT_CHECKS_MAX);
            }
            entry.is_unclaimed = false;
            entry.unless_heard = UnlessHeard::Tentative(Box::new(envelope));
            return Answer::Taken;
        }

        let Some((id, entry)) = table.remove_request(correlation_id) else {
            return if table.has_ended(correlation_id) {
                Answer::Late(correlation_id.to_owned())
            } else {
                Answer::Unknown(correlation_id.to_owned())
            };
        };

        table.remember_answered(id, Arc::clone(&entry.call_id));
        table.note_heard(entry.workers.as_ref());
        // The caller is woken outside the lock: it is the next to want it.
        drop(table);

        let correlation_id = envelope.correlation_id.clone();
        match entry.reply.send(Ok(envelope)) {
            Ok(()) => Answer::Taken,
            // The receiver is gone when the caller gave up in this very moment.
            Err(_) => Answer::Late(correlation_id.unwrap_or_default()),
        }
    }

    pub(super) fn progress(&self, progress: ToolProgress) {
        let listeners: Vec<Progress> = {
            let mut table = self.table.lock();
            // Who reports progress is alive.
            table.reset_silence(&progress.tool_call_id);
            table.entries_of(&progress.tool_call_id).map(|entry| entry.progress.clone()).collect()
        };
        // Outside the lock: a listener is the caller's code.
        for listener in listeners {
            listener.send(progress.clone());
        }
    }

    /// What a call that waits may ask; `None` when no such call waits or its caller takes no
    /// questions.
    pub(super) fn questions_of(&self, call_id: &str) -> Option<Arc<CallQuestions>> {
        let mut table = self.table.lock();
        // Who asks is alive.
        table.reset_silence(call_id);
        table.entries_of(call_id).find_map(|entry| entry.questions_of.clone())
    }

    /// Whether a worker has a request, or may have it, and is expected to speak of it.
    pub(super) fn is_any_watched(&self) -> bool {
        self.table.lock().by_correlation.values().any(|entry| entry.checks_left.is_some())
    }

    /// Waits for the next message of the requester to itself.
    pub(super) fn expect_loopback(&self) -> oneshot::Receiver<()> {
        let (sender, heard) = oneshot::channel();
        self.table.lock().loopback = Some(sender);
        heard
    }

    /// Takes the heartbeat of a worker, and says which of its calls nobody waits for any more.
    pub(super) fn take_heartbeat<'a>(&self, alive: &'a Alive) -> Vec<&'a str> {
        let mut table = self.table.lock();
        let mut abandoned = Vec::new();

        if alive.calls.is_empty()
            && let Some(loopback) = table.loopback.take()
        {
            // The watch may have stopped waiting.
            let _ = loopback.send(());
        }

        for call_id in &alive.calls {
            if table.by_call.contains_key(call_id.as_str()) {
                table.reset_silence(call_id);
                table.note_worker(call_id, &alive.instance);
            } else if abandoned.len() < ABANDONED_MAX
                && call_id.len() <= ID_BYTES_MAX
                && !table.was_answered(call_id)
            {
                abandoned.push(call_id.as_str());
            }
        }

        for call_id in &alive.kept {
            table.allow_any_silence(call_id);
        }
        abandoned
    }

    /// Counts one check for every call that a worker has taken, and ends those whose worker has
    /// been silent for too long. Returns the requests whose replies are to be asked for: a worker
    /// that was away may have answered and sends no more heartbeats.
    pub(super) fn count_silence(&self) -> Vec<String> {
        let mut table = self.table.lock();
        let mut lost = Vec::new();
        let mut silent = Vec::new();

        for (correlation_id, entry) in &mut table.by_correlation {
            let Some(left) = &mut entry.checks_left else { continue };
            let Some(fewer) = left.checked_sub(1) else {
                lost.push(Arc::clone(correlation_id));
                continue;
            };
            *left = fewer;
            if left.is_multiple_of(REPLY_REQUEST_CHECKS) {
                silent.push(correlation_id.to_string());
            }
        }
        for correlation_id in lost {
            table.end_unheard(&correlation_id);
        }
        silent
    }

    /// Whether the request of this correlation id waits for its reply. A worker that asks so is
    /// about to start it.
    pub(super) fn claim_awaited(&self, correlation_id: &str) -> bool {
        let mut table = self.table.lock();
        let entry = table.by_correlation.get_mut(correlation_id);
        entry.map(|entry| entry.is_unclaimed = false).is_some()
    }

    /// Our queue was away and is there again: what was in it is lost.
    pub(super) fn note_missed_replies(&self) {
        self.table.lock().missed_replies = Some(MissedReplies { since: Instant::now(), asked: 0 });
        self.missed.notify_one();
    }

    /// Waits until replies may have been missed.
    pub(super) async fn wait_missed_replies(&self) {
        self.missed.notified().await;
    }

    /// The requests whose replies are to be asked for now, because they may have been missed.
    pub(super) fn take_missed_replies(&self) -> Vec<String> {
        let mut table = self.table.lock();
        let Some(missed) = &mut table.missed_replies else { return Vec::new() };
        if missed.since.elapsed() < REPLY_REQUEST_TIMES[missed.asked] {
            return Vec::new();
        }

        let since = missed.since;
        missed.asked += 1;
        if missed.asked == REPLY_REQUEST_TIMES.len() {
            table.missed_replies = None;
        }
        let entries = table.by_correlation.iter().filter(|(_, entry)| entry.made_at <= since);
        entries.map(|(correlation_id, _)| correlation_id.to_string()).collect()
    }

    /// The workers of requests that were published some time ago and that no worker has spoken of.
    pub(super) fn unclaimed_for(&self, time: Duration) -> Vec<Workers> {
        let table = self.table.lock();
        let mut all = Vec::new();
        for workers in table.by_correlation.values().filter_map(|entry| entry.unclaimed_for(time)) {
            if !all.contains(workers) && all.len() < UNCLAIMED_MAX {
                all.push(workers.clone());
            }
        }
        all
    }

    /// Ends the requests that have been unclaimed for so long: there is no worker to take them.
    pub(super) fn end_unserved(&self, workers: &Workers, time: Duration) {
        let mut table = self.table.lock();
        let entries = table.by_correlation.iter();
        let unserved = entries.filter(|(_, entry)| entry.unclaimed_for(time) == Some(workers));
        let unserved: Vec<_> = unserved.map(|(id, _)| Arc::clone(id)).collect();
        table.end_requests(unserved, &Error::Unserved(workers.topic.clone()));
    }

    /// The broker is away: no worker can be heard, and each gets time to come back after it.
    pub(super) fn forgive_silence(&self) {
        for entry in self.table.lock().by_correlation.values_mut() {
            entry.checks_left = entry.checks_left.map(|_| SILENT_CHECKS_MAX);
        }
    }
}

impl PendingRequest {
    fn unclaimed_for(&self, time: Duration) -> Option<&Workers> {
        let is_due = self.is_unclaimed && self.made_at.elapsed() >= time;
        self.workers.as_ref().filter(|_| is_due)
    }
}

impl PendingTable {
    fn remove_request(&mut self, correlation_id: &str) -> Option<(Arc<str>, PendingRequest)> {
        let (id, entry) = self.by_correlation.remove_entry(correlation_id)?;
        if let hash_map::Entry::Occupied(mut ids) = self.by_call.entry(Arc::clone(&entry.call_id)) {
            ids.get_mut().retain(|id| **id != *correlation_id);
            if ids.get().is_empty() {
                ids.remove();
            }
        }
        Some((id, entry))
    }

    /// Ends requests without a reply.
    fn end_requests(&mut self, correlation_ids: Vec<Arc<str>>, error: &Error) {
        for correlation_id in correlation_ids {
            if let Some((id, entry)) = self.remove_request(&correlation_id) {
                self.remember_expired(id);
                // The receiver is gone when the caller gave up in this very moment.
                let _ = entry.reply.send(Err(error.clone()));
            }
        }
    }

    /// Ends a request of which no worker has spoken in time.
    fn end_unheard(&mut self, correlation_id: &str) {
        let Some((id, entry)) = self.remove_request(correlation_id) else { return };
        self.remember_expired(id);
        let end = match entry.unless_heard {
            UnlessHeard::Fails(error) => Err(error),
            UnlessHeard::Tentative(reply) => Ok(*reply),
        };
        // The receiver is gone when the caller gave up in this very moment.
        let _ = entry.reply.send(end);
    }

    fn has_ended(&self, correlation_id: &str) -> bool {
        let mut answered = self.answered.iter().map(|request| &request.correlation_id);
        self.expired.iter().any(|ended| **ended == *correlation_id)
            || answered.any(|ended| **ended == *correlation_id)
    }

    /// Whether a call has had its reply a moment ago: a heartbeat that names it was on its way
    /// then.
    fn was_answered(&self, call_id: &str) -> bool {
        self.answered.iter().any(|request| *request.call_id == *call_id)
    }

    /// A worker of these lives.
    fn note_heard(&mut self, workers: Option<&Workers>) {
        let Some(Workers { subscription, .. }) = workers else { return };
        if self.heard_at.len() >= HEARD_MAX && !self.heard_at.contains_key(subscription) {
            self.heard_at.clear();
        }
        self.heard_at.insert(Arc::clone(subscription), Instant::now());
    }

    fn remember_answered(&mut self, correlation_id: Arc<str>, call_id: Arc<str>) {
        if self.answered.len() >= ANSWERED_MAX {
            self.answered.pop_front();
        }
        self.answered.push_back(AnsweredRequest { correlation_id, call_id });
    }

    fn remember_expired(&mut self, correlation_id: Arc<str>) {
        if self.expired.len() >= EXPIRED_MAX {
            self.expired.pop_front();
        }
        self.expired.push_back(correlation_id);
    }

    fn entries_of(&self, call_id: &str) -> impl Iterator<Item = &PendingRequest> {
        let ids = self.by_call.get(call_id).map_or(&[][..], Vec::as_slice);
        ids.iter().filter_map(|id| self.by_correlation.get(id))
    }

    fn reset_silence(&mut self, call_id: &str) {
        self.allow_silence(call_id, Some(SILENT_CHECKS_MAX));
    }

    fn allow_any_silence(&mut self, call_id: &str) {
        self.allow_silence(call_id, None);
    }

    fn note_worker(&mut self, call_id: &str, instance: &str) {
        let mut workers = None;
        for id in self.by_call.get(call_id).map_or(&[][..], Vec::as_slice) {
            let Some(entry) = self.by_correlation.get_mut(id) else { continue };
            workers = entry.workers.clone();
            if entry.worker.as_deref() != Some(instance) {
                entry.worker = Some(instance.into());
            }
        }
        self.note_heard(workers.as_ref());
    }

    fn allow_silence(&mut self, call_id: &str, checks: Option<u32>) {
        for id in self.by_call.get(call_id).map_or(&[][..], Vec::as_slice) {
            if let Some(entry) = self.by_correlation.get_mut(id) {
                entry.checks_left = checks;
                entry.is_unclaimed = false;
                entry.unless_heard = UnlessHeard::Fails(Error::WorkerLost);
            }
        }
    }
}

impl Waiting {
    pub(super) fn correlation_id(&self) -> &str {
        &self.correlation_id
    }

    /// Which worker has the call, and no other will get it. `None` where that is not known.
    pub(super) fn worker(&self) -> Option<Arc<str>> {
        let table = self.pending.table.lock();
        let entry = table.by_correlation.get(&self.correlation_id)?;
        entry.worker.clone().filter(|_| !entry.has_copies)
    }

    /// The request is published once more.
    pub(super) fn note_second_copy(&self) {
        let mut table = self.pending.table.lock();
        if let Some(entry) = table.by_correlation.get_mut(&self.correlation_id) {
            entry.has_copies = true;
        }
    }

    /// Whether a worker of these was heard of lately.
    pub(super) fn has_heard_of(&self, workers: &Workers) -> bool {
        let table = self.pending.table.lock();
        let heard_at = table.heard_at.get(&workers.subscription);
        heard_at.is_some_and(|at| at.elapsed() < HEARD_TTL)
    }

    /// The request is sent to these workers; or, when there are none, to those that may come.
    pub(super) fn note_workers(&self, workers: Workers, is_unclaimed: bool) {
        let mut table = self.pending.table.lock();
        if let Some(entry) = table.by_correlation.get_mut(&self.correlation_id) {
            entry.workers = Some(workers);
            entry.is_unclaimed = is_unclaimed;
        }
    }

    /// Has the request end in `unless_heard` when no worker speaks of it soon. A worker that has
    /// spoken already goes on being listened to.
    pub(super) fn expect_worker(&self, unless_heard: Error) {
        let mut table = self.pending.table.lock();
        if let Some(entry) = table.by_correlation.get_mut(&*self.correlation_id)
            && entry.checks_left.is_none()
        {
            entry.checks_left = Some(match unless_heard {
                Error::Refused(_) => REFUSED_CHECKS_MAX,
                _ => SILENT_CHECKS_MAX,
            });
            entry.unless_heard = UnlessHeard::Fails(unless_heard);
        }
    }
}

impl Drop for Waiting {
    /// Without a reply so far: one that comes now is late.
    fn drop(&mut self) {
        let mut table = self.pending.table.lock();
        if let Some((id, _)) = table.remove_request(&self.correlation_id) {
            table.remember_expired(id);
        }
    }
}

#[cfg(test)]
mod tests;
