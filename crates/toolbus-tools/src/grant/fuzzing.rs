//! Grants as a target of a fuzzer.

use super::header_value::{HEADER_BYTES_MAX, read_header, write_header};
use super::key::{GrantKey, KEY_BYTES_MIN};

/// Reads the value of a header as a grant. Asserts that its claims are read again from what is
/// written of them.
pub fn grants(bytes: &[u8]) {
    let text = &*String::from_utf8_lossy(bytes);
    let Ok(grant) = read_header(text) else { return };

    let key = GrantKey::new([7_u8; KEY_BYTES_MIN]).expect("it is long enough");
    let written = write_header(&grant.claims, key.start_mac());
    // Its own MAC may have been shorter.
    if written.len() <= HEADER_BYTES_MAX {
        let again = read_header(&written).map(|grant| grant.claims);
        assert_eq!(again, Ok(grant.claims));
    }
}
