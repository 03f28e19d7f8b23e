//! Both ends of a call, as metrics.

use std::sync::Arc;
use std::time::Instant;

use opentelemetry::metrics::{Counter, Histogram, Meter, UpDownCounter};
use opentelemetry::{KeyValue, StringValue, global};
use toolbus_telemetry::Bounded;

use super::{
    CALLER, CALLS, CALLS_REPEATED, CALLS_RUNNING, DESTINATION, DROPPED_REPLIES, ERROR, METER,
    REASON, REQUEST_DURATION, REQUESTS_WAITING, STATUS,
};

/// Most agents that are told apart.
pub(super) const CALLERS_MAX: usize = 100;

/// Metrics of a requester: the calls that it makes.
#[derive(Debug)]
pub(crate) struct Asked {
    caller: StringValue,
    duration: Histogram<f64>,
    waiting: UpDownCounter<i64>,
    dropped: Counter<u64>,
}

impl Asked {
    pub(crate) fn new(caller: &str) -> Self {
        Self::of_meter(caller, &global::meter(METER))
    }

    pub(super) fn of_meter(caller: &str, meter: &Meter) -> Self {
        Self {
            caller: Arc::<str>::from(caller).into(),
            duration: REQUEST_DURATION.histogram(meter),
            waiting: REQUESTS_WAITING.up_down_counter(meter),
            dropped: DROPPED_REPLIES.counter(meter),
        }
    }

    /// A request that waits from now on, until the result is given its end or is dropped.
    pub(crate) fn wait(&self, destination: &'static str) -> Waiting<'_> {
        let tags = [self.caller(), KeyValue::new(DESTINATION, destination)];
        self.waiting.add(1, &tags);
        Waiting { asked: self, tags, started_at: Instant::now(), error: Some("cancelled") }
    }

    pub(crate) fn record_dropped(&self, reason: &'static str) {
        self.dropped.add(1, &[self.caller(), KeyValue::new(REASON, reason)]);
    }

    fn caller(&self) -> KeyValue {
        KeyValue::new(CALLER, self.caller.clone())
    }
}

/// A request that waits.
pub(crate) struct Waiting<'a> {
    asked: &'a Asked,
    tags: [KeyValue; 2],
    started_at: Instant,
    error: Option<&'static str>,
}

impl Waiting<'_> {
    /// Records the end of the request: with a reply, or with this error.
    pub(crate) fn end(mut self, error: Option<&'static str>) {
        self.error = error;
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let Self { asked, tags, started_at, error } = self;
        asked.waiting.add(-1, tags);
        let seconds = started_at.elapsed().as_secs_f64();
        match *error {
            None => asked.duration.record(seconds, tags),
            Some(error) => {
                let [caller, destination] = tags.clone();
                let tags = [caller, destination, KeyValue::new(ERROR, error)];
                asked.duration.record(seconds, &tags);
            }
        }
    }
}

/// Metrics of a responder: the calls that it answers.
#[derive(Debug)]
pub(crate) struct Answered {
    callers: Bounded,
    destination: &'static str,
    calls: Counter<u64>,
    running: UpDownCounter<i64>,
    repeated: Counter<u64>,
}

impl Answered {
    pub(crate) fn new(destination: &'static str) -> Self {
        Self::of_meter(destination, &global::meter(METER))
    }

    pub(super) fn of_meter(destination: &'static str, meter: &Meter) -> Self {
        Self {
            callers: Bounded::new(CALLERS_MAX),
            destination,
            calls: CALLS.counter(meter),
            running: CALLS_RUNNING.up_down_counter(meter),
            repeated: CALLS_REPEATED.counter(meter),
        }
    }

    /// A call that this worker is at work on, until the result is given its end or is dropped.
    pub(crate) fn work(&self, caller: &str) -> AtWork<'_> {
        let tags = [
            KeyValue::new(CALLER, self.callers.value(caller)),
            KeyValue::new(DESTINATION, self.destination),
        ];
        self.running.add(1, &tags);
        AtWork { answered: self, tags, status: "dropped" }
    }
}

/// A call that a worker is at work on.
pub(crate) struct AtWork<'a> {
    answered: &'a Answered,
    tags: [KeyValue; 2],
    status: &'static str,
}

impl AtWork<'_> {
    /// Records that the request is answered with the outcome of its first time.
    pub(crate) fn mark_repeat(&self) {
        self.answered.repeated.add(1, &self.tags);
    }

    /// Records the end of the request, with this error if with any.
    pub(crate) fn end(mut self, error: Option<&'static str>) {
        self.status = error.unwrap_or("ok");
    }
}

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        let Self { answered, tags, status } = self;
        answered.running.add(-1, tags);
        let [caller, destination] = tags.clone();
        answered.calls.add(1, &[caller, destination, KeyValue::new(STATUS, *status)]);
    }
}
