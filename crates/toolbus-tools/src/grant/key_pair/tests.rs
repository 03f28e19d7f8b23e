//! Keys in all text forms, and rejected texts.

use super::*;

const PRIVATE: &str = "ed25519-private:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
const PUBLIC: &str = "ed25519-public:A6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg=";
/// The same keys in the format of OpenSSL 3.
const PRIVATE_PEM: &str = "-----BEGIN PRIVATE KEY-----\n\
    MC4CAQAwBQYDK2VwBCIEIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f\n\
    -----END PRIVATE KEY-----\n";
const PUBLIC_PEM: &str = "-----BEGIN PUBLIC KEY-----\n\
    MCowBQYDK2VwAyEAA6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg=\n\
    -----END PUBLIC KEY-----\n";
const OTHER_PUBLIC: &str = "ed25519-public:AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA=";

fn ids(text: &str) -> Result<Vec<String>, KeyError> {
    let keys = GrantPublicKey::parse_list(text)?;
    Ok(keys.iter().map(|key| key.id().to_owned()).collect())
}

#[test]
fn a_signing_key_is_read_in_both_forms() {
    for text in [PRIVATE, PRIVATE_PEM, &format!("\n{PRIVATE}\r\n"), PRIVATE_PEM.trim_end()] {
        let key = GrantSigningKey::parse(text).unwrap();
        assert_eq!(key.public_key().to_string(), PUBLIC);
        assert_eq!(key.public_key().id(), "8027a06987ea90f8");
        assert_eq!(format!("{key:?}"), "GrantSigningKey(\"8027a06987ea90f8\")");
        assert!(key.public_key().verifies(b"text", key.sign(b"text").as_ref()));
        assert!(!key.public_key().verifies(b"texts", key.sign(b"text").as_ref()));
    }
}

#[test]
fn an_invalid_signing_key_is_rejected_without_its_text() {
    let longer = format!("{PRIVATE}AAAA");
    let two = format!("{PRIVATE_PEM}{PRIVATE_PEM}");
    for (text, expected) in [
        ("", KeyError::NotPrivate),
        ("0123456789abcdef0123456789abcdef", KeyError::NotPrivate),
        ("ed25519-private:", KeyError::NotPrivate),
        ("ed25519-private:AAEC", KeyError::NotPrivate),
        (&PRIVATE[..PRIVATE.len() - 1], KeyError::NotPrivate),
        (&*longer, KeyError::NotPrivate),
        (&*PRIVATE.to_uppercase(), KeyError::NotPrivate),
        (&*two, KeyError::NotPrivate),
        (&PRIVATE_PEM[..70], KeyError::NotPrivate),
        (&*PRIVATE_PEM.replace("PRIVATE", "RSA PRIVATE"), KeyError::NotPrivate),
        // A key of another algorithm.
        (&*PRIVATE_PEM.replace("K2Vw", "K2Vx"), KeyError::NotPrivate),
        (PUBLIC, KeyError::PublicForPrivate),
        (PUBLIC_PEM, KeyError::PublicForPrivate),
    ] {
        let error = GrantSigningKey::parse(text).unwrap_err();
        assert_eq!(error, expected, "{text}");
        assert!(!error.to_string().contains("AAEC"), "{error}");
    }
}

#[test]
fn keys_that_are_drawn_differ_and_are_read_again() {
    let [one, other] = [(); 2].map(|()| GrantSigningKey::draw().unwrap());
    assert_ne!(one.expose(), other.expose());
    let [one, other] = [one, other].map(|text| GrantSigningKey::parse(text.expose()).unwrap());
    assert_ne!(one.public_key(), other.public_key());
    assert!(!other.public_key().verifies(b"text", one.sign(b"text").as_ref()));
}

#[test]
fn public_keys_stand_on_lines_or_in_pem() {
    let (one, other) = ("8027a06987ea90f8".to_owned(), ids(OTHER_PUBLIC).unwrap().remove(0));
    assert_ne!(one, other);
    for (text, expected) in [
        (PUBLIC.to_owned(), vec![&one]),
        (PUBLIC_PEM.to_owned(), vec![&one]),
        (format!("# agents\r\n\r\n  {PUBLIC} of RockBot, 2026\r\n"), vec![&one]),
        (format!("{PUBLIC}\n{OTHER_PUBLIC}\n"), vec![&one, &other]),
        (format!("{OTHER_PUBLIC}\n{PUBLIC_PEM}{PUBLIC}\n"), vec![&other, &one]),
    ] {
        let found = ids(&text).unwrap();
        assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{text}");
    }
}

#[test]
fn an_invalid_list_of_public_keys_is_rejected_by_line() {
    let check = |text: &str, expected: KeyError| {
        let error = GrantPublicKey::parse_list(text).unwrap_err();
        assert_eq!(error, expected, "{text}");
        assert!(!error.to_string().contains("AAEC"), "{error}");
    };
    check("", KeyError::NoKey);
    check("\n# none\n", KeyError::NoKey);
    check("nonsense", KeyError::NotPublic { line: 1 });
    check(&format!("{PUBLIC}\n\n{}", &PUBLIC[..40]), KeyError::NotPublic { line: 3 });
    check(&format!("{PUBLIC}AAAA"), KeyError::NotPublic { line: 1 });
    check("ed25519-public:", KeyError::NotPublic { line: 1 });
    check(&PUBLIC_PEM[..60], KeyError::NotPublic { line: 1 });
    check(&PUBLIC_PEM.replace("K2Vw", "K2Vx"), KeyError::NotPublic { line: 1 });
    check(PRIVATE, KeyError::PrivateForPublic { line: 1 });
    check(&format!("{PUBLIC}\n{PRIVATE_PEM}"), KeyError::PrivateForPublic { line: 2 });

    let line = |number: usize| {
        let mut bytes = [0_u8; KEY_BYTES];
        bytes[..8].copy_from_slice(&(number as u64).to_be_bytes());
        GrantPublicKey::of(bytes).to_string()
    };
    let lines = |count: usize| (1..=count).map(line).collect::<Vec<_>>().join("\n");
    assert_eq!(ids(&lines(PUBLIC_KEYS_MAX)).unwrap().len(), PUBLIC_KEYS_MAX);
    check(&lines(PUBLIC_KEYS_MAX + 1), KeyError::TooManyKeys);
}
