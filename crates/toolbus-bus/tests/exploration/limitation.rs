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

/// A reason for which a caller is told less than a worker knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Limitation {
    /// The worker was cut off for as long as workers may be silent, or connected for too short a
    /// time in between to be heard. It cannot be told from a worker that died.
    WorkerCutOff,
    /// A queue refused the request, another took it, and its worker could not be heard for as long
    /// as the caller waits then.
    RefusedUnheard,
}

impl fmt::Display for Limitation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::WorkerCutOff => "the worker was cut off for longer than it may be silent",
            Self::RefusedUnheard => "after a refusal, the worker of another queue was not heard",
        })
    }
}

/// Why the outcome is unknown to a caller although a worker that lives knew it.
pub(crate) fn of_unknown(record: &Record) -> Option<Limitation> {
    let mut runs = record.runs.iter();
    runs.any(|run| is_unheard(record, run, SILENCE)).then_some(Limitation::WorkerCutOff)
}

/// Why a call counts as not started that was started.
pub(crate) fn of_refusal(record: &Record) -> Option<Limitation> {
    let (_, End::Error(Error::Refused(_))) = record.end()? else { return None };
    let is_taken = record.faults.iter().any(|(_, _, event)| *event == Event::RefuseOneCopy);
    let is_silent = record
        .runs
        .iter()
        .all(|run| record.was_killed(run.worker) || is_unheard(record, run, REFUSED_SILENCE));
    (is_taken && is_silent).then_some(Limitation::RefusedUnheard)
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
