//! What is sealed opens at its place, with its key, unchanged, and in no other way.

use proptest::prelude::*;

use super::*;

fn key(digit: char) -> VaultKey {
    VaultKey::parse(&digit.to_string().repeat(64)).unwrap()
}

fn places() -> Vec<CredentialPlace> {
    let base = CredentialPlace::new("mcp:a", "TOKEN");
    vec![
        base.clone(),
        CredentialPlace::new("mcp:b", "TOKEN"),
        CredentialPlace::new("mcp:a", "TOKEN2"),
        base.clone().for_tool("t"),
        base.clone().for_user("t"),
        base.for_tool("t").for_user("t"),
    ]
}

#[test]
fn only_its_own_place_and_key_open_it() {
    for place in places() {
        let sealed = seal(&key('1'), &place, "s3cret").unwrap();
        for other in places() {
            let opened = open(&key('1'), &other, sealed.clone());
            assert_eq!(opened.is_ok(), other == place, "{place} at {other}");
        }
        let error = open(&key('2'), &place, sealed).unwrap_err();
        assert!(matches!(error, VaultError::Damaged { .. }), "{error}");
    }
}

#[test]
fn the_same_value_is_never_sealed_alike() {
    let place = CredentialPlace::new("mcp:a", "TOKEN");
    let seal = || seal(&key('1'), &place, "s3cret").unwrap();
    assert_ne!(seal()[..NONCE_LEN], seal()[..NONCE_LEN]);
}

proptest! {
    #[test]
    fn what_was_changed_anywhere_does_not_open(value in ".{0,40}", at: prop::sample::Index, bit in 0_u8..8) {
        let place = CredentialPlace::new("mcp:a", "TOKEN");
        let sealed = seal(&key('1'), &place, &value).unwrap();
        if value.len() >= 6 {
            prop_assert!(!sealed.windows(value.len()).any(|window| window == value.as_bytes()));
        }
        let opened = open(&key('1'), &place, sealed.clone()).unwrap();
        prop_assert_eq!(opened.as_str(), value.as_str());

        let at = at.index(sealed.len());
        prop_assert!(open(&key('1'), &place, sealed[..at].to_vec()).is_err());
        let mut changed = sealed;
        changed[at] ^= 1_u8 << bit;
        prop_assert!(open(&key('1'), &place, changed).is_err());
    }
}
