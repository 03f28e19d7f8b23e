//! What makes two requests the same call.

use std::fmt;

use sha2::{Digest as _, Sha256};
use toolbus_wire::Envelope;
use uuid::Uuid;

use super::outcome_memory::correlation_id_of;

/// The identity of a call: a digest of source, correlation id or else message id, call id, and
/// body. (The call id alone does not do: models number their calls `call_1` in every session.)
///
/// The same in every process, so what a worker leaves behind can be found by the next one. Nobody
/// can aim for a collision, and two calls that collided by chance would have to be of one caller.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct CallKey([u8; 32]);

impl CallKey {
    /// The key of a call that no message asked for: equal to no other.
    #[must_use]
    pub fn unique() -> Self {
        Self(Sha256::digest(Uuid::new_v4().as_bytes()).into())
    }

    /// The first bytes of the key, which tell it from all others for most purposes.
    pub(super) fn fingerprint(self) -> u64 {
        let [a, b, c, d, e, f, g, h, ..] = self.0;
        u64::from_le_bytes([a, b, c, d, e, f, g, h])
    }

    /// A key for tests that want many of them.
    #[cfg(test)]
    pub(super) fn numbered(number: u64) -> Self {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&number.to_le_bytes());
        Self(key)
    }

    pub(crate) fn of(envelope: &Envelope, call_id: &str) -> Self {
        let correlation = correlation_id_of(envelope);
        let mut digest = Sha256::new();
        for part in [envelope.source.as_bytes(), correlation.as_bytes(), call_id.as_bytes()] {
            // The length first: parts that are shifted against each other are other parts.
            digest.update((part.len() as u64).to_be_bytes());
            digest.update(part);
        }
        digest.update(&envelope.body);
        Self(digest.finalize().into())
    }
}

/// 64 lower-case hexadecimal digits, of which any 32 do as a name.
impl fmt::Display for CallKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

impl fmt::Debug for CallKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "CallKey({self})")
    }
}
