//! What the protocol is known not to do: the reasons for which a caller may be told less than a
//! worker knows. Each is as narrow as can be, so that anything else is a fault.

use std::fmt;
use std::time::Duration;

use toolbus_bus::requester::Error;

use crate::event::{Event, Kind, Moment, Party, Point};
use crate::history::{End, Outage, Record, Run};

/// How long a worker may be silent, less what was left of a second before.
const SILENCE: Duration = Duration::from_secs(14);
/// How long a caller that heard a refusal waits for a heartbeat.
const REFUSED_SILENCE: Duration = Duration::from_secs(2);
/// When a caller that is back asks for missed replies for the last time.
const LAST_REPLY_REQUEST: Duration = Duration::from_secs(10);
/// How long a worker must be connected to be heard for sure, unless a heartbeat is lost.
const HEARTBEAT_INTERVAL: Duration = Duration::from_millis(1_100);
/// A reason for which a caller is told less than a worker knows, or a worker less than its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Limitation {
    /// The worker was cut off for as long as workers may be silent, or connected for too short a
    /// time in between to be heard. It cannot be told from a worker that died.
    WorkerCutOff,
    /// A queue refused the request, another took it, and its worker could not be heard for as long
    /// as the caller waits then.
    RefusedUnheard,
    /// A worker took the request, and lost its connection before it was heard. The caller found
    /// the queue without consumers, and says that the call was not started.
    ///
    /// FIXME: nothing tells the caller that the queue had a consumer when it published.
    UnservedUnheard,
    /// A worker that was away for long came back after its caller had asked for missed replies for
    /// the last time.
    AskedTooEarly,
    /// A second copy of the request went to another worker than the one that was told to stop. It
    /// starts the call, and stops it when its first heartbeat is answered.
    ///
    /// FIXME: a call that was published twice is to be cancelled at all workers.
    CopyNotCancelled,
}

impl fmt::Display for Limitation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::WorkerCutOff => "the worker was cut off for longer than it may be silent",
            Self::RefusedUnheard => "after a refusal, the worker of another queue was not heard",
            Self::UnservedUnheard => "the queue lost a worker that was not heard",
            Self::AskedTooEarly => "a worker was back after the last request for missed replies",
            Self::CopyNotCancelled => "a worker had a copy and was not told to stop",
        })
    }
}

/// Why the outcome is unknown to a caller although a worker that lives knew it.
pub(crate) fn of_unknown(record: &Record) -> Option<Limitation> {
    if record.runs.iter().any(|run| is_unheard(record, run, SILENCE)) {
        return Some(Limitation::WorkerCutOff);
    }

    let caller_outages = record.outages().filter(|outage| outage.party == Party::Caller);
    let caller_back_at = caller_outages.map(|outage| outage.until).max()?;
    let is_back_later = |run: &Run| {
        let mut outages = record.outages().filter(|outage| outage.party == run.worker);
        outages.any(|outage| outage.until > caller_back_at + LAST_REPLY_REQUEST)
    };
    record.runs.iter().any(is_back_later).then_some(Limitation::AskedTooEarly)
}

/// Why a call counts as not started that was started.
pub(crate) fn of_refusal(record: &Record) -> Option<Limitation> {
    let (end_at, End::Error(error)) = record.end()? else { return None };
    let is_taken = record.faults.iter().any(|(_, _, event)| *event == Event::RefuseOneCopy);
    match error {
        Error::Refused(_) if is_taken => {
            let mut runs = record.runs.iter();
            runs.all(|run| {
                record.was_killed(run.worker) || is_unheard(record, run, REFUSED_SILENCE)
            })
            .then_some(Limitation::RefusedUnheard)
        }
        Error::Unserved(_) => {
            let is_cut_off = |worker| {
                record.outages().any(|outage| outage.party == worker && outage.contains(*end_at))
            };
            let is_away = |worker| record.was_killed(worker) || is_cut_off(worker);
            Party::WORKERS.into_iter().all(is_away).then_some(Limitation::UnservedUnheard)
        }
        _ => None,
    }
}

/// Why a call was started late.
pub(crate) fn of_late_start(record: &Record, run: &Run) -> Option<Limitation> {
    let is_second = record.runs.iter().any(|other| other.worker != run.worker);
    let has_cancels =
        record.cancels.iter().any(|(at, to)| *to == run.worker && *at < run.started_at);
    (is_second && !has_cancels).then_some(Limitation::CopyNotCancelled)
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
