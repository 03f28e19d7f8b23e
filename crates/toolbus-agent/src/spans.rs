//! The spans of the agent: the one place where they are defined. Their names are OpenTelemetry's.

use toolbus_telemetry::{Span, SpanKind};
use toolbus_tools::Scope;

/// Every span of this crate.
pub const SPANS: &[Span] = &[Span {
    name: "invoke_agent {agent}",
    kind: SpanKind::Internal,
    description: "A turn of the agent, from what the user says to its end: the requests to models \
                  and the calls of tools are below it",
    attributes: &["gen_ai.operation.name", "gen_ai.agent.name", "gen_ai.conversation.id"],
}];

/// The span of a turn.
pub(crate) fn turn_span(scope: &Scope) -> tracing::Span {
    tracing::info_span!(
        "invoke_agent",
        otel.name = format!("invoke_agent {}", scope.agent),
        otel.kind = "internal",
        gen_ai.operation.name = "invoke_agent",
        gen_ai.agent.name = scope.agent.as_str(),
        gen_ai.conversation.id = scope.session.as_ref().map(|session| session.as_str()),
    )
}
