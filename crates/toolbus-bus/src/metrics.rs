//! The metrics and spans of the bus: what an adapter moves, what a requester waits for, what a
//! responder answers. This is the one place where they are defined.
//!
//! Destinations are topics with the names left out ([`toolbus_wire::Topic::template`]), and agents
//! pass through a bound, so the number of time series does not depend on who is on the bus. Every
//! value on the way of a message is a fixed text or a shared one: recording copies none.

mod calls;
mod clocks;
mod traffic;

use toolbus_telemetry::{CALL_SECONDS, Kind, MESSAGE_SECONDS, Metric, Span, SpanKind};

pub(crate) use calls::{Answered, Asked, AtWork};
pub(crate) use clocks::ClockSkew;
pub use traffic::{DeadLetterReason, Traffic};

/// The name of the meter, which is the scope of these metrics.
const METER: &str = "toolbus.bus";

/// Bounds of a difference of clocks, in seconds: fine around what is reported.
const SKEW_SECONDS: &[f64] =
    &[0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 3_600.0];

const SYSTEM: &str = "messaging.system";
const OPERATION: &str = "messaging.operation.name";
const OPERATION_TYPE: &str = "messaging.operation.type";
const DESTINATION: &str = "messaging.destination.template";
const ERROR: &str = "error.type";
const CALLER: &str = "toolbus.caller";
const STATUS: &str = "toolbus.status";
const REASON: &str = "toolbus.reason";

const SENT: Metric = Metric {
    name: "messaging.client.sent.messages",
    kind: Kind::Counter,
    unit: "{message}",
    description: "Messages that were published, or failed to be",
    attributes: &[SYSTEM, OPERATION, DESTINATION, ERROR],
};
const PUBLISH_DURATION: Metric = Metric {
    name: "messaging.client.operation.duration",
    kind: Kind::Histogram(MESSAGE_SECONDS),
    unit: "s",
    description: "How long publishing took, from the wish to the broker's confirm; or until nobody \
                  waited for it, since the reply was there before",
    attributes: &[SYSTEM, OPERATION, OPERATION_TYPE, DESTINATION, ERROR],
};
const CONSUMED: Metric = Metric {
    name: "messaging.client.consumed.messages",
    kind: Kind::Counter,
    unit: "{message}",
    description: "Messages that were handed to a handler",
    attributes: &[SYSTEM, OPERATION, DESTINATION],
};
const PROCESS_DURATION: Metric = Metric {
    name: "messaging.process.duration",
    kind: Kind::Histogram(CALL_SECONDS),
    unit: "s",
    description: "How long handlers took; of a call, as long as the call",
    attributes: &[SYSTEM, OPERATION, OPERATION_TYPE, DESTINATION, ERROR],
};
const REDELIVERIES: Metric = Metric {
    name: "toolbus.bus.redeliveries",
    kind: Kind::Counter,
    unit: "{message}",
    description: "Messages that came again because whoever had them before did not answer for them",
    attributes: &[DESTINATION],
};
const DEAD_LETTERS: Metric = Metric {
    name: "toolbus.bus.dead_letters",
    kind: Kind::Counter,
    unit: "{message}",
    description: "Messages that could not be handled, by why: `refused` by the handler, \
                  `handler_panicked`, `unreadable`, `expired`",
    attributes: &[DESTINATION, REASON],
};
const DROPPED_REPLIES: Metric = Metric {
    name: "toolbus.bus.replies.dropped",
    kind: Kind::Counter,
    unit: "{message}",
    description: "Replies that nobody waited for: `late` to a request that had ended, `unknown` to \
                  one that was never made",
    attributes: &[CALLER, REASON],
};
const REQUEST_DURATION: Metric = Metric {
    name: "toolbus.bus.request.duration",
    kind: Kind::Histogram(CALL_SECONDS),
    unit: "s",
    description: "How long an agent waited for the reply to a request, or for its failure on the \
                  way",
    attributes: &[CALLER, DESTINATION, ERROR],
};
const REQUESTS_WAITING: Metric = Metric {
    name: "toolbus.bus.requests.waiting",
    kind: Kind::UpDownCounter,
    unit: "{request}",
    description: "Requests of an agent that wait for their reply",
    attributes: &[CALLER, DESTINATION],
};
const CALLS: Metric = Metric {
    name: "toolbus.bus.calls",
    kind: Kind::Counter,
    unit: "{call}",
    description: "Requests that a worker answered, by their caller and by `ok` or the error's code",
    attributes: &[CALLER, DESTINATION, STATUS],
};
const CALLS_RUNNING: Metric = Metric {
    name: "toolbus.bus.calls.running",
    kind: Kind::UpDownCounter,
    unit: "{call}",
    description: "Requests that a worker is at work on, by their caller",
    attributes: &[CALLER, DESTINATION],
};
const CALLS_REPEATED: Metric = Metric {
    name: "toolbus.bus.calls.repeated",
    kind: Kind::Counter,
    unit: "{call}",
    description: "Requests that came again and were answered with the outcome of their first time",
    attributes: &[CALLER, DESTINATION],
};

const CLOCK_SKEW: Metric = Metric {
    name: "toolbus.bus.clock_skew",
    kind: Kind::Histogram(SKEW_SECONDS),
    unit: "s",
    description: "By how much the wall clock at the other end of a call is ahead of this process's, \
                  at least; 0 where it is behind, which the other end sees. A worker records it \
                  with each request, an agent with each heartbeat of a worker",
    attributes: &[CALLER],
};

/// Every metric of this crate.
pub const METRICS: &[Metric] = &[
    SENT,
    PUBLISH_DURATION,
    CONSUMED,
    PROCESS_DURATION,
    REDELIVERIES,
    DEAD_LETTERS,
    DROPPED_REPLIES,
    REQUEST_DURATION,
    REQUESTS_WAITING,
    CALLS,
    CALLS_RUNNING,
    CALLS_REPEATED,
    CLOCK_SKEW,
];

/// Every span of this crate.
pub const SPANS: &[Span] = &[
    Span {
        name: "publish",
        kind: SpanKind::Producer,
        description: "Publishing a message, until the broker has it",
        attributes: &[
            SYSTEM,
            OPERATION,
            OPERATION_TYPE,
            "messaging.destination.name",
            DESTINATION,
            "messaging.message.id",
            "messaging.message.conversation_id",
            "messaging.message.body.size",
            ERROR,
        ],
    },
    Span {
        name: "process",
        kind: SpanKind::Consumer,
        description: "Handling a message; the parent is the span that published it",
        attributes: &[
            SYSTEM,
            OPERATION,
            OPERATION_TYPE,
            "messaging.destination.name",
            DESTINATION,
            "messaging.message.id",
            "messaging.message.conversation_id",
            "messaging.message.body.size",
            "messaging.result",
            ERROR,
        ],
    },
];

#[cfg(test)]
mod tests;
