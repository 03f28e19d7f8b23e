//! The spans of models: the one place where they are defined. Their names are OpenTelemetry's.

use toolbus_telemetry::{Span, SpanKind};

use crate::completion::Completion;

/// Every span of this crate.
pub const SPANS: &[Span] = &[Span {
    name: "chat {model}",
    kind: SpanKind::Client,
    description: "A request to a model, from its key to the end of its answer",
    attributes: &[
        "gen_ai.operation.name",
        "gen_ai.provider.name",
        "gen_ai.request.model",
        "gen_ai.response.model",
        "gen_ai.usage.input_tokens",
        "gen_ai.usage.output_tokens",
    ],
}];

/// The span of a request.
pub(crate) fn chat_span(model: &str, provider: &str) -> tracing::Span {
    tracing::info_span!(
        "chat",
        otel.name = format!("chat {model}"),
        otel.kind = "client",
        gen_ai.operation.name = "chat",
        gen_ai.provider.name = provider,
        gen_ai.request.model = model,
        gen_ai.response.model = tracing::field::Empty,
        gen_ai.usage.input_tokens = tracing::field::Empty,
        gen_ai.usage.output_tokens = tracing::field::Empty,
    )
}

/// Notes on the span of a request what its answer took.
pub(crate) fn record_usage(completion: &Completion) {
    let span = tracing::Span::current();
    span.record("gen_ai.response.model", completion.model.as_str());
    span.record("gen_ai.usage.input_tokens", completion.usage.input);
    span.record("gen_ai.usage.output_tokens", completion.usage.output);
}
