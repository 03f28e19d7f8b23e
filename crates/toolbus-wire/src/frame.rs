//! The codec between an envelope and what AMQP carries around a body: properties and headers.
//!
//! A [`Frame`] is plain data in AMQP's terms, so that this crate needs no AMQP library. Reading one
//! never fails: whatever is missing, of another type or not UTF-8 is left out or has a default.
//! Writing one gives exactly what the C# code writes.
//!
//! An empty text and an absent one mean the same for every field of the envelope: C# writes an
//! empty text for an absent correlation id or reply topic.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;

use crate::envelope::{self, Envelope, TraceContext};
use crate::header::{self, Headers, Spelling};
use crate::topic::Topic;

/// Longest name of a header and longest text of a property, in bytes: AMQP's short string.
pub const SHORT_STRING_BYTES_MAX: usize = 255;
/// Most headers with names of their own that are kept from one message; more are left out.
pub const FOREIGN_HEADERS_MAX: usize = 128;

const CONTENT_TYPE: &str = "application/json";
/// AMQP's number for a message that survives a restart of the broker.
const PERSISTENT: u8 = 2;
/// What stands for a type or a source that a message does not tell.
const UNKNOWN: &str = "unknown";

const SOURCE: &str = "rb-source";
const DESTINATION: &str = "rb-destination";
const TRACEPARENT: &str = "rb-traceparent";
const TRACESTATE: &str = "rb-tracestate";
/// Headers that are fields of the envelope, never logical headers.
const RESERVED: [&str; 4] = [SOURCE, DESTINATION, TRACEPARENT, TRACESTATE];

/// A message in AMQP's terms. It borrows where it can: from the envelope that is written, or from
/// the delivery that is read.
///
/// Its `Debug` form leaves out the body and the headers' values: they may hold secrets.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The properties that the contract uses.
    pub properties: Properties<'a>,
    /// The headers, as they are spelled on the wire.
    pub headers: Vec<(Cow<'a, str>, HeaderValue<'a>)>,
    /// The body.
    pub body: Bytes,
}

/// AMQP's basic properties, as far as the contract uses them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Properties<'a> {
    /// Always `application/json` when we write.
    pub content_type: Option<Cow<'a, str>>,
    /// 2 is persistent; always 2 when we write.
    pub delivery_mode: Option<u8>,
    /// What ties a reply to its request.
    pub correlation_id: Option<Cow<'a, str>>,
    /// The topic that wants the reply.
    pub reply_to: Option<Cow<'a, str>>,
    /// How long the broker keeps the message, in milliseconds, as decimal text.
    pub expiration: Option<Cow<'a, str>>,
    /// Unique id of the message.
    pub message_id: Option<Cow<'a, str>>,
    /// Unix time in seconds; 0 means absent.
    pub timestamp: Option<u64>,
    /// AMQP's `type`: the name of the body's type.
    pub message_type: Option<Cow<'a, str>>,
}

/// Value of an AMQP header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeaderValue<'a> {
    /// A long string: the only type that the contract uses.
    LongString(Cow<'a, [u8]>),
    /// A value of any other type, which nobody reads.
    Other,
}

/// Why an envelope does not fit into AMQP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A text is longer than AMQP carries in this place.
    #[error("the {what} has {length} bytes, AMQP carries at most {SHORT_STRING_BYTES_MAX}")]
    TooLong {
        /// Which text.
        what: &'static str,
        /// Its length in bytes.
        length: usize,
    },
}

impl Envelope {
    /// Reads an envelope from what AMQP delivered. Every frame gives one.
    ///
    /// A missing message id becomes a fresh one, a missing time becomes now, a missing type or
    /// source `unknown`. A reply topic that is none, a trace parent that is not well formed and a
    /// header that is not a long string of UTF-8 are left out.
    #[must_use]
    pub fn from_frame(frame: Frame<'_>) -> Self {
        let Frame { properties, headers, body } = frame;
        let headers = read_headers(headers);

        Self {
            message_id: text(properties.message_id).unwrap_or_else(envelope::new_id),
            message_type: text(properties.message_type).unwrap_or_else(|| UNKNOWN.to_owned()),
            correlation_id: text(properties.correlation_id),
            reply_to: properties.reply_to.and_then(|topic| Topic::parse(topic).ok()),
            source: headers.source.unwrap_or_else(|| UNKNOWN.to_owned()),
            destination: headers.destination,
            timestamp: properties
                .timestamp
                .filter(|seconds| *seconds != 0)
                .unwrap_or_else(envelope::now),
            trace: headers
                .traceparent
                .and_then(|parent| TraceContext::parse(&parent, headers.tracestate.as_deref())),
            headers: headers.logical,
            expires_after: properties
                .expiration
                .and_then(|text| text.parse().ok())
                .map(Duration::from_millis),
            body,
        }
    }

    /// Writes the envelope as the C# code does.
    ///
    /// # Errors
    /// When a property or the name of a header is longer than AMQP carries.
    pub fn to_frame(&self) -> Result<Frame<'_>, Error> {
        Ok(Frame {
            properties: Properties {
                content_type: Some(Cow::Borrowed(CONTENT_TYPE)),
                delivery_mode: Some(PERSISTENT),
                correlation_id: short_text("correlation id", self.correlation_id.as_deref())?,
                reply_to: short_text("reply topic", self.reply_to.as_ref().map(Topic::as_str))?,
                expiration: self.expires_after.map(expiration),
                message_id: short_text("message id", Some(&self.message_id))?,
                timestamp: Some(self.timestamp),
                message_type: short_text("message type", Some(&self.message_type))?,
            },
            headers: self.wire_headers()?,
            body: self.body.clone(),
        })
    }

    fn wire_headers(&self) -> Result<Vec<(Cow<'_, str>, HeaderValue<'_>)>, Error> {
        // The source, the destination and the two of the trace.
        let mut headers = Vec::with_capacity(self.headers.len() + 4);
        headers.push(long_text(SOURCE, &self.source));

        if let Some(destination) = &self.destination {
            headers.push(long_text(DESTINATION, destination));
        }

        for (name, value) in self.headers.iter() {
            let name = header::wire_name(name);
            if name.len() > SHORT_STRING_BYTES_MAX {
                return Err(Error::TooLong { what: "name of a header", length: name.len() });
            }

            // A logical header never stands in for a field of the envelope.
            if !RESERVED.contains(&name.as_ref()) {
                headers.push(long_text(name, value));
            }
        }

        if let Some(trace) = &self.trace {
            headers.push(long_text(TRACEPARENT, trace.traceparent()));
            if let Some(state) = trace.tracestate() {
                headers.push(long_text(TRACESTATE, state));
            }
        }

        Ok(headers)
    }
}

impl HeaderValue<'_> {
    fn into_text(self) -> Option<String> {
        let text = match self {
            Self::LongString(Cow::Borrowed(bytes)) => std::str::from_utf8(bytes).ok()?.to_owned(),
            Self::LongString(Cow::Owned(bytes)) => String::from_utf8(bytes).ok()?,
            Self::Other => return None,
        };
        Some(text)
    }
}

impl fmt::Debug for Frame<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let header_names: Vec<_> = self.headers.iter().map(|(name, _)| name).collect();
        f.debug_struct("Frame")
            .field("properties", &self.properties)
            .field("header_names", &header_names)
            .field("body_bytes", &self.body.len())
            .finish()
    }
}

/// What the headers of a frame say.
#[derive(Default)]
struct ReadHeaders {
    source: Option<String>,
    destination: Option<String>,
    traceparent: Option<String>,
    tracestate: Option<String>,
    logical: Headers,
}

fn read_headers(headers: Vec<(Cow<'_, str>, HeaderValue<'_>)>) -> ReadHeaders {
    let mut read = ReadHeaders::default();
    let mut foreign = 0;

    for (wire, value) in headers {
        let field = match wire.as_ref() {
            SOURCE => &mut read.source,
            DESTINATION => &mut read.destination,
            TRACEPARENT => &mut read.traceparent,
            TRACESTATE => &mut read.tracestate,
            _ => {
                read_logical(&mut read.logical, &mut foreign, &wire, value);
                continue;
            }
        };

        *field = value.into_text().filter(|text| !text.is_empty());
    }

    read
}

fn read_logical(headers: &mut Headers, foreign: &mut usize, wire: &str, value: HeaderValue<'_>) {
    let Some((name, spelling)) = header::logical_name(wire) else { return };
    let wanted = match spelling {
        Spelling::Doubled => true,
        Spelling::Single => headers.get(&name).is_none(),
        Spelling::Foreign => *foreign < FOREIGN_HEADERS_MAX,
    };

    if !wanted {
        return;
    }

    if let Some(value) = value.into_text() {
        headers.set(name, value);
        *foreign += usize::from(spelling == Spelling::Foreign);
    }
}

fn text(value: Option<Cow<'_, str>>) -> Option<String> {
    value.filter(|text| !text.is_empty()).map(Cow::into_owned)
}

/// A property's text; an absent one is written as an empty one.
fn short_text<'a>(
    what: &'static str,
    value: Option<&'a str>,
) -> Result<Option<Cow<'a, str>>, Error> {
    let value = value.unwrap_or_default();
    match value.len() {
        0..=SHORT_STRING_BYTES_MAX => Ok(Some(Cow::Borrowed(value))),
        length => Err(Error::TooLong { what, length }),
    }
}

fn long_text<'a>(name: impl Into<Cow<'a, str>>, value: &'a str) -> (Cow<'a, str>, HeaderValue<'a>) {
    (name.into(), HeaderValue::LongString(Cow::Borrowed(value.as_bytes())))
}

/// Whole milliseconds, rounded up, because 0 would throw the message away at once. RabbitMQ closes
/// the channel over anything that does not fit into 32 bits, so a longer time is cut to that.
fn expiration(after: Duration) -> Cow<'static, str> {
    let milliseconds = after.as_nanos().div_ceil(1_000_000).min(u128::from(u32::MAX));
    Cow::Owned(milliseconds.to_string())
}

#[cfg(test)]
mod tests;
