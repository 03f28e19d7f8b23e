//! What a grant is about, as bytes: the request as both of its ends have it.

use hmac::{Hmac, Mac as _};
use sha2::{Digest as _, Sha256};
use toolbus_bus::{Envelope, Topic};
use toolbus_wire::header;

use super::Claims;
use super::shared_key::GrantKey;
use crate::id::ToolId;

/// Domain of these MACs and signatures, so that none of them is valid for another use of the keys.
const DOMAIN: &str = "toolbus-grant";
/// Version of a grant by the shared key. It is the first part of the header and is sealed.
pub(super) const SHARED_VERSION: &str = "1";
/// Version of a signed grant. It is the first part of the header and is sealed.
pub(super) const SIGNED_VERSION: &str = "2";

/// Every header that a worker acts on. The body is sealed as it is, and with it the call's id and
/// its arguments. The trace is not: it decides about nothing. Nor is the expiry, which the broker
/// may drop: a request has no more time for it than it asked for, and its grant expires all the
/// same.
const SEALED_HEADERS: [&str; 11] = [
    header::MCP_SERVER,
    header::SESSION,
    header::EXACT,
    header::TIMEOUT_MS,
    header::DEADLINE_MS,
    header::EXTENSION_MS,
    header::PROGRESS_TO,
    header::QUIET,
    header::STATUS_TO,
    header::ASK_TO,
    header::ASK_KINDS,
];

/// A request, and what it is about to the one who looks at it: to the agent what its gates let
/// pass, to the worker what it is about to do.
pub(super) struct SealedRequest<'a> {
    topic: &'a Topic,
    envelope: &'a Envelope,
    subject: &'a ToolId,
    body_digest: [u8; 32],
}

impl<'a> SealedRequest<'a> {
    pub(super) fn new(topic: &'a Topic, envelope: &'a Envelope, subject: &'a ToolId) -> Self {
        let body_digest = Sha256::digest(&envelope.body).into();
        Self { topic, envelope, subject, body_digest }
    }

    /// The MAC over it and these claims.
    pub(super) fn mac(&self, key: &GrantKey, claims: &Claims) -> Hmac<Sha256> {
        let mut mac = key.start_mac();
        self.write_parts(&[SHARED_VERSION], claims, |bytes| mac.update(bytes));
        mac
    }

    /// Returns the bytes to sign for this request and these claims, with the key of this id.
    pub(super) fn signed_bytes(&self, key_id: &str, claims: &Claims) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.write_parts(&[SIGNED_VERSION, key_id], claims, |part| bytes.extend_from_slice(part));
        bytes
    }

    /// Writes every part, after the domain and `scheme`: the version of the grant, and any other
    /// parts that distinguish its kind.
    fn write_parts(&self, scheme: &[&str], claims: &Claims, mut write: impl FnMut(&[u8])) {
        let Self { topic, envelope, subject, body_digest } = self;
        let mut add = |part: &[u8]| {
            // With its length, so that parts that are shifted against each other are other parts.
            write(&(part.len() as u64).to_be_bytes());
            write(part);
        };

        add(DOMAIN.as_bytes());
        for part in scheme {
            add(part.as_bytes());
        }
        add(claims.principal.as_bytes());
        add(&claims.expires_unix_ms.to_be_bytes());

        add(topic.as_str().as_bytes());
        add(subject.as_str().as_bytes());

        // Absent and empty are one on the wire.
        add(envelope.message_type.as_bytes());
        add(envelope.source.as_bytes());
        add(envelope.message_id.as_bytes());
        add(envelope.correlation_id.as_deref().unwrap_or_default().as_bytes());
        add(envelope.reply_to.as_ref().map_or("", Topic::as_str).as_bytes());

        for name in SEALED_HEADERS {
            let value = envelope.headers.get(name);
            add(&[u8::from(value.is_some())]);
            add(value.unwrap_or_default().as_bytes());
        }

        add(body_digest);
    }
}
