//! Trace context at the bus: spans of publishing and processing, and how they hang together.
//!
//! The context of the span that publishes travels in the envelope, and the span that processes the
//! message becomes its child, so one call is one trace through any number of processes. Their names
//! and attributes are listed in [`crate::metrics::SPANS`].

use opentelemetry::trace::{
    SpanContext, SpanId, TraceContextExt as _, TraceFlags, TraceId, TraceState,
};
use toolbus_wire::message::toolbus::Alive;
use toolbus_wire::{Envelope, Topic, TraceContext, message};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

use crate::Delivery;

/// The span of publishing a message (OpenTelemetry kind: producer); none for a heartbeat, which
/// belongs to no call and comes every second.
pub(crate) fn publish_span(system: &str, topic: &Topic, envelope: &Envelope) -> Span {
    if message::is::<Alive>(envelope) {
        return Span::none();
    }

    tracing::info_span!(
        "publish",
        otel.kind = "producer",
        otel.status_code = tracing::field::Empty,
        messaging.system = system,
        messaging.operation.name = "publish",
        messaging.operation.type = "send",
        messaging.destination.name = topic.as_str(),
        messaging.destination.template = topic.template(),
        messaging.message.id = envelope.message_id,
        messaging.message.conversation_id = envelope.correlation_id,
        messaging.message.body.size = envelope.body.len(),
        error.type = tracing::field::Empty,
    )
}

/// The span of processing a message (OpenTelemetry kind: consumer), as a child of the span that
/// published it; none for a heartbeat.
pub(crate) fn process_span(system: &str, delivery: &Delivery) -> Span {
    let envelope = &delivery.envelope;
    if message::is::<Alive>(envelope) {
        return Span::none();
    }

    let span = tracing::info_span!(
        "process",
        otel.kind = "consumer",
        otel.status_code = tracing::field::Empty,
        messaging.system = system,
        messaging.operation.name = "process",
        messaging.operation.type = "process",
        messaging.destination.name = delivery.topic.as_str(),
        messaging.destination.template = delivery.topic.template(),
        messaging.message.id = envelope.message_id,
        messaging.message.conversation_id = envelope.correlation_id,
        messaging.message.body.size = envelope.body.len(),
        messaging.result = tracing::field::Empty,
        error.type = tracing::field::Empty,
    );
    if let (false, Some(parent)) =
        (span.is_disabled(), envelope.trace.as_ref().and_then(to_span_context))
    {
        // It fails only where no OpenTelemetry layer is installed, and then there is no trace.
        let _ = span.set_parent(opentelemetry::Context::new().with_remote_span_context(parent));
    }

    span
}

/// Marks a span as failed, in these words.
pub(crate) fn fail(span: &Span, error: &'static str) {
    span.record("error.type", error);
    span.record("otel.status_code", "ERROR");
}

/// Writes the context of `span` into the envelope. Where there is none, what the envelope carries
/// already stays.
pub fn inject(span: &Span, envelope: &mut Envelope) {
    if span.is_disabled() {
        return;
    }
    let context = span.context();
    let context = context.span().span_context().clone();
    if context.is_valid() {
        envelope.trace = to_trace_context(&context);
    }
}

fn to_trace_context(context: &SpanContext) -> Option<TraceContext> {
    let traceparent = format!(
        "00-{}-{}-{:02x}",
        context.trace_id(),
        context.span_id(),
        (context.trace_flags() & TraceFlags::SAMPLED).to_u8()
    );
    TraceContext::parse(&traceparent, Some(&context.trace_state().header()))
}

fn to_span_context(trace: &TraceContext) -> Option<SpanContext> {
    let mut parts = trace.traceparent().split('-').skip(1);
    let trace_id = TraceId::from_hex(parts.next()?).ok()?;
    let span_id = SpanId::from_hex(parts.next()?).ok()?;
    let flags = TraceFlags::new(u8::from_str_radix(parts.next()?, 16).ok()?);
    let state = trace.tracestate().and_then(|text| text.parse::<TraceState>().ok());
    Some(SpanContext::new(trace_id, span_id, flags, true, state.unwrap_or_default()))
}
