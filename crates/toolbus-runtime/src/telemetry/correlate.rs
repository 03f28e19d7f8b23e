//! Log lines as JSON, with the ids of the trace that they belong to.

use std::fmt;

use opentelemetry::Context;
use opentelemetry::trace::TraceContextExt as _;
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::FmtContext;
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::registry::LookupSpan;

/// Adds `trace_id` and `span_id` to the lines of a formatter that writes one JSON object each, by
/// the names that OpenTelemetry gives them outside OTLP. Outside a span that is exported it adds
/// nothing.
pub(super) struct Correlated<F>(pub(super) F);

impl<S, N, F> FormatEvent<S, N> for Correlated<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let current = Context::current();
        let span = current.span().span_context().clone();
        if !span.is_valid() {
            return self.0.format_event(context, writer, event);
        }

        let mut line = String::new();
        self.0.format_event(context, Writer::new(&mut line), event)?;
        let Some(members) = line.trim_end().strip_suffix('}') else {
            return writer.write_str(&line);
        };
        let (trace, span) = (span.trace_id(), span.span_id());

        writeln!(writer, "{members},\"trace_id\":\"{trace}\",\"span_id\":\"{span}\"}}")
    }
}
