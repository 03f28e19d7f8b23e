//! Parked requests: what is written down of a call that waits for long, and brings it back.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use toolbus_wire::header::Headers;
use toolbus_wire::{Envelope, Topic, TraceContext};

use crate::Deadline;
use crate::port::{DeadLetterBody, Delivery};

/// A request that was parked, as whoever keeps it writes it down. A responder that is given it when
/// it starts takes it up as if it came in then, answers at its reply address, and holds its
/// deadline. So only a request whose tool was not started may be brought back.
///
/// It holds the arguments of the call: it is as secret as they are.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ParkedRequest {
    /// The topic that it came by.
    topic: Topic,
    message_id: String,
    message_type: String,
    correlation_id: Option<String>,
    reply_to: Option<Topic>,
    source: String,
    destination: Option<String>,
    timestamp: u64,
    headers: Vec<(String, String)>,
    /// What the caller asked for, in milliseconds, and when it stops waiting, in Unix milliseconds:
    /// how long it waits was counted from when the request came. Apart from the headers, which a
    /// grant seals.
    asked_ms: u64,
    deadline_ms: u64,
    /// `traceparent` and `tracestate`.
    trace: Option<(String, Option<String>)>,
    /// JSON, as it came.
    body: String,
}

impl ParkedRequest {
    /// A request that was read, so its body is text.
    pub(crate) fn new(topic: &Topic, envelope: &Envelope, deadline: Deadline) -> Self {
        let headers =
            envelope.headers.iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
        let trace = envelope
            .trace
            .as_ref()
            .map(|trace| (trace.traceparent().to_owned(), trace.tracestate().map(str::to_owned)));

        Self {
            topic: topic.clone(),
            message_id: envelope.message_id.clone(),
            message_type: envelope.message_type.clone(),
            correlation_id: envelope.correlation_id.clone(),
            reply_to: envelope.reply_to.clone(),
            source: envelope.source.clone(),
            destination: envelope.destination.clone(),
            timestamp: envelope.timestamp,
            headers: headers.collect(),
            asked_ms: deadline.asked().as_millis().try_into().unwrap_or(u64::MAX),
            deadline_ms: deadline.unix_ms(),
            trace,
            body: String::from_utf8_lossy(&envelope.body).into_owned(),
        }
    }

    /// The topic that it came by: that of the responder which is to take it up.
    #[must_use]
    pub fn topic(&self) -> &Topic {
        &self.topic
    }

    /// When its caller stops waiting.
    pub(crate) fn deadline(&self) -> Deadline {
        Deadline::at_unix_ms(self.deadline_ms, Duration::from_millis(self.asked_ms))
    }

    /// The request as if it came in now, for the first time.
    pub(crate) fn into_delivery(self) -> Delivery {
        let mut headers = Headers::new();
        for (name, value) in self.headers {
            headers.set(name, value);
        }

        let trace = self.trace.as_ref();
        let envelope = Envelope {
            message_id: self.message_id,
            message_type: self.message_type,
            correlation_id: self.correlation_id,
            reply_to: self.reply_to,
            source: self.source,
            destination: self.destination,
            timestamp: self.timestamp,
            headers,
            trace: trace.and_then(|(parent, state)| TraceContext::parse(parent, state.as_deref())),
            expires_after: None,
            body: self.body.into(),
        };

        Delivery {
            topic: self.topic,
            envelope,
            redelivered: false,
            earlier_deliveries: 0,
            dead_letter_body: DeadLetterBody::default(),
        }
    }
}

/// Without its body and the values of its headers.
impl fmt::Debug for ParkedRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ParkedRequest")
            .field("topic", &self.topic)
            .field("message_id", &self.message_id)
            .field("message_type", &self.message_type)
            .finish_non_exhaustive()
    }
}
