//! The metrics and spans of MCP servers: the one place where they are defined. Those of requests
//! have OpenTelemetry's names for MCP clients, from [`toolbus_telemetry::mcp`], and are made in
//! [`crate::record`].

use opentelemetry::metrics::{Counter, Histogram, Meter};
use opentelemetry::{KeyValue, global};
use toolbus_telemetry::mcp::Labels;
pub use toolbus_telemetry::mcp::SERVER;
pub(crate) use toolbus_telemetry::mcp::{
    ADDRESS, ERROR, METHOD, OPERATION, PORT, PROMPT, PROTOCOL, REQUEST, RESOURCE, SESSION, STATUS,
    TOOL, TRANSPORT,
};
use toolbus_telemetry::{CALL_SECONDS, Kind, Metric, Span, SpanKind};

use crate::server_name::ServerName;

/// The name of the meter, which is the scope of these metrics.
pub(crate) const METER: &str = "toolbus.mcp";

const OUTCOME: &str = "toolbus.outcome";

pub(crate) const UP: Metric = Metric {
    name: "toolbus.mcp.server.up",
    kind: Kind::ObservedGauge,
    unit: "{server}",
    description: "1 while a server is connected, else 0",
    attributes: &[SERVER],
};
pub(crate) const TOOLS: Metric = Metric {
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
const HUNG: Metric = Metric {
    name: "toolbus.mcp.server.connections.hung",
    kind: Kind::Counter,
    unit: "{connection}",
    description: "Connections that were given up because the server answered neither calls nor a \
                  probe; they count as lost too",
    attributes: &[SERVER],
};
pub(crate) const CIRCUIT_OPEN: Metric = Metric {
    name: "toolbus.mcp.server.circuit.open",
    kind: Kind::ObservedGauge,
    unit: "{server}",
    description: "1 while calls of a server are refused at once because it stays away, else 0",
    attributes: &[SERVER],
};
const CIRCUIT_CHANGES: Metric = Metric {
    name: "toolbus.mcp.server.circuit.changes",
    kind: Kind::Counter,
    unit: "{change}",
    description: "Times that calls of a server began to be refused because it stays away \
                  (`opened`), and that it was connected again (`closed`)",
    attributes: &[SERVER, OUTCOME],
};

/// The duration of requests.
pub const OPERATION_DURATION: Metric = Metric {
    name: "mcp.client.operation.duration",
    kind: Kind::Histogram(CALL_SECONDS),
    unit: "s",
    description: "How long requests to MCP servers took, the first of a connection from its \
                  beginning (for a program: its start); a tool that its server does not list has no \
                  name",
    attributes: &[SERVER, TRANSPORT, METHOD, PROTOCOL, OPERATION, TOOL, ERROR, STATUS],
};
/// The duration of connections.
pub const SESSION_DURATION: Metric = Metric {
    name: "mcp.client.session.duration",
    kind: Kind::Histogram(CALL_SECONDS),
    unit: "s",
    description: "How long connections to MCP servers lasted; `connection_lost` where the server was \
                  still wanted",
    attributes: &[SERVER, TRANSPORT, PROTOCOL, ERROR],
};

/// Every metric of this crate.
pub const METRICS: &[Metric] = &[
    UP,
    TOOLS,
    CONNECTS,
    LOST,
    HUNG,
    CIRCUIT_OPEN,
    CIRCUIT_CHANGES,
    OPERATION_DURATION,
    SESSION_DURATION,
];

/// Every span of this crate.
pub const SPANS: &[Span] = &[
    Span {
        name: "tools/call {tool}",
        kind: SpanKind::Client,
        description: "A call of a tool, from the request to the MCP server to its answer; without \
                      the tool where the server does not list it",
        attributes: &[
            SERVER, TRANSPORT, ADDRESS, PORT, METHOD, PROTOCOL, SESSION, REQUEST, OPERATION, TOOL,
            ERROR, STATUS,
        ],
    },
    Span {
        name: "{method}",
        kind: SpanKind::Client,
        description: "Any other request to an MCP server, such as `tools/list` or `prompts/get`",
        attributes: &[
            SERVER, TRANSPORT, ADDRESS, PORT, METHOD, PROTOCOL, SESSION, REQUEST, PROMPT, RESOURCE,
            ERROR, STATUS,
        ],
    },
];

/// The counters and histograms of all servers.
#[derive(Debug)]
pub(crate) struct Metrics {
    pub(crate) labels: Labels,
    connects: Counter<u64>,
    lost: Counter<u64>,
    hung: Counter<u64>,
    circuit_changes: Counter<u64>,
    pub(crate) operations: Histogram<f64>,
    pub(crate) sessions: Histogram<f64>,
}

impl Metrics {
    /// Creates the instruments. Telemetry must be started before.
    pub(crate) fn new() -> Self {
        Self::of(&global::meter(METER))
    }

    fn of(meter: &Meter) -> Self {
        Self {
            labels: Labels::default(),
            connects: CONNECTS.counter(meter),
            lost: LOST.counter(meter),
            hung: HUNG.counter(meter),
            circuit_changes: CIRCUIT_CHANGES.counter(meter),
            operations: OPERATION_DURATION.histogram(meter),
            sessions: SESSION_DURATION.histogram(meter),
        }
    }

    /// Counts a successful attempt to connect.
    pub(crate) fn count_connect(&self, server: &ServerName) {
        self.connects.add(1, &[self.label_of(server), KeyValue::new(OUTCOME, "ok")]);
    }

    /// Counts a failed attempt to connect.
    pub(crate) fn count_failed_connect(&self, server: &ServerName) {
        self.connects.add(1, &[self.label_of(server), KeyValue::new(OUTCOME, "failed")]);
    }

    /// Counts a lost connection to this server, which is a label of [`Metrics::label_of`].
    pub(crate) fn count_lost(&self, server: &KeyValue) {
        self.lost.add(1, std::slice::from_ref(server));
    }

    /// Counts a connection that was given up because the server hangs.
    pub(crate) fn count_hung(&self, server: &ServerName) {
        self.hung.add(1, &[self.label_of(server)]);
    }

    /// Counts that calls of a server begin to be refused at once, or no longer are.
    pub(crate) fn count_circuit_change(&self, server: &ServerName, is_open: bool) {
        let change = if is_open { "opened" } else { "closed" };
        self.circuit_changes.add(1, &[self.label_of(server), KeyValue::new(OUTCOME, change)]);
    }

    /// The label of a server.
    pub(crate) fn label_of(&self, server: &ServerName) -> KeyValue {
        self.labels.server(server.as_str())
    }
}

#[cfg(test)]
mod tests;
