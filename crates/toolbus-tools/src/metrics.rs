//! The metrics and spans of calls: the one place where they are defined. Names and tags are
//! `RockBot`'s; the span has OpenTelemetry's names for the execution of a tool beside them.

use toolbus_telemetry::{Kind, Metric, Span, SpanKind};

/// The name of the meter, which is the scope of these metrics.
pub(crate) const METER: &str = "RockBot.Tools";

pub(crate) const TOOL: &str = "rockbot.tool.name";
pub(crate) const STATUS: &str = "rockbot.tool.status";
pub(crate) const SUBJECT: &str = "toolbus.tool.subject";
pub(crate) const GRANT_RESULT: &str = "toolbus.grant.result";
pub(crate) const GRANT_VERSION: &str = "toolbus.grant.version";

/// Bounds in milliseconds: from a local tool to one that is given minutes.
const MILLISECONDS: &[f64] = &[
    5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1_000.0, 2_500.0, 5_000.0, 10_000.0, 30_000.0,
    60_000.0, 120_000.0, 300_000.0,
];

pub(crate) const DURATION: Metric = Metric {
    name: "rockbot.tool.invoke.duration",
    kind: Kind::Histogram(MILLISECONDS),
    unit: "ms",
    description: "How long calls of tools took, from the first gate to the last",
    attributes: &[TOOL, STATUS],
};
pub(crate) const INVOCATIONS: Metric = Metric {
    name: "rockbot.tool.invocations",
    kind: Kind::Counter,
    unit: "{invocation}",
    description: "Calls of tools by outcome: `ok` (also where the tool itself tells of an error) or \
                  the error's code; a tool that was not found has no name",
    attributes: &[TOOL, STATUS],
};

pub(crate) const GRANT_CHECKS: Metric = Metric {
    name: "toolbus.grant.checks",
    kind: Kind::Counter,
    unit: "{request}",
    description: "Requests whose grant a worker has checked, by the grant's version (`1` by the \
                  shared key, `2` signed, `none`) and by what it found: `valid`, `missing` (taken \
                  without one), `missing_refused`, `malformed`, `unknown_version`, `unknown_key`, \
                  `shared_key_ended`, `expired` or `mismatch`; only workers with a key count them",
    attributes: &[GRANT_RESULT, GRANT_VERSION],
};

/// Every metric of this crate.
pub const METRICS: &[Metric] = &[DURATION, INVOCATIONS, GRANT_CHECKS];

/// Every span of this crate.
pub const SPANS: &[Span] = &[Span {
    name: "tool.invoke {tool}",
    kind: SpanKind::Internal,
    description: "A call of a tool, from the first gate to its outcome",
    attributes: &[
        TOOL,
        "rockbot.tool.call_id",
        "rockbot.tool.error_code",
        SUBJECT,
        "gen_ai.operation.name",
        "gen_ai.tool.name",
        "gen_ai.tool.call.id",
        "error.type",
    ],
}];
