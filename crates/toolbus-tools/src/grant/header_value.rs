//! The values of the headers `rb-grant` and `rb-signed-grant`:
//!
//! - `1.EXPIRY.PRINCIPAL.MAC`, by the shared key;
//! - `2.KEY.EXPIRY.PRINCIPAL.SIGNATURE`, by the signing key of this id.
//!
//! The expiry is in Unix milliseconds; the last two parts are in URL-safe base64.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, Mac as _};
use sha2::Sha256;

use super::Claims;
use super::sealed_request::{SHARED_VERSION, SIGNED_VERSION};

/// Maximum size of a value that is parsed, in bytes. A value of Toolbus has at most about 1,300,
/// with the longest possible claim, and typically a tenth of that.
pub const HEADER_BYTES_MAX: usize = 2048;

/// A grant by the shared key as received, not yet verified.
pub(super) struct SharedGrant {
    pub(super) claims: Claims,
    pub(super) mac: Vec<u8>,
}

/// A signed grant as received, not yet verified.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SignedGrant<'a> {
    pub(super) key_id: &'a str,
    pub(super) claims: Claims,
    pub(super) signature: Vec<u8>,
}

/// Why the value of a header is no grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unreadable {
    Malformed,
    UnknownVersion,
}

pub(super) fn write_shared(claims: &Claims, mac: Hmac<Sha256>) -> String {
    let principal = URL_SAFE_NO_PAD.encode(&claims.principal);
    let mac = URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes());
    format!("{SHARED_VERSION}.{}.{principal}.{mac}", claims.expires_unix_ms)
}

pub(super) fn write_signed(key_id: &str, claims: &Claims, signature: &[u8]) -> String {
    let principal = URL_SAFE_NO_PAD.encode(&claims.principal);
    let signature = URL_SAFE_NO_PAD.encode(signature);
    format!("{SIGNED_VERSION}.{key_id}.{}.{principal}.{signature}", claims.expires_unix_ms)
}

pub(super) fn read_shared(value: &str) -> Result<SharedGrant, Unreadable> {
    let rest = strip_version(value, SHARED_VERSION)?;
    let (claims, mac) = read_claims(rest).ok_or(Unreadable::Malformed)?;
    Ok(SharedGrant { claims, mac })
}

pub(super) fn read_signed(value: &str) -> Result<SignedGrant<'_>, Unreadable> {
    let rest = strip_version(value, SIGNED_VERSION)?;
    let (key_id, rest) = rest.split_once('.').ok_or(Unreadable::Malformed)?;
    let (claims, signature) = read_claims(rest).ok_or(Unreadable::Malformed)?;
    Ok(SignedGrant { key_id, claims, signature })
}

/// Returns the rest of a value that begins with this version.
fn strip_version<'a>(value: &'a str, expected: &str) -> Result<&'a str, Unreadable> {
    if value.len() > HEADER_BYTES_MAX {
        return Err(Unreadable::Malformed);
    }

    let (version, rest) = value.split_once('.').ok_or(Unreadable::Malformed)?;
    if version == expected { Ok(rest) } else { Err(Unreadable::UnknownVersion) }
}

/// Parses the claims, and the bytes of the proof that follows them.
fn read_claims(text: &str) -> Option<(Claims, Vec<u8>)> {
    let mut parts = text.split('.');
    let (expiry, principal, proof) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() {
        return None;
    }

    let principal = String::from_utf8(URL_SAFE_NO_PAD.decode(principal).ok()?).ok()?;
    let claims = Claims { principal, expires_unix_ms: expiry.parse().ok()? };
    Some((claims, URL_SAFE_NO_PAD.decode(proof).ok()?))
}
