//! The value of the header `rb-grant`: `VERSION.EXPIRY.PRINCIPAL.MAC`, the expiry in Unix
//! milliseconds, the last two in base64 as URLs have it.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, Mac as _};
use sha2::Sha256;

use super::Claims;
use super::mac::VERSION;

/// Longest value that is looked at, in bytes. One of ours has some 1,200 at most, with the longest
/// claim that there is, and mostly a tenth of that.
pub const HEADER_BYTES_MAX: usize = 2048;

/// A grant as it came, not yet compared with anything.
pub(super) struct ReceivedGrant {
    pub(super) claims: Claims,
    pub(super) mac: Vec<u8>,
}

/// Why the value of a header is no grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unreadable {
    Malformed,
    UnknownVersion,
}

pub(super) fn write_header(claims: &Claims, mac: Hmac<Sha256>) -> String {
    let principal = URL_SAFE_NO_PAD.encode(&claims.principal);
    let mac = URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes());
    format!("{VERSION}.{}.{principal}.{mac}", claims.expires_unix_ms)
}

pub(super) fn read_header(value: &str) -> Result<ReceivedGrant, Unreadable> {
    if value.len() > HEADER_BYTES_MAX {
        return Err(Unreadable::Malformed);
    }

    let (version, rest) = value.split_once('.').ok_or(Unreadable::Malformed)?;
    if version != VERSION {
        return Err(Unreadable::UnknownVersion);
    }

    read_version_1(rest).ok_or(Unreadable::Malformed)
}

fn read_version_1(text: &str) -> Option<ReceivedGrant> {
    let mut parts = text.split('.');
    let (expiry, principal, mac) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() {
        return None;
    }

    let principal = String::from_utf8(URL_SAFE_NO_PAD.decode(principal).ok()?).ok()?;
    let claims = Claims { principal, expires_unix_ms: expiry.parse().ok()? };
    Some(ReceivedGrant { claims, mac: URL_SAFE_NO_PAD.decode(mac).ok()? })
}
