//! What the protocol is known not to do: the reasons for which a caller may be told less than a
//! worker knows. Each is as narrow as can be, so that anything else is a fault.

use std::fmt;
use std::time::Duration;

use toolbus_bus::requester::Error;

use crate::event::{Event, Party};
use crate::history::{End, Outage, Record};

/// How long a worker may be silent: seven checks of half a second, the last of which may be 1 s.
const SILENCE: Duration = Duration::from_millis(3_500);
/// How long a caller that heard a refusal waits for a heartbeat.
const REFUSED_SILENCE: Duration = Duration::from_secs(2);
/// How soon a worker that is back is heard.
const HEARD_AGAIN: Duration = Duration::from_secs(1);
/// How long a worker tries to send a reply whose caller has no queue, less one attempt.
const CALLER_AWAY: Duration = Duration::from_millis(4_700);

/// A reason for which a caller is told less than a worker knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Limitation {
    /// The worker was cut off for longer than workers may be silent, and the call ended before it
    /// was back. It cannot be told from a worker that died.
    WorkerCutOff,
    /// The broker confirmed the reply and lost it with the caller's queue, which is exclusive to
    /// its connection. The worker has no reason to send it again, and sends no more heartbeats.
    ReplyLostWithQueue,
    /// The caller had no queue for longer than a worker tries to send it a reply.
    CallerAway,
    /// A queue refused the request, another took it, and its worker could not be heard for as long
    /// as the caller waits then.
    RefusedUnheard,
}

impl fmt::Display for Limitation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::WorkerCutOff => "the worker was cut off for longer than it may be silent",
            Self::ReplyLostWithQueue => "a confirmed reply was lost with its caller's queue",
            Self::CallerAway => "the caller was away for longer than a reply is tried",
            Self::RefusedUnheard => "after a refusal, the worker of another queue was not heard",
        })
    }
}

/// Why the outcome is unknown to a caller although a worker that lives knew it.
pub(crate) fn of_unknown(record: &Record) -> Option<Limitation> {
    if record.runs.iter().any(|run| is_cut_off(record, run.worker, SILENCE)) {
        return Some(Limitation::WorkerCutOff);
    }
    if !record.lost_replies.is_empty() {
        return Some(Limitation::ReplyLostWithQueue);
    }

    let (first, last) = (record.unroutable_replies.first()?, record.unroutable_replies.last()?);
    (*last - *first >= CALLER_AWAY).then_some(Limitation::CallerAway)
}

/// Why a call counts as refused that was started.
pub(crate) fn of_refusal(record: &Record) -> Option<Limitation> {
    let (_, end) = record.end()?;
    let is_refused = matches!(end, End::Error(Error::Refused(_)));
    let is_taken = record.faults.iter().any(|(_, _, event)| *event == Event::RefuseOneCopy);
    let is_unheard = record.runs.iter().all(|run| {
        record.was_killed(run.worker) || is_cut_off(record, run.worker, REFUSED_SILENCE)
    });
    let is_lost = !record.lost_replies.is_empty();
    (is_refused && is_taken && (is_unheard || is_lost)).then_some(Limitation::RefusedUnheard)
}

/// Whether a worker was cut off when the call ended, by an outage of at least so long.
fn is_cut_off(record: &Record, worker: Party, at_least: Duration) -> bool {
    let Some((end_at, _)) = record.end() else { return false };
    record.outages().filter(|outage| outage.party == worker).any(
        |Outage { from, until, .. }| {
            until - from >= at_least && from <= *end_at && *end_at <= until + HEARD_AGAIN
        },
    )
}
