//! The envelope: everything about a message but what it says.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use uuid::Uuid;

use crate::clock::unix_now;
use crate::header::Headers;
use crate::{Message, Topic, json};

/// A message on its way: a body and what carries it.
///
/// An envelope is never JSON itself: it travels as AMQP properties and headers ([`crate::frame`]).
///
/// Its `Debug` form leaves out the body and the headers' values: they may hold secrets.
#[derive(Clone, PartialEq, Eq)]
pub struct Envelope {
    /// Unique id of this message: a GUID of 32 lower-case hexadecimal digits when we make it.
    pub message_id: String,
    /// Name of the body's type, such as `RockBot.Tools.ToolInvokeRequest`.
    pub message_type: String,
    /// What ties a reply to its request.
    pub correlation_id: Option<String>,
    /// The topic (never a queue) that wants the reply.
    pub reply_to: Option<Topic>,
    /// Name of the sender: an agent or a service.
    pub source: String,
    /// Name of the one receiver meant, when there is one.
    pub destination: Option<String>,
    /// Unix time in whole seconds, as AMQP carries it.
    pub timestamp: u64,
    /// Logical headers; see [`crate::header`] for how they are spelled on the wire.
    pub headers: Headers,
    /// The trace that this message belongs to.
    pub trace: Option<TraceContext>,
    /// How long a broker keeps the message undelivered. `None`: as long as its queue does.
    pub expires_after: Option<Duration>,
    /// JSON, as the message type says. Empty or broken when a stranger sent it.
    pub body: Bytes,
}

impl Envelope {
    /// A message of now, with a fresh id.
    #[must_use]
    pub fn new(message_type: impl Into<String>, source: impl Into<String>, body: Bytes) -> Self {
        Self {
            message_id: new_id(),
            message_type: message_type.into(),
            correlation_id: None,
            reply_to: None,
            source: source.into(),
            destination: None,
            timestamp: now(),
            headers: Headers::new(),
            trace: None,
            expires_after: None,
            body,
        }
    }

    /// A message of now that says `message`.
    #[must_use]
    pub fn of<T: Message>(message: &T, source: impl Into<String>) -> Self {
        Self::new(T::TYPE, source, json::write(message))
    }

    /// The answer to this message: it carries its correlation and belongs to its trace. Where it is
    /// to be published is [`reply_to`](Self::reply_to) of this message.
    #[must_use]
    pub fn reply<T: Message>(&self, message: &T, source: impl Into<String>) -> Self {
        Self {
            correlation_id: self.correlation_id.clone(),
            trace: self.trace.clone(),
            ..Self::of(message, source)
        }
    }

    /// The same message under a correlation id.
    #[must_use]
    pub fn with_correlation_id(self, correlation_id: impl Into<String>) -> Self {
        Self { correlation_id: Some(correlation_id.into()), ..self }
    }

    /// The same message, asking for its reply at `topic`.
    #[must_use]
    pub fn with_reply_to(self, topic: Topic) -> Self {
        Self { reply_to: Some(topic), ..self }
    }

    /// The same message with one more header, by its logical name.
    #[must_use]
    pub fn with_header(
        mut self,
        name: impl Into<Cow<'static, str>>,
        value: impl Into<String>,
    ) -> Self {
        self.headers.set(name, value);
        self
    }

    /// The same message as part of a trace, or of none.
    #[must_use]
    pub fn with_trace(self, trace: Option<TraceContext>) -> Self {
        Self { trace, ..self }
    }

    /// The same message, to be thrown away by the broker when it was not delivered in time.
    #[must_use]
    pub fn with_expiry(self, expires_after: Duration) -> Self {
        Self { expires_after: Some(expires_after), ..self }
    }
}

impl fmt::Debug for Envelope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let header_names: Vec<_> = self.headers.iter().map(|(name, _)| name).collect();
        f.debug_struct("Envelope")
            .field("message_id", &self.message_id)
            .field("message_type", &self.message_type)
            .field("correlation_id", &self.correlation_id)
            .field("reply_to", &self.reply_to)
            .field("source", &self.source)
            .field("destination", &self.destination)
            .field("timestamp", &self.timestamp)
            .field("header_names", &header_names)
            .field("trace", &self.trace)
            .field("expires_after", &self.expires_after)
            .field("body_bytes", &self.body.len())
            .finish()
    }
}

/// A fresh GUID of 32 lower-case hexadecimal digits, as message ids and call ids are.
#[must_use]
pub fn new_id() -> String {
    let mut buffer = Uuid::encode_buffer();
    Uuid::new_v4().simple().encode_lower(&mut buffer).to_owned()
}

/// Unix time in whole seconds. A clock that stands before 1970 reads 1: zero means absent.
pub(crate) fn now() -> u64 {
    unix_now().as_secs().max(1)
}

/// A W3C trace context, as text: checked for its form when it is parsed, never interpreted here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceContext {
    traceparent: String,
    tracestate: Option<String>,
}

impl TraceContext {
    /// Takes `traceparent` when it is of version `00` and well formed
    /// (`00-<32 hex>-<16 hex>-<2 hex>` in lower case, neither id all zero); anything else is no
    /// parent at all.
    #[must_use]
    pub fn parse(traceparent: &str, tracestate: Option<&str>) -> Option<Self> {
        let mut parts = traceparent.split('-');
        let (version, trace, span, flags) =
            (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let well_formed = version == "00"
            && is_hex_id(trace, 32)
            && is_hex_id(span, 16)
            && flags.len() == 2
            && flags.bytes().all(is_lower_hex)
            && parts.next().is_none();

        well_formed.then(|| Self {
            traceparent: traceparent.to_owned(),
            tracestate: tracestate.filter(|s| !s.is_empty()).map(str::to_owned),
        })
    }

    /// The W3C `traceparent` text.
    #[must_use]
    pub fn traceparent(&self) -> &str {
        &self.traceparent
    }

    /// The W3C `tracestate` text, when there is one.
    #[must_use]
    pub fn tracestate(&self) -> Option<&str> {
        self.tracestate.as_deref()
    }
}

fn is_hex_id(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(is_lower_hex) && text.bytes().any(|b| b != b'0')
}

const fn is_lower_hex(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}

#[cfg(test)]
mod tests;
