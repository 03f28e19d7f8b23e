//! The metrics and spans of this server: the one place where they are defined. The names are
//! OpenTelemetry's for MCP servers.

use toolbus_telemetry::{Kind, Metric, Span, SpanKind};

pub(crate) const METHOD: &str = "mcp.method.name";
pub(crate) const TOOL: &str = "gen_ai.tool.name";
pub(crate) const ERROR: &str = "error.type";

/// Bounds in seconds: those that the conventions name for MCP.
const SECONDS: &[f64] = &[0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0];

pub(crate) const DURATION: Metric = Metric {
    name: "mcp.server.operation.duration",
    kind: Kind::Histogram(SECONDS),
    unit: "s",
    description: "How long requests of MCP clients took",
    attributes: &[METHOD, TOOL, ERROR],
};

/// Every metric of this crate.
pub const METRICS: &[Metric] = &[DURATION];

/// Every span of this crate.
pub const SPANS: &[Span] = &[Span {
    name: "tools/call {tool}",
    kind: SpanKind::Server,
    description: "A call of a tool; the parent is the span that the client names in `_meta`",
    attributes: &[METHOD, "gen_ai.operation.name", TOOL, ERROR],
}];
