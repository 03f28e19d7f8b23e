//! The judge of a run: what a caller is told must be true, and what a worker does must be wanted.

use std::time::Duration;

use toolbus_bus::requester::Error;
use toolbus_wire::{ErrorCode, Execution};

use crate::event::{Event, Kind, Moment, Party};
use crate::history::{End, Outage, Record, Run};
use crate::limitation::{self, Limitation};
use crate::link::HOP;
use crate::world::Scenario;

/// How long after its deadline a call may end.
const END_MARGIN: Duration = Duration::from_millis(50);
/// How long before its deadline the work must be done for its outcome to be expected in time.
const REPLY_MARGIN: Duration = Duration::from_secs(2);

/// How long a caller waits for a worker that has fallen silent: 15 s, and as long again where
/// another worker's tentative answer comes meanwhile.
const SILENCE_MAX: Duration = Duration::from_secs(32);
/// How soon a worker that runs a call which nobody waits for has stopped it: it tells its caller
/// that it has the call within a second, is told to stop, and has 0.3 s to do so.
const STOP_MARGIN: Duration = Duration::from_millis(1_500);
/// How much later that is where a message is lost.
const HEARTBEAT_INTERVAL: Duration = Duration::from_millis(1_100);

/// What a run is found to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    Right,
    /// The caller was told less than a worker knew, and for this reason.
    Limited(Limitation),
    Wrong(String),
}

/// Judges a run.
pub(crate) fn judge(scenario: Scenario, record: &Record) -> Verdict {
    let checks = [
        check_end(scenario, record),
        check_waiting(record),
        check_runs(scenario, record),
        check_outcome(record),
        check_abandoned(record),
    ];
    if let Some(wrong) = checks.into_iter().find_map(Result::err) {
        return Verdict::Wrong(wrong);
    }
    if let Some(Run { worker, .. }) = late_start(record) {
        return Verdict::Wrong(format!("{worker} started a call that nobody waits for"));
    }
    if is_false_refusal(record) {
        let wrong = "the caller was told that the call was not started, and it was";
        return limited_or(limitation::of_refusal(record), wrong);
    }
    if is_false_unknown(scenario, record) {
        let wrong = "a worker that lives knew the outcome, and the caller was not told";
        return limited_or(limitation::of_unknown(record), wrong);
    }
    Verdict::Right
}

fn limited_or(limitation: Option<Limitation>, wrong: &str) -> Verdict {
    limitation.map_or_else(|| Verdict::Wrong(wrong.to_owned()), Verdict::Limited)
}

/// A call ends once, by its deadline, and leaves nothing behind.
fn check_end(scenario: Scenario, record: &Record) -> Result<(), String> {
    let [(at, _)] = record.ends.as_slice() else {
        return Err(format!("the call has {} ends", record.ends.len()));
    };
    if *at > scenario.budget + END_MARGIN {
        return Err(format!("the call ended after {at:?}, and had {:?}", scenario.budget));
    }
    if record.pending > 0 {
        return Err(format!("the requester keeps {} requests that ended", record.pending));
    }
    Ok(())
}

/// A caller that has heard of a worker waits for so long after it falls silent, and no longer.
fn check_waiting(record: &Record) -> Result<(), String> {
    let (Some(heard_at), Some((at, End::Error(Error::Timeout { .. })))) =
        (record.heard_at, record.end())
    else {
        return Ok(());
    };

    let outages = record.outages().filter(|outage| outage.party == Party::Caller);
    let heard_until = outages.map(|outage| outage.until).fold(heard_at, Duration::max);
    if *at > heard_until + SILENCE_MAX {
        return Err(format!(
            "the caller waited until {at:?} for a worker silent from {heard_at:?}"
        ));
    }
    Ok(())
}

/// A call that may not repeat runs once at most.
fn check_runs(scenario: Scenario, record: &Record) -> Result<(), String> {
    let count = record.runs.len();
    if count > 1 && !scenario.may_repeat {
        return Err(format!("a call that may not repeat ran {count} times"));
    }
    Ok(())
}

/// What the caller was told of its call is true, from then on.
fn check_outcome(record: &Record) -> Result<(), String> {
    let Some((at, end)) = record.end() else { return Ok(()) };
    match end {
        End::Ok(number) => check_result(number, *at, record),
        End::Failed { code: ErrorCode::ExecutionFailed, .. } => {
            Err("a worker answered with an error that is none of the work".to_owned())
        }
        End::Failed { execution: Execution::Started, .. } if record.runs.is_empty() => {
            Err("the caller was told that the call was started, and it never was".to_owned())
        }
        _ => Ok(()),
    }
}

fn check_result(number: &str, at: Duration, record: &Record) -> Result<(), String> {
    let index = number.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
    let run = index.and_then(|index| record.runs.get(index));
    let is_its = |run: &Run| run.is_completed && run.stopped_at.is_some_and(|end| end <= at);
    if run.is_some_and(is_its) {
        Ok(())
    } else {
        Err(format!("the caller has a result of run {number}, which was not completed by then"))
    }
}

/// Whether the caller was told that a call was not started, and it was, or is later.
fn is_false_refusal(record: &Record) -> bool {
    record.end().is_some_and(|(_, end)| says_not_started(end)) && !record.runs.is_empty()
}

fn says_not_started(end: &End) -> bool {
    match end {
        End::Failed { execution, .. } => *execution == Execution::NotStarted,
        End::Error(error) => {
            error.is_unroutable()
                || matches!(error, Error::Publish(_) | Error::Refused(_) | Error::Busy)
        }
        End::Ok(_) => false,
    }
}

fn says_unknown(end: &End) -> bool {
    match end {
        End::Failed { execution, .. } => *execution == Execution::Unknown,
        End::Error(error) => {
            matches!(error, Error::WorkerLost | Error::Unconfirmed | Error::Timeout { .. })
        }
        End::Ok(_) => false,
    }
}

/// Whether a worker that lives ran the call to its end in time, or would have.
fn is_false_unknown(scenario: Scenario, record: &Record) -> bool {
    let Some((at, end)) = record.end() else { return false };
    let is_known = |run: &Run| {
        let told_by = run.started_at + scenario.work + REPLY_MARGIN + unnoticed_time(record);
        let in_time = told_by < scenario.budget;
        let was_stopped_for_it = run.stopped_at.is_none_or(|stopped| stopped >= *at);
        let lives = !record.was_killed(run.worker);
        lives && in_time && run.started_at < *at && (run.is_completed || was_stopped_for_it)
    };
    says_unknown(end) && record.runs.iter().any(is_known)
}

/// A run that a worker started although it had been told that nobody waits for it, or could have
/// been. A late copy of a call that has its result may run: only what may repeat has copies.
fn late_start(record: &Record) -> Option<&Run> {
    let (end_at, End::Failed { .. } | End::Error(_)) = record.end()? else { return None };
    record.runs.iter().find(|run| {
        let mut cancels = record.cancels.iter();
        let was_told = cancels.any(|(at, to)| *to == run.worker && *at < run.started_at);
        let is_long_after = run.started_at > *end_at + 3 * HOP && !lost_a_cancel(record, run);
        run.started_at > *end_at && (was_told || is_long_after)
    })
}

/// Whether a fault kept a cancel message from the worker of a run that started late. One whose
/// connection was lost is to ask its caller first.
fn lost_a_cancel(record: &Record, run: &Run) -> bool {
    let mut faults = record.faults.iter();
    let lost_message = faults.any(|(_, point, event)| {
        let is_cancel = point.moment == Moment::Publish(Kind::Cancel);
        is_cancel && matches!(event, Event::LoseMessage | Event::Delay(_))
    });
    // The caller sends it at the end of the call, and again when it hears of the run.
    let end_at = record.end().map_or(Duration::ZERO, |(at, _)| *at);
    let mut outages = record.outages().filter(|outage| outage.party == Party::Caller);
    let is_cut_off = outages.any(|Outage { from, until, .. }| {
        let at_end = from <= end_at + 3 * HOP && end_at <= until;
        let at_start = from <= run.started_at && run.started_at <= until + 3 * HOP;
        at_end || at_start
    });
    lost_message || is_cut_off
}

/// A call that nobody waits for any more is stopped soon.
fn check_abandoned(record: &Record) -> Result<(), String> {
    let Some((end_at, End::Failed { .. } | End::Error(_))) = record.end() else { return Ok(()) };
    for Run { worker, started_at, stopped_at, .. } in &record.runs {
        let outages = record.outages().filter(|outage| outage.concerns(*worker));
        let heard_at =
            outages.map(|outage| outage.until).fold(*end_at.max(started_at), Duration::max);
        let by = heard_at + STOP_MARGIN + lost_time(record);
        if stopped_at.is_none_or(|at| at > by) {
            return Err(format!("{worker} did not stop a call that nobody waits for by {by:?}"));
        }
    }
    Ok(())
}

/// By how much faults delayed the stop of a call that nobody waits for.
fn lost_time(record: &Record) -> Duration {
    let delays = record.faults.iter().map(|(_, point, event)| match (point.moment, event) {
        (Moment::Publish(_), Event::Delay(ms)) => Duration::from_millis(*ms),
        (Moment::Publish(_), Event::LoseMessage) => HEARTBEAT_INTERVAL,
        _ => Duration::ZERO,
    });
    delays.sum()
}

/// How long workers took to find out that a reply was lost.
fn unnoticed_time(record: &Record) -> Duration {
    let replies = record.faults.iter().map(|(_, point, event)| match (point.moment, event) {
        (Moment::Publish(Kind::Reply), Event::LoseUnnoticed(ms)) => Duration::from_millis(*ms),
        _ => Duration::ZERO,
    });
    replies.sum()
}
