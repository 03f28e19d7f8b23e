//! What an adapter moves, as metrics.

use std::time::Instant;

use opentelemetry::metrics::{Counter, Histogram, Meter};
use opentelemetry::{KeyValue, global};

use super::{
    CONSUMED, DEAD_LETTERS, DESTINATION, ERROR, METER, OPERATION, OPERATION_TYPE, PROCESS_DURATION,
    PUBLISH_DURATION, REASON, REDELIVERIES, SENT, SYSTEM,
};

/// Why a message became a dead letter, as the metric has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeadLetterReason {
    /// Its handler did not want it.
    Refused,
    /// Its handler panicked.
    HandlerPanicked,
    /// It cannot be given to any handler.
    Unreadable,
    /// Its time was over.
    Expired,
}

impl DeadLetterReason {
    fn label(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::HandlerPanicked => "handler_panicked",
            Self::Unreadable => "unreadable",
            Self::Expired => "expired",
        }
    }
}

/// Metrics of an adapter: the messages that it moves. To be made after telemetry was started.
#[derive(Debug)]
pub struct Traffic {
    system: &'static str,
    sent: Counter<u64>,
    publish_duration: Histogram<f64>,
    consumed: Counter<u64>,
    process_duration: Histogram<f64>,
    redeliveries: Counter<u64>,
    dead_letters: Counter<u64>,
}

/// A message that is being published or handled. Recorded when it is dropped.
pub(crate) struct MessageRecord<'a> {
    traffic: &'a Traffic,
    operation: TrafficOperation,
    destination: &'static str,
    started_at: Instant,
    /// Why it failed, if it did.
    pub(crate) error: Option<&'static str>,
}

#[derive(Clone, Copy)]
enum TrafficOperation {
    Publish,
    Process,
}

impl Traffic {
    /// The instruments of an adapter to this system, as OpenTelemetry names it.
    #[must_use]
    pub fn new(system: &'static str) -> Self {
        Self::of_meter(system, &global::meter(METER))
    }

    pub(super) fn of_meter(system: &'static str, meter: &Meter) -> Self {
        Self {
            system,
            sent: SENT.counter(meter),
            publish_duration: PUBLISH_DURATION.histogram(meter),
            consumed: CONSUMED.counter(meter),
            process_duration: PROCESS_DURATION.histogram(meter),
            redeliveries: REDELIVERIES.counter(meter),
            dead_letters: DEAD_LETTERS.counter(meter),
        }
    }

    /// The system that messages go through, as OpenTelemetry names it.
    pub(crate) fn system(&self) -> &'static str {
        self.system
    }

    /// Counts a dead letter, of a topic's [template](toolbus_wire::Topic::template). One that a
    /// handler asked for is counted where the handler is run.
    pub fn dead_letter(&self, destination: &'static str, reason: DeadLetterReason) {
        let reason = KeyValue::new(REASON, reason.label());
        self.dead_letters.add(1, &[KeyValue::new(DESTINATION, destination), reason]);
    }

    pub(crate) fn publishing(&self, destination: &'static str) -> MessageRecord<'_> {
        self.record_operation(TrafficOperation::Publish, destination)
    }

    pub(crate) fn record_process(
        &self,
        destination: &'static str,
        redelivered: bool,
    ) -> MessageRecord<'_> {
        let from = KeyValue::new(DESTINATION, destination);
        if redelivered {
            self.redeliveries.add(1, std::slice::from_ref(&from));
        }
        let operation = KeyValue::new(OPERATION, "process");
        self.consumed.add(1, &[KeyValue::new(SYSTEM, self.system), operation, from]);
        self.record_operation(TrafficOperation::Process, destination)
    }

    fn record_operation(
        &self,
        operation: TrafficOperation,
        destination: &'static str,
    ) -> MessageRecord<'_> {
        MessageRecord {
            traffic: self,
            operation,
            destination,
            started_at: Instant::now(),
            error: None,
        }
    }
}

impl Drop for MessageRecord<'_> {
    fn drop(&mut self) {
        let (name, kind) = match self.operation {
            TrafficOperation::Publish => ("publish", "send"),
            TrafficOperation::Process => ("process", "process"),
        };

        // In an order in which the first four or three are what a point without an error has.
        let tags = [
            KeyValue::new(OPERATION_TYPE, kind),
            KeyValue::new(SYSTEM, self.traffic.system),
            KeyValue::new(OPERATION, name),
            KeyValue::new(DESTINATION, self.destination),
            KeyValue::new(ERROR, self.error.unwrap_or_default()),
        ];
        let end = if self.error.is_some() { tags.len() } else { tags.len() - 1 };
        let seconds = self.started_at.elapsed().as_secs_f64();

        match self.operation {
            TrafficOperation::Publish => {
                self.traffic.publish_duration.record(seconds, &tags[..end]);
                self.traffic.sent.add(1, &tags[1..end]);
            }
            TrafficOperation::Process => {
                self.traffic.process_duration.record(seconds, &tags[..end])
            }
        }
    }
}
