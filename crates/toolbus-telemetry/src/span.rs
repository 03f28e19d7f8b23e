//! The definition of a span. Spans are made where the work is done; their tables say what is to be
//! seen, and a test of whole fleets compares them with what a collector was sent.

/// The definition of a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Its name, with what differs from span to span in braces, such as `tool.invoke {tool}`.
    pub name: &'static str,
    /// OpenTelemetry's kind.
    pub kind: SpanKind,
    /// What it covers: a fragment without a full stop.
    pub description: &'static str,
    /// The names of the attributes that it may have.
    pub attributes: &'static [&'static str],
}

/// What a span is in the talk of two processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanKind {
    /// Work within a process.
    Internal,
    /// Sending a message.
    Producer,
    /// Handling a message.
    Consumer,
    /// Asking and waiting for the answer.
    Client,
    /// Answering.
    Server,
}
