//! Fuzz targets for grants and their keys.

use super::header_value::{HEADER_BYTES_MAX, read_shared, read_signed, write_shared, write_signed};
use super::key_pair::{GrantPublicKey, GrantSigningKey};
use super::shared_key::{GrantKey, KEY_BYTES_MIN};

/// Parses a header value as a grant of each kind. Asserts that at most one kind matches, and that
/// its claims survive a round trip.
pub fn grants(bytes: &[u8]) {
    let text = &*String::from_utf8_lossy(bytes);
    let (shared, signed) = (read_shared(text), read_signed(text));
    assert!(shared.is_err() || signed.is_err(), "{text}");

    if let Ok(grant) = shared {
        let key = GrantKey::new([7_u8; KEY_BYTES_MIN]).expect("it is long enough");
        let written = write_shared(&grant.claims, key.start_mac());
        // The MAC in the input may have been shorter.
        if written.len() <= HEADER_BYTES_MAX {
            assert_eq!(read_shared(&written).map(|grant| grant.claims), Ok(grant.claims));
        }
    }

    if let Ok(grant) = signed {
        let written = write_signed(grant.key_id, &grant.claims, &grant.signature);
        // The expiry in the input may have leading zeros.
        assert!(written.len() <= text.len(), "{written}");
        assert_eq!(read_signed(&written), Ok(grant));
    }
}

/// Parses a list of public keys and a signing key. Asserts that both survive a round trip, and that
/// no text is both.
pub fn grant_keys(bytes: &[u8]) {
    let text = &*String::from_utf8_lossy(bytes);
    let listed = GrantPublicKey::parse_list(text);
    if let Ok(keys) = &listed {
        let written: Vec<_> = keys.iter().map(ToString::to_string).collect();
        assert_eq!(GrantPublicKey::parse_list(&written.join("\n")).as_ref(), Ok(keys));
    }

    let Ok(key) = GrantSigningKey::parse(text) else { return };
    assert!(listed.is_err(), "a signing key is a public key");
    let public = key.public_key();
    let again = GrantPublicKey::parse_list(&public.to_string());
    assert_eq!(again.as_deref(), Ok(std::slice::from_ref(public)));
}
