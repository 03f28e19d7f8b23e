//! The record of whoever answers MCP clients: one span and one metric point for each request, one
//! point for each session.
//!
//! Where nothing is exported, a request costs its span's place in the log and no text is copied.

use std::sync::Arc;
use std::time::Instant;

use opentelemetry::metrics::{Histogram, Meter};
use opentelemetry::trace::TraceContextExt as _;
use opentelemetry::{Context, KeyValue, StringValue, global};
use serde_json::{Map, Value};
use smallvec::SmallVec;
use tracing::Span;
use tracing::field::Empty;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

use super::about::{About, SpanName, shorten_text};
use super::labels::{Labels, Tags};
use super::meta::Meta;
use super::{
    ERROR, EXECUTE_TOOL, METHOD, OPERATION, PROTOCOL, SERVER, SERVER_OPERATION_DURATION,
    SERVER_SESSION_DURATION, STATUS, TRANSPORT,
};

/// Records what clients ask. Clones are the same.
#[derive(Debug, Clone)]
pub struct Recorder {
    instruments: Arc<ServerInstruments>,
    /// What every point has.
    tags: Tags,
    /// What every span has.
    attributes: SmallVec<[KeyValue; 2]>,
}

#[derive(Debug)]
struct ServerInstruments {
    operations: Histogram<f64>,
    sessions: Histogram<f64>,
    labels: Labels,
}

/// How clients reach a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// By the standard streams of its process.
    Pipe,
    /// Over HTTP.
    Tcp,
}

/// Why a request has no result, or one that tells of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// In a word, of which there are few.
    Because(&'static str),
    /// The code of an error of JSON-RPC.
    Code(i32),
}

/// A request that is being answered. Dropped before its end, it is recorded as cancelled.
#[derive(Debug)]
pub struct Operation<'a> {
    recorder: &'a Recorder,
    method: &'static str,
    tags: Tags,
    span: Span,
    /// The span where it is exported to; without any, nothing is.
    context: Context,
    began: Instant,
    ended: bool,
}

/// A session, which is recorded when it is dropped.
#[derive(Debug)]
pub struct Session {
    instruments: Arc<ServerInstruments>,
    tags: Tags,
    began: Instant,
}

impl Recorder {
    /// Records with instruments of this meter, which is to be had after telemetry was started.
    #[must_use]
    pub fn new(meter: &Meter, transport: Transport) -> Self {
        let instruments = ServerInstruments {
            operations: SERVER_OPERATION_DURATION.histogram(meter),
            sessions: SERVER_SESSION_DURATION.histogram(meter),
            labels: Labels::default(),
        };

        let transport = transport.attribute();
        let tags = Tags::from_iter([transport.clone()]);
        Self {
            instruments: Arc::new(instruments),
            tags,
            attributes: SmallVec::from_iter([transport]),
        }
    }

    /// The same for requests that are about what this MCP server of the fleet has.
    #[must_use]
    pub fn about_server(&self, name: &str) -> Self {
        let mut about = self.clone();
        about.tags.push(self.instruments.labels.server(name));
        // Shared, so that a clone copies no text.
        let name = StringValue::from(Arc::<str>::from(name));
        about.attributes.push(KeyValue::new(SERVER, name));
        about
    }

    /// Begins the record of a request. Its span is a child of the one that `meta` names, if it
    /// names one, else of the current one.
    pub fn begin(
        &self,
        method: &'static str,
        about: About<'_>,
        meta: &Map<String, Value>,
    ) -> Operation<'_> {
        let span = tracing::info_span!(
            "mcp.server",
            otel.name = %SpanName(method, about),
            otel.kind = "server",
            otel.status_code = Empty,
        );

        let context = if span.is_disabled() { Context::new() } else { span_context(&span, meta) };
        let exported = context.span();
        if exported.is_recording() {
            exported.set_attributes(self.attributes.iter().cloned());
            exported.set_attribute(KeyValue::new(METHOD, method));
            exported.set_attributes(about.attributes());
        }

        let mut tags = self.tags.clone();
        tags.push(KeyValue::new(METHOD, method));
        if let About::Tool { name, is_listed } = about {
            tags.push(KeyValue::new(OPERATION, EXECUTE_TOOL));
            tags.extend(is_listed.then(|| self.instruments.labels.tool(name)));
        }

        Operation {
            recorder: self,
            method,
            tags,
            span,
            context,
            began: Instant::now(),
            ended: false,
        }
    }

    /// Begins the record of a session that speaks this revision of the protocol.
    #[must_use]
    pub fn session(&self, protocol: &str) -> Session {
        let instruments = Arc::clone(&self.instruments);
        let mut tags = self.tags.clone();
        tags.push(instruments.labels.protocol(protocol));

        Session { instruments, tags, began: Instant::now() }
    }
}

impl Transport {
    /// How points and spans say it.
    #[must_use]
    pub fn attribute(self) -> KeyValue {
        let name = match self {
            Self::Pipe => "pipe",
            Self::Tcp => "tcp",
        };
        KeyValue::new(TRANSPORT, name)
    }
}

/// The context of a new span, a child of the one that `meta` names.
fn span_context(span: &Span, meta: &Map<String, Value>) -> Context {
    let parent = global::get_text_map_propagator(|propagator| {
        propagator.extract_with_context(&Context::new(), &Meta(meta))
    });
    if parent.span().span_context().is_valid() {
        // It fails only where nothing is exported.
        let _ = span.set_parent(parent);
    }
    span.context()
}

impl Operation<'_> {
    /// The span, for what is done for the request.
    #[must_use]
    pub fn span(&self) -> &Span {
        &self.span
    }

    /// Says something of the client's in the span, shortened. It is asked for only where the span
    /// is exported.
    pub fn tell<T: AsRef<str>>(&self, key: &'static str, text: impl FnOnce() -> Option<T>) {
        let exported = self.context.span();
        if exported.is_recording() {
            let text = text().map(|text| shorten_text(text.as_ref()).to_owned());
            exported.set_attributes(text.map(|text| KeyValue::new(key, text)));
        }
    }

    /// The request is of this revision of the protocol.
    pub fn speaks(&mut self, revision: &str) {
        self.tags.push(self.recorder.instruments.labels.protocol(revision));
        self.tell(PROTOCOL, || Some(revision));
    }

    /// The tool that is called is listed after all: who has it was asked meanwhile.
    pub fn is_listed(&mut self, tool: &str) {
        self.tags.push(self.recorder.instruments.labels.tool(tool));
        let exported = self.context.span();
        if exported.is_recording() {
            let about = About::Tool { name: tool, is_listed: true };
            exported.update_name(SpanName(self.method, about).to_string());
        }
    }

    /// The request has its answer, or will never have one.
    pub fn end(mut self, failure: Option<Failure>) {
        self.write(failure);
    }

    fn write(&mut self, failure: Option<Failure>) {
        self.ended = true;
        let ServerInstruments { operations, labels, .. } = &*self.recorder.instruments;

        let errors = match failure {
            None => [None, None],
            Some(Failure::Because(why)) => {
                self.tell(ERROR, || Some(why));
                [Some(KeyValue::new(ERROR, why)), None]
            }
            Some(Failure::Code(code)) => {
                let code = code.to_string();
                self.tell(ERROR, || Some(&code));
                self.tell(STATUS, || Some(&code));
                let code = labels.code(&code);
                [Some(KeyValue::new(ERROR, code.clone())), Some(KeyValue::new(STATUS, code))]
            }
        };

        if failure.is_some() {
            self.span.record("otel.status_code", "ERROR");
        }

        self.tags.extend(errors.into_iter().flatten());
        operations.record(self.began.elapsed().as_secs_f64(), &self.tags);
    }
}

impl Drop for Operation<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.write(Some(Failure::Because("cancelled")));
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.instruments.sessions.record(self.began.elapsed().as_secs_f64(), &self.tags);
    }
}

#[cfg(test)]
mod tests;
