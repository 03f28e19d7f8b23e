//! The key that agents and workers share. Both can make grants with it.

use hmac::{Hmac, Mac as _};
use sha2::Sha256;

/// Shortest key, in bytes: as many as a MAC has.
pub const KEY_BYTES_MIN: usize = 32;

/// A key of grants that agents and workers share. It is never logged or displayed, and has no
/// `Debug`.
#[derive(Clone)]
pub struct GrantKey(Hmac<Sha256>);

/// A key that is too short to be one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a key of grants has at least {KEY_BYTES_MIN} bytes, this one has {0}")]
pub struct KeyTooShort(pub usize);

impl GrantKey {
    /// The key of this secret: random bytes, or a text of them.
    ///
    /// # Errors
    /// When it is shorter than [`KEY_BYTES_MIN`].
    pub fn new(secret: impl AsRef<[u8]>) -> Result<Self, KeyTooShort> {
        let secret = secret.as_ref();
        if secret.len() < KEY_BYTES_MIN {
            return Err(KeyTooShort(secret.len()));
        }

        let mac = Hmac::new_from_slice(secret).expect("HMAC takes a key of any length");
        Ok(Self(mac))
    }

    /// A MAC by this key that has yet to be fed.
    pub(super) fn start_mac(&self) -> Hmac<Sha256> {
        self.0.clone()
    }
}
