//! The metrics of the connection to RabbitMQ: the one place where they are defined. What is moved
//! on it is counted by [`toolbus_bus::metrics`], for every broker alike.

use std::sync::{Arc, Weak};

use opentelemetry::metrics::Counter;
use opentelemetry::{KeyValue, global};
use toolbus_telemetry::{Kind, Metric};

use crate::publisher::PublishOutcome;
use crate::shared::{ConnectionState, Shared};

/// The name of the meter, which is the scope of these metrics.
const METER: &str = "toolbus.rabbitmq";
const OUTCOME: &str = "toolbus.outcome";

const CONFIRMS: Metric = Metric {
    name: "toolbus.rabbitmq.confirms",
    kind: Kind::Counter,
    unit: "{message}",
    description: "What became of messages on the channel: `confirmed`, returned as `unroutable`, \
                  `refused`, `unconfirmed` when the answer was lost, `not_sent`, which are sent \
                  again; and `late`, for those whose confirm nobody waited for any longer",
    attributes: &[OUTCOME],
};
const CONNECTS: Metric = Metric {
    name: "toolbus.rabbitmq.connects",
    kind: Kind::Counter,
    unit: "{attempt}",
    description: "Attempts to connect, `ok` or `failed`; the first `ok` of a process is its start, \
                  each more a reconnect",
    attributes: &[OUTCOME],
};
const LOST: Metric = Metric {
    name: "toolbus.rabbitmq.connections.lost",
    kind: Kind::Counter,
    unit: "{connection}",
    description: "Connections that ended without being closed by us",
    attributes: &[],
};
const BLOCKS: Metric = Metric {
    name: "toolbus.rabbitmq.blocks",
    kind: Kind::Counter,
    unit: "{block}",
    description: "Times that the broker took no messages, since it was short of memory or disk",
    attributes: &[],
};
const UP: Metric = Metric {
    name: "toolbus.rabbitmq.connection.up",
    kind: Kind::ObservedGauge,
    unit: "{connection}",
    description: "1 while there is a connection, 0 while there is none",
    attributes: &[],
};
const BLOCKED: Metric = Metric {
    name: "toolbus.rabbitmq.connection.blocked",
    kind: Kind::ObservedGauge,
    unit: "{connection}",
    description: "1 while the broker takes no messages, else 0",
    attributes: &[],
};
const INTERRUPTED: Metric = Metric {
    name: "toolbus.rabbitmq.subscriptions.interrupted",
    kind: Kind::ObservedGauge,
    unit: "{subscription}",
    description: "Subscriptions that have no consumer at the broker for now",
    attributes: &[],
};

/// Every metric of this crate.
pub const METRICS: &[Metric] = &[CONFIRMS, CONNECTS, LOST, BLOCKS, UP, BLOCKED, INTERRUPTED];

/// What is counted as it happens. Clones count together.
#[derive(Debug, Clone)]
pub(crate) struct Metrics {
    confirms: Counter<u64>,
    connects: Counter<u64>,
    lost: Counter<u64>,
    blocks: Counter<u64>,
}

impl Metrics {
    /// To be made after telemetry was started.
    pub(crate) fn new() -> Self {
        let meter = &global::meter(METER);
        Self {
            confirms: CONFIRMS.counter(meter),
            connects: CONNECTS.counter(meter),
            lost: LOST.counter(meter),
            blocks: BLOCKS.counter(meter),
        }
    }

    /// What became of a message on the channel.
    pub(crate) fn record_settled(&self, outcome: &PublishOutcome) {
        self.record_answer(match outcome {
            PublishOutcome::Confirmed => "confirmed",
            PublishOutcome::Unroutable => "unroutable",
            PublishOutcome::Refused(_) => "refused",
            PublishOutcome::Unconfirmed => "unconfirmed",
            PublishOutcome::NotSent(_) => "not_sent",
        });
    }

    /// The answer to a message was not waited for any longer.
    pub(crate) fn record_late(&self) {
        self.record_answer("late");
    }

    pub(crate) fn record_connected(&self) {
        self.connects.add(1, &[KeyValue::new(OUTCOME, "ok")]);
    }

    pub(crate) fn not_connected(&self) {
        self.connects.add(1, &[KeyValue::new(OUTCOME, "failed")]);
    }

    pub(crate) fn record_lost(&self) {
        self.lost.add(1, &[]);
    }

    pub(crate) fn record_blocked(&self) {
        self.blocks.add(1, &[]);
    }

    fn record_answer(&self, outcome: &'static str) {
        self.confirms.add(1, &[KeyValue::new(OUTCOME, outcome)]);
    }
}

/// Makes what is looked up at each export. A bus that is gone is not looked up any more.
pub(crate) fn observe(shared: &Arc<Shared>) {
    let meter = &global::meter(METER);
    let gauge = |metric: &Metric, value: fn(&Shared) -> u64| {
        let shared: Weak<Shared> = Arc::downgrade(shared);
        metric.observed_gauge(meter, move |observer| {
            if let Some(shared) = shared.upgrade() {
                observer.observe(value(&shared), &[]);
            }
        });
    };

    gauge(&UP, |shared| u64::from(!matches!(*shared.state.borrow(), ConnectionState::Down(_))));
    gauge(&BLOCKED, |shared| {
        u64::from(matches!(*shared.state.borrow(), ConnectionState::Blocked(..)))
    });

    gauge(&INTERRUPTED, |shared| shared.count_interrupted() as u64);
}
