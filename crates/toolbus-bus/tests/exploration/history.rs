//! What happened in one run: the runs of the call, its end, and a trace in words.

use std::fmt;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use toolbus_bus::requester;
use toolbus_wire::{Envelope, ErrorCode, Execution, header};

use crate::event::{Event, Kind, Party, Point};

/// One run of the call at a worker. Times are counted from the start of the request.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    pub(crate) worker: Party,
    pub(crate) started_at: Duration,
    /// When it was completed, or dropped.
    pub(crate) stopped_at: Option<Duration>,
    pub(crate) is_completed: bool,
}

/// What the caller was told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    /// The result of the run of this number.
    Ok(String),
    /// A worker's reply that tells of an error.
    Failed { code: ErrorCode, execution: Execution, is_tentative: bool },
    /// There was no reply.
    Error(requester::Error),
}

/// A time for which a party was cut off.
pub(crate) struct Outage {
    pub(crate) party: Party,
    pub(crate) from: Duration,
    pub(crate) until: Duration,
}

impl Outage {
    /// Whether it kept this worker and the caller apart.
    pub(crate) fn concerns(&self, worker: Party) -> bool {
        self.party == worker || self.party == Party::Caller
    }
}

/// Everything that a judge wants to know of one run.
#[derive(Debug, Default)]
pub(crate) struct Record {
    pub(crate) runs: Vec<Run>,
    /// Each end that the caller was told.
    pub(crate) ends: Vec<(Duration, End)>,
    /// Faults, in order.
    pub(crate) faults: Vec<(Duration, Point, Event)>,
    /// Cancel messages that came to a worker.
    pub(crate) cancels: Vec<(Duration, Party)>,
    /// When the caller last took a heartbeat that names the call.
    pub(crate) heard_at: Option<Duration>,
    /// Requests that the requester still keeps after the end.
    pub(crate) pending: usize,
    /// The trace, where one is kept.
    lines: Vec<(Duration, String)>,
}

impl Record {
    pub(crate) fn was_killed(&self, party: Party) -> bool {
        self.faults.iter().any(|(_, _, event)| *event == Event::Kill(party))
    }

    /// When parties were cut off.
    pub(crate) fn outages(&self) -> impl Iterator<Item = Outage> {
        self.faults.iter().flat_map(|(from, _, event)| {
            let outages = event.outages().into_iter();
            outages.map(|(party, time)| Outage { party, from: *from, until: *from + time })
        })
    }

    /// The end of the call, and when it came.
    pub(crate) fn end(&self) -> Option<&(Duration, End)> {
        self.ends.first()
    }
}

/// The trace.
impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, line) in &self.lines {
            writeln!(f, "  {:7.3} s  {line}", at.as_secs_f64())?;
        }
        Ok(())
    }
}

/// Writes down what happens.
pub(crate) struct History {
    started_at: Instant,
    /// Words take time, so they are kept only for who will read them.
    keeps_trace: bool,
    record: Mutex<Record>,
}

impl History {
    pub(crate) fn new(keeps_trace: bool) -> Self {
        Self { started_at: Instant::now(), keeps_trace, record: Mutex::default() }
    }

    /// How long the run takes by now.
    pub(crate) fn now(&self) -> Duration {
        self.started_at.elapsed()
    }

    pub(crate) fn update<T>(&self, change: impl FnOnce(&mut Record) -> T) -> T {
        change(&mut self.record.lock())
    }

    pub(crate) fn trace(&self, line: impl FnOnce() -> String) {
        if self.keeps_trace {
            let line = line();
            self.update(|record| record.lines.push((self.now(), line)));
        }
    }

    pub(crate) fn add_event(&self, point: Point, event: Event) {
        self.trace(|| format!("{point}: {event}"));
        if event.is_fault() {
            self.update(|record| record.faults.push((self.now(), point, event)));
        }
    }

    pub(crate) fn add_cancel(&self, worker: Party) {
        self.trace(|| format!("{worker} takes a cancel message"));
        self.update(|record| record.cancels.push((self.now(), worker)));
    }

    /// Notes that the caller took a heartbeat.
    pub(crate) fn add_heartbeat(&self) {
        self.update(|record| record.heard_at = Some(self.now()));
    }

    /// Notes that a message was lost with the caller's queue.
    pub(crate) fn add_lost(&self, message: &Envelope) {
        if is_outcome(message) {
            self.trace(|| "the outcome is lost with the caller's queue".to_owned());
        }
    }

    /// Notes that no queue takes a message.
    pub(crate) fn add_unroutable(&self, message: &Envelope) {
        if is_outcome(message) {
            self.trace(|| "the caller has no queue for the outcome".to_owned());
        }
    }

    /// Adds a run and says which one it is.
    pub(crate) fn start_run(&self, worker: Party) -> usize {
        let run = Run { worker, started_at: self.now(), stopped_at: None, is_completed: false };
        self.update(|record| {
            record.runs.push(run);
            record.runs.len()
        })
    }

    pub(crate) fn stop_run(&self, number: usize, is_completed: bool) {
        let now = self.now();
        let worker = self.update(|record| {
            let run = &mut record.runs[number - 1];
            run.stopped_at = Some(now);
            run.is_completed = is_completed;
            run.worker
        });
        let how = if is_completed { "completes" } else { "drops" };
        self.trace(|| format!("{worker} {how} run {number}"));
    }

    pub(crate) fn add_end(&self, end: End) {
        self.trace(|| format!("the call ends: {end:?}"));
        self.update(|record| record.ends.push((self.now(), end)));
    }

    pub(crate) fn take(&self) -> Record {
        self.update(std::mem::take)
    }
}

/// Whether a message is the reply of a worker that knows the outcome of the call.
fn is_outcome(message: &Envelope) -> bool {
    Kind::of(message) == Kind::Reply && message.headers.get(header::TENTATIVE).is_none()
}
