//! The metrics of MCP servers: the one place where they are defined.

use std::sync::Arc;

use opentelemetry::metrics::Counter;
use opentelemetry::{KeyValue, global};
use toolbus_telemetry::{Bounded, Kind, Metric};

use crate::server::State;
use crate::server_name::ServerName;
use crate::servers::Reference;

/// The name of the meter, which is the scope of these metrics.
const METER: &str = "toolbus.mcp";
/// Most servers that are told apart.
const SERVERS_MAX: usize = 200;

const SERVER: &str = "toolbus.mcp.server";
const OUTCOME: &str = "toolbus.outcome";

const UP: Metric = Metric {
    name: "toolbus.mcp.server.up",
    kind: Kind::ObservedGauge,
    unit: "{server}",
    description: "1 while a server is connected, else 0",
    attributes: &[SERVER],
};
const TOOLS: Metric = Metric {
    name: "toolbus.mcp.server.tools",
    kind: Kind::ObservedGauge,
    unit: "{tool}",
    description: "Tools of a connected server that may be called",
    attributes: &[SERVER],
};
const CONNECTS: Metric = Metric {
    name: "toolbus.mcp.server.connects",
    kind: Kind::Counter,
    unit: "{attempt}",
    description: "Attempts to connect a server (for a program: to start it), `ok` or `failed`; each \
                  `ok` after the first is a restart",
    attributes: &[SERVER, OUTCOME],
};
const LOST: Metric = Metric {
    name: "toolbus.mcp.server.connections.lost",
    kind: Kind::Counter,
    unit: "{connection}",
    description: "Connections that ended while the server was wanted",
    attributes: &[SERVER],
};

/// Every metric of this crate.
pub const METRICS: &[Metric] = &[UP, TOOLS, CONNECTS, LOST];

/// What is counted as it happens.
#[derive(Debug)]
pub(crate) struct Metrics {
    servers: Bounded,
    connects: Counter<u64>,
    lost: Counter<u64>,
}

impl Metrics {
    /// To be made after telemetry was started.
    pub(crate) fn new() -> Self {
        let meter = &global::meter(METER);
        Self {
            servers: Bounded::new(SERVERS_MAX),
            connects: CONNECTS.counter(meter),
            lost: LOST.counter(meter),
        }
    }

    pub(crate) fn connected(&self, server: &ServerName) {
        self.connects.add(1, &[self.of(server), KeyValue::new(OUTCOME, "ok")]);
    }

    pub(crate) fn not_connected(&self, server: &ServerName) {
        self.connects.add(1, &[self.of(server), KeyValue::new(OUTCOME, "failed")]);
    }

    pub(crate) fn lost(&self, server: &ServerName) {
        self.lost.add(1, &[self.of(server)]);
    }

    fn of(&self, server: &ServerName) -> KeyValue {
        KeyValue::new(SERVER, self.servers.value(server.as_str()))
    }
}

/// Makes what is looked up at each export. Servers of a set that is gone are not looked up any
/// more.
pub(crate) fn observe(set: Reference) {
    let set = Arc::new(set);
    let meter = &global::meter(METER);
    let gauge = |metric: &Metric, value: fn(&State) -> Option<u64>| {
        let (set, servers) = (Arc::clone(&set), Bounded::new(SERVERS_MAX));
        metric.observed_gauge(meter, move |observer| {
            for (name, state) in set.upgrade().iter().flat_map(|set| set.states()) {
                if let Some(value) = value(&state) {
                    let server = KeyValue::new(SERVER, servers.value(name.as_str()));
                    observer.observe(value, &[server]);
                }
            }
        });
    };
    gauge(&UP, |state| Some(u64::from(matches!(state, State::Connected { .. }))));
    gauge(&TOOLS, |state| match state {
        State::Connected { tools, .. } => Some(*tools as u64),
        _ => None,
    });
}
