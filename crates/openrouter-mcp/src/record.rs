//! One span and one metric point for every call, by OpenTelemetry's names for MCP servers.

use std::time::Instant;

use opentelemetry::metrics::Histogram;
use opentelemetry::propagation::Extractor;
use opentelemetry::{KeyValue, global};
use rmcp::model::RequestMetaObject;
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

use crate::error::Error;
use crate::metrics::{DURATION, ERROR, METHOD, TOOL};

/// Records calls. To be made after telemetry was started.
#[derive(Debug, Clone)]
pub(crate) struct Recorder {
    duration: Histogram<f64>,
}

/// A call that is under way. Dropped before its end, it is recorded as cancelled.
pub(crate) struct Recording<'a> {
    recorder: &'a Recorder,
    tool: &'static str,
    span: Span,
    started: Instant,
    ended: bool,
}

impl Recorder {
    pub(crate) fn new() -> Self {
        Self { duration: DURATION.histogram(&global::meter("openrouter-mcp")) }
    }

    /// Begins the recording of a call. Its span is a child of the caller's, where `meta` has one.
    pub(crate) fn begin(&self, tool: &'static str, meta: &RequestMetaObject) -> Recording<'_> {
        let span = tracing::info_span!(
            "tools/call",
            otel.name = format!("tools/call {tool}"),
            otel.kind = "server",
            otel.status_code = tracing::field::Empty,
            mcp.method.name = "tools/call",
            gen_ai.tool.name = tool,
            gen_ai.operation.name = "execute_tool",
            error.type = tracing::field::Empty,
        );
        if !span.is_disabled() {
            let parent =
                global::get_text_map_propagator(|propagator| propagator.extract(&Meta(meta)));
            // It fails only where nothing is exported.
            let _ = span.set_parent(parent);
        }
        Recording { recorder: self, tool, span, started: Instant::now(), ended: false }
    }
}

impl Recording<'_> {
    pub(crate) fn span(&self) -> &Span {
        &self.span
    }

    /// The call has ended with this.
    pub(crate) fn end<T>(mut self, outcome: &Result<T, Error>) {
        self.write(outcome.as_ref().err().map(Error::code));
    }

    fn write(&mut self, error: Option<&'static str>) {
        self.ended = true;
        let mut tags = vec![KeyValue::new(METHOD, "tools/call"), KeyValue::new(TOOL, self.tool)];
        if let Some(code) = error {
            self.span.record(ERROR, code);
            self.span.record("otel.status_code", "ERROR");
            tags.push(KeyValue::new(ERROR, code));
        }
        self.recorder.duration.record(self.started.elapsed().as_secs_f64(), &tags);
    }
}

impl Drop for Recording<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.write(Some(Error::Cancelled.code()));
        }
    }
}

/// `_meta` of a request, where MCP clients put the context of their trace.
struct Meta<'a>(&'a RequestMetaObject);

impl Extractor for Meta<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.as_str()
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(String::as_str).collect()
    }
}
