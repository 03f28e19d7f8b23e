//! What the protocol is known not to do: the reasons for which a caller may be told less than a
//! worker knows. Each is as narrow as can be, so that anything else is a fault.

use std::fmt;
use std::time::Duration;

use toolbus_bus::requester::Error;

use crate::event::{Event, Kind, Moment, Point};
use crate::history::{End, Outage, Record, Run};

/// How long a worker may be silent, less what was left of a second before.
const SILENCE: Duration = Duration::from_secs(14);
/// How long a caller that heard a refusal waits for a heartbeat.
const REFUSED_SILENCE: Duration = Duration::from_secs(2);
/// How long a worker must be connected to be heard for sure, unless a heartbeat is lost.
const HEARTBEAT_INTERVAL: Duration = Duration::from_millis(1_100);
/// How long a worker tries to send a reply whose caller has no queue, less one attempt.
const CALLER_AWAY: Duration = Duration::from_millis(4_700);

/// A reason for which a caller is told less than a worker knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Limitation {
    /// The worker was cut off for as long as workers may be silent, or connected for too short a
    /// time in between to be heard. It cannot be told from a worker that died.
    WorkerCutOff,
    /// The broker confirmed the reply and lost it with the caller's queue, which is exclusive to
    /// its connection. The worker has no reason to send it again, and sends no more heartbeats.
    ReplyLostWithQueue,
    /// The caller had no queue for longer than a worker tries to send it a reply.
    CallerAway,
    /// A queue refused the outcome, or was not there, so the worker tries again in the background.
    /// It sends no more heartbeats for the call, and an attempt took longer than it may be silent.
    SlowRetry,
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
            Self::SlowRetry => "a reply was tried again for long, without heartbeats",
            Self::RefusedUnheard => "after a refusal, the worker of another queue was not heard",
        })
    }
}

/// Why the outcome is unknown to a caller although a worker that lives knew it.
pub(crate) fn of_unknown(record: &Record) -> Option<Limitation> {
    if record.runs.iter().any(|run| is_unheard(record, run, SILENCE)) {
        return Some(Limitation::WorkerCutOff);
    }
    if !record.lost_replies.is_empty() {
        return Some(Limitation::ReplyLostWithQueue);
    }

    if was_retried_slowly(record) {
        return Some(Limitation::SlowRetry);
    }

    let (first, last) = (record.unroutable_replies.first()?, record.unroutable_replies.last()?);
    (*last - *first >= CALLER_AWAY).then_some(Limitation::CallerAway)
}

/// Whether a reply that was refused, or had no queue, was lost later without anybody's notice.
fn was_retried_slowly(record: &Record) -> bool {
    let of_reply = |point: &Point| point.moment == Moment::Publish(Kind::Reply);
    let lost = |event: &Event| matches!(event, Event::LoseUnnoticed(_));
    let replies = || record.faults.iter().filter(|(_, point, _)| of_reply(point));
    let Some((lost_at, ..)) = replies().rfind(|(.., event)| lost(event)) else { return false };

    let mut refused = replies().filter(|(.., event)| *event == Event::Refuse);
    refused.any(|(at, ..)| at < lost_at) || record.unroutable_replies.iter().any(|at| at < lost_at)
}

/// Why a call counts as refused that was started.
pub(crate) fn of_refusal(record: &Record) -> Option<Limitation> {
    let (_, end) = record.end()?;
    let is_refused = matches!(end, End::Error(Error::Refused(_)));
    let is_taken = record.faults.iter().any(|(_, _, event)| *event == Event::RefuseOneCopy);
    let is_unheard = record
        .runs
        .iter()
        .all(|run| record.was_killed(run.worker) || is_unheard(record, run, REFUSED_SILENCE));
    let is_lost = !record.lost_replies.is_empty() || was_retried_slowly(record);
    (is_refused && is_taken && (is_unheard || is_lost)).then_some(Limitation::RefusedUnheard)
}

/// Whether the worker of a run had no chance to be heard for so long before the end of the call.
fn is_unheard(record: &Record, run: &Run, silence: Duration) -> bool {
    let Some((end_at, _)) = record.end() else { return false };
    let mut connected_from = end_at.saturating_sub(silence).max(run.started_at);
    let mut longest = Duration::ZERO;

    for Outage { from, until, .. } in record.outages().filter(|outage| outage.party == run.worker) {
        longest = longest.max(from.min(*end_at).saturating_sub(connected_from));
        connected_from = connected_from.max(until);
    }
    longest = longest.max(end_at.saturating_sub(connected_from));

    let is_lost = |(_, point, event): &&(Duration, Point, Event)| {
        point.moment == Moment::Publish(Kind::Heartbeat) && *event == Event::LoseMessage
    };
    let lost = record.faults.iter().filter(is_lost).count();
    longest < HEARTBEAT_INTERVAL * (1 + lost as u32)
}
