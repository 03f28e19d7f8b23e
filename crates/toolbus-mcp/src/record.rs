//! One span and one metric point for every request to an MCP server, as [`crate::metrics`] defines
//! them.
//!
//! The context of a request's span goes along in its `_meta` (SEP-414), so that the span of a
//! server which is instrumented is its child. Baggage does not: it is the caller's own, and servers
//! are strangers. What callers make up (names of tools that no server lists) is in spans,
//! shortened, and in no metric; no argument or result is in either.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use opentelemetry::trace::TraceContextExt as _;
use opentelemetry::{Context, KeyValue, StringValue, Value as Attribute, global};
use rmcp::model::{JsonObject, RequestId, RequestMetaObject, ServerResult};
use rmcp::service::ServiceError;
use tokio::time::Instant;
use toolbus_telemetry::mcp::{EXECUTE_TOOL, Meta, SpanName, TOOL_ERROR, Tags, Transport};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

use crate::config::{Entry, Target};
use crate::metrics::{
    ADDRESS, ERROR, METHOD, Metrics, OPERATION, PORT, PROTOCOL, REQUEST, SERVER, SESSION, STATUS,
};

pub(crate) use toolbus_telemetry::mcp::About;

/// Records one connection when it is dropped, and every request on it. Their common attributes are
/// made once.
#[derive(Debug)]
pub(crate) struct Recorder {
    metrics: Arc<Metrics>,
    /// The server, how it is reached and what it speaks, as metrics say it.
    peer: [KeyValue; 3],
    /// The same as spans say it, with its real name and its address.
    span_attributes: Vec<KeyValue>,
    began: Instant,
    lost: AtomicBool,
}

/// A request that is under way. Dropped before its end, it is recorded as cancelled.
pub(crate) struct Operation<'a> {
    recorder: &'a Recorder,
    method: StringValue,
    about: About<'a>,
    span: Span,
    /// The span where it is exported to; without any, nothing is.
    context: Context,
    began: Instant,
    ended: bool,
}

impl Recorder {
    /// A recorder of a connection to a server that speaks this revision of the protocol.
    pub(crate) fn new(entry: &Entry, metrics: &Arc<Metrics>, protocol: &str) -> Self {
        // Shared, so that a clone copies no text.
        let shared = |text: &str| Attribute::from(StringValue::from(Arc::<str>::from(text)));
        let transport = match &entry.target {
            Target::Endpoint(_) => Transport::Tcp.attribute(),
            Target::Launch(_) | Target::Disabled => Transport::Pipe.attribute(),
        };

        let mut span_attributes = vec![
            KeyValue::new(SERVER, shared(entry.name.as_str())),
            KeyValue::new(PROTOCOL, shared(protocol)),
            transport.clone(),
        ];
        if let Target::Endpoint(endpoint) = &entry.target {
            span_attributes
                .push(KeyValue::new(ADDRESS, shared(endpoint.url.host_str().unwrap_or_default())));
            let port = endpoint.url.port_or_known_default().map(i64::from);
            span_attributes.extend(port.map(|port| KeyValue::new(PORT, port)));
        }

        let peer = [metrics.label_of(&entry.name), transport, metrics.labels.protocol(protocol)];
        Self {
            metrics: Arc::clone(metrics),
            peer,
            span_attributes,
            began: Instant::now(),
            lost: AtomicBool::new(false),
        }
    }

    /// Records how long the handshake took.
    pub(crate) fn record_handshake(&self, began: Instant, method: &'static str) {
        let mut tags = Tags::from_iter(self.peer.iter().cloned());
        tags.push(KeyValue::new(METHOD, method));
        self.metrics.operations.record(began.elapsed().as_secs_f64(), &tags);
    }

    /// Records that the connection ended while the server was wanted.
    pub(crate) fn record_lost(&self) {
        self.lost.store(true, Ordering::Relaxed);
        self.metrics.count_lost(&self.peer[0]);
    }

    /// Begins the recording of a request; its span is a child of the current one.
    pub(crate) fn begin<'a>(
        &'a self,
        method: impl Into<StringValue>,
        about: About<'a>,
        session: impl FnOnce() -> Option<Arc<str>>,
    ) -> Operation<'a> {
        let method = method.into();
        let span = tracing::info_span!(
            "mcp.client",
            otel.name = %SpanName(method.as_str(), about),
            otel.kind = "client",
            otel.status_code = tracing::field::Empty,
        );

        let context = if span.is_disabled() { Context::new() } else { span.context() };
        let exported = context.span();
        if exported.is_recording() {
            exported.set_attributes(self.span_attributes.iter().cloned());
            exported.set_attribute(KeyValue::new(METHOD, method.clone()));
            exported.set_attributes(about.attributes());
            // Only where it is exported to, and in no log: its holder may speak in the session.
            let session = session().map(StringValue::from);
            exported.set_attributes(session.map(|session| KeyValue::new(SESSION, session)));
        }

        let began = Instant::now();
        Operation { recorder: self, method, about, span, context, began, ended: false }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        let mut tags = Tags::from_iter(self.peer.iter().cloned());
        if *self.lost.get_mut() {
            tags.push(KeyValue::new(ERROR, "connection_lost"));
        }
        self.metrics.sessions.record(self.began.elapsed().as_secs_f64(), &tags);
    }
}

impl Operation<'_> {
    pub(crate) fn span(&self) -> &Span {
        &self.span
    }

    /// Writes the context of the span into what goes along with the request.
    pub(crate) fn inject(&self, meta: &mut RequestMetaObject) {
        if self.context.has_active_span() {
            let mut meta = Meta::<&mut JsonObject>(meta);
            global::get_text_map_propagator(|propagator| {
                propagator.inject_context(&self.context, &mut meta);
            });
        }
    }

    /// Records the id of the request.
    pub(crate) fn set_request_id(&self, id: &RequestId) {
        let exported = self.context.span();
        if exported.is_recording() {
            exported.set_attribute(KeyValue::new(REQUEST, id.to_string()));
        }
    }

    /// Records that the request was answered, or could not be sent.
    pub(crate) fn end(mut self, response: &Result<ServerResult, ServiceError>) {
        match response {
            Ok(ServerResult::CallToolResult(result)) if result.is_error == Some(true) => {
                self.fail(TOOL_ERROR);
            }
            Ok(_) => self.record_duration(&[]),

            Err(ServiceError::McpError(error)) => {
                let code = error.code.0.to_string();
                let bounded = self.recorder.metrics.labels.code(&code);
                let code = StringValue::from(code);
                self.record_span_error([
                    KeyValue::new(ERROR, code.clone()),
                    KeyValue::new(STATUS, code),
                ]);
                self.record_duration(&[
                    KeyValue::new(ERROR, bounded.clone()),
                    KeyValue::new(STATUS, bounded),
                ]);
            }
            Err(error) => self.fail(error_label(error)),
        }
    }

    /// Records that the request has no answer, or one that is an error, for this reason.
    pub(crate) fn fail(mut self, why: &'static str) {
        self.end_with_error(why);
    }

    fn end_with_error(&mut self, why: &'static str) {
        self.record_span_error([KeyValue::new(ERROR, why)]);
        self.record_duration(&[KeyValue::new(ERROR, why)]);
    }

    /// Records in the span what went wrong.
    fn record_span_error(&self, errors: impl IntoIterator<Item = KeyValue>) {
        self.span.record("otel.status_code", "ERROR");
        let exported = self.context.span();
        if exported.is_recording() {
            exported.set_attributes(errors);
        }
    }

    /// Records the metric point of the request.
    fn record_duration(&mut self, errors: &[KeyValue]) {
        self.ended = true;
        let Recorder { metrics, peer, .. } = self.recorder;

        let mut tags = Tags::from_iter(peer.iter().cloned());
        tags.push(KeyValue::new(METHOD, self.method.clone()));
        if let About::Tool { name, is_listed } = self.about {
            tags.push(KeyValue::new(OPERATION, EXECUTE_TOOL));
            tags.extend(is_listed.then(|| metrics.labels.tool(name)));
        }
        tags.extend(errors.iter().cloned());

        metrics.operations.record(self.began.elapsed().as_secs_f64(), &tags);
    }
}

impl Drop for Operation<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.end_with_error("cancelled");
        }
    }
}

/// The label for why there is no answer; there are few of them.
fn error_label(error: &ServiceError) -> &'static str {
    match error {
        ServiceError::TransportSend(_) => "not_carried",
        ServiceError::TransportClosed => "connection_lost",
        ServiceError::UnexpectedResponse => "unexpected_response",
        ServiceError::Cancelled { .. } => "cancelled",
        ServiceError::Timeout { .. } => "timeout",
        _ => "_OTHER",
    }
}
