//! A principal as the one text that a grant claims.

use sha2::{Digest as _, Sha256};

use crate::scope::{Principal, Proof};

/// Longest name of a principal, of a user or of an issuer that a claim has in full, in bytes. Of a
/// longer one it has as much, and a digest of all of it.
pub(super) const NAME_BYTES_MAX: usize = 256;
/// Bytes of that digest: enough that nobody finds two names for one claim.
const DIGEST_BYTES: usize = 16;

/// A principal as one text: a name means nothing without how it is known. Two principals never have
/// the same one, and none is too long for a header.
pub(super) fn write_principal_claim(principal: &Principal) -> String {
    let name = shorten_name(&principal.name);
    match &principal.proof {
        Proof::Claimed => format!("claimed:{name}"),
        Proof::Broker { user } => format!("broker({}):{name}", escape_name(&shorten_name(user))),
        Proof::Token { issuer, .. } => {
            format!("token({}):{name}", escape_name(&shorten_name(issuer)))
        }
        Proof::Local => format!("local:{name}"),
    }
}

/// Cuts a name that is too long. What was cut is longer than any name in full, so it is mistaken
/// for none.
fn shorten_name(name: &str) -> String {
    if name.len() <= NAME_BYTES_MAX {
        return name.to_owned();
    }

    let start = &name[..name.floor_char_boundary(NAME_BYTES_MAX)];
    let digest: String = Sha256::digest(name.as_bytes())
        .iter()
        .take(DIGEST_BYTES)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("{start}~{digest}")
}

/// Escapes what would end the name before its end.
fn escape_name(name: &str) -> String {
    name.replace('\\', "\\\\").replace(')', "\\)")
}

#[cfg(test)]
mod tests;
