//! Key pairs of signed grants. Agents sign with the private half. Workers verify with the public
//! half, which cannot sign.

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::rand::{SecureRandom as _, SystemRandom};
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, Signature, UnparsedPublicKey};
use sha2::{Digest as _, Sha256};
use toolbus_config::Secret;
use zeroize::Zeroizing;

/// Maximum number of public keys of a worker.
pub const PUBLIC_KEYS_MAX: usize = 256;

/// Size of each half of a pair in bytes.
const KEY_BYTES: usize = 32;
/// Size of the id of a key in bytes.
const ID_BYTES: usize = 8;
/// Domain that separates the ids of keys from other digests of the keys.
const ID_DOMAIN: &[u8] = b"toolbus grant key: ";

/// Prefixes of the text forms of both halves. They differ, so that neither half is mistaken for the
/// other.
const PRIVATE_PREFIX: &str = "ed25519-private:";
const PUBLIC_PREFIX: &str = "ed25519-public:";
const PRIVATE_LABEL: &str = "PRIVATE KEY";
const PUBLIC_LABEL: &str = "PUBLIC KEY";
const PEM_BEGIN: &str = "-----BEGIN ";
const PEM_END: &str = "-----END ";
const PEM_DASHES: &str = "-----";
/// The DER encoding of a public key up to the key bytes (RFC 8410).
const PUBLIC_DER_PREFIX: [u8; 12] =
    [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// An agent's key, which signs grants. Clones share it, and it is never logged or displayed.
#[derive(Clone)]
pub struct GrantSigningKey(Arc<SigningPair>);

struct SigningPair {
    pair: Ed25519KeyPair,
    public: GrantPublicKey,
}

/// The public half of an agent's key, which verifies its grants. Its text form is
/// `ed25519-public:BASE64`.
#[derive(Clone, PartialEq, Eq)]
pub struct GrantPublicKey {
    bytes: [u8; KEY_BYTES],
    id: Arc<str>,
}

/// The error of a text that is not a key. It does not quote the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The text is not a signing key.
    #[error(
        "expected a signing key: `{PRIVATE_PREFIX}` and 32 bytes in base64, or an Ed25519 key in \
         PKCS#8 PEM"
    )]
    NotPrivate,
    /// The text is a public key, but a signing key is expected.
    #[error("expected a signing key, found a public key")]
    PublicForPrivate,
    /// A line is not a public key.
    #[error(
        "line {line}: expected a public key: `{PUBLIC_PREFIX}` and 32 bytes in base64, or an \
         Ed25519 key in PEM"
    )]
    NotPublic {
        /// Line number, from 1.
        line: usize,
    },
    /// A line is a signing key, but a public key is expected.
    #[error("line {line}: expected a public key, found a signing key, which only agents may have")]
    PrivateForPublic {
        /// Line number, from 1.
        line: usize,
    },
    /// The list is empty.
    #[error("there is no public key")]
    NoKey,
    /// The list has too many keys.
    #[error("more than {PUBLIC_KEYS_MAX} public keys")]
    TooManyKeys,
    /// The system could not generate a key.
    #[error("the system provides no random bytes")]
    NoRandomBytes,
}

impl GrantSigningKey {
    /// Generates a random key, in the text form that [`Self::parse`] reads.
    ///
    /// # Errors
    /// When the system provides no random bytes.
    pub fn draw() -> Result<Secret, KeyError> {
        let mut seed = Zeroizing::new([0_u8; KEY_BYTES]);
        SystemRandom::new().fill(seed.as_mut_slice()).map_err(|_| KeyError::NoRandomBytes)?;
        Ok(format!("{PRIVATE_PREFIX}{}", STANDARD.encode(seed.as_slice())).into())
    }

    /// Parses a key: `ed25519-private:` and 32 bytes in base64, or an Ed25519 key in PKCS#8 PEM, as
    /// `openssl genpkey -algorithm ed25519` writes it. Ignores surrounding whitespace.
    ///
    /// # Errors
    /// If the text is not such a key. The error does not quote the text.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        let text = text.trim();
        let pair = if let Some(encoded) = text.strip_prefix(PRIVATE_PREFIX) {
            decode(encoded).and_then(|seed| Ed25519KeyPair::from_seed_unchecked(&seed).ok())
        } else if is_public(text) {
            return Err(KeyError::PublicForPrivate);
        } else {
            let der = decode_pem(text, PRIVATE_LABEL);
            der.and_then(|der| Ed25519KeyPair::from_pkcs8_maybe_unchecked(&der).ok())
        };

        let pair = pair.ok_or(KeyError::NotPrivate)?;
        let public: &[u8] = pair.public_key().as_ref();
        let bytes: [u8; KEY_BYTES] = public.try_into().map_err(|_| KeyError::NotPrivate)?;
        Ok(Self(Arc::new(SigningPair { pair, public: GrantPublicKey::of(bytes) })))
    }

    /// Returns the public half.
    #[must_use]
    pub fn public_key(&self) -> &GrantPublicKey {
        &self.0.public
    }

    /// Signs these bytes.
    pub(super) fn sign(&self, bytes: &[u8]) -> Signature {
        self.0.pair.sign(bytes)
    }
}

impl GrantPublicKey {
    fn of(bytes: [u8; KEY_BYTES]) -> Self {
        let digest = Sha256::new().chain_update(ID_DOMAIN).chain_update(bytes).finalize();
        let id: String = digest.iter().take(ID_BYTES).map(|byte| format!("{byte:02x}")).collect();
        Self { bytes, id: id.into() }
    }

    /// Parses a list of keys. Each line is `ed25519-public:`, 32 bytes in base64 and an optional
    /// comment, or part of an Ed25519 key in PEM. Ignores empty lines, lines that begin with `#`,
    /// and repeated keys.
    ///
    /// # Errors
    /// If the text contains anything else, no key or too many keys. The error quotes no line.
    pub fn parse_list(text: &str) -> Result<Vec<Self>, KeyError> {
        let mut keys = Vec::new();
        let mut lines = text.lines().map(str::trim).zip(1_usize..);

        while let Some((first, line)) = lines.next() {
            if first.is_empty() || first.starts_with('#') {
                continue;
            }

            let key = if first.starts_with(PEM_BEGIN) {
                let mut block = first.to_owned();
                for (next, _) in lines.by_ref() {
                    block.push('\n');
                    block.push_str(next);
                    if next.starts_with(PEM_END) {
                        break;
                    }
                }
                Self::parse_pem(&block)
            } else {
                Self::parse_line(first)
            };

            let key = key.ok_or_else(|| match is_private(first) {
                true => KeyError::PrivateForPublic { line },
                false => KeyError::NotPublic { line },
            })?;
            if keys.contains(&key) {
                continue;
            }
            if keys.len() == PUBLIC_KEYS_MAX {
                return Err(KeyError::TooManyKeys);
            }
            keys.push(key);
        }

        if keys.is_empty() { Err(KeyError::NoKey) } else { Ok(keys) }
    }

    fn parse_line(line: &str) -> Option<Self> {
        let encoded = line.strip_prefix(PUBLIC_PREFIX)?.split_ascii_whitespace().next()?;
        decode(encoded)?.as_slice().try_into().ok().map(Self::of)
    }

    fn parse_pem(block: &str) -> Option<Self> {
        let der = decode_pem(block, PUBLIC_LABEL)?;
        der.strip_prefix(&PUBLIC_DER_PREFIX)?.try_into().ok().map(Self::of)
    }

    /// Returns the id of the key in grants: a digest of the key, in hexadecimal digits.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Verifies a signature of these bytes by the private half.
    pub(super) fn verifies(&self, bytes: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ED25519, &self.bytes).verify(bytes, signature).is_ok()
    }
}

/// Recognizes the beginning of a public key.
fn is_public(text: &str) -> bool {
    text.starts_with(PUBLIC_PREFIX)
        || text.strip_prefix(PEM_BEGIN).is_some_and(|rest| rest.starts_with(PUBLIC_LABEL))
}

/// Recognizes the first line of a private key of any kind.
fn is_private(line: &str) -> bool {
    line.starts_with(PRIVATE_PREFIX)
        || line.strip_prefix(PEM_BEGIN).is_some_and(|rest| rest.contains(PRIVATE_LABEL))
}

/// Decodes base64.
fn decode(text: &str) -> Option<Zeroizing<Vec<u8>>> {
    STANDARD.decode(text).ok().map(Zeroizing::new)
}

/// Decodes a PEM text that is a single block with this label.
fn decode_pem(text: &str, label: &str) -> Option<Zeroizing<Vec<u8>>> {
    let rest = text.strip_prefix(PEM_BEGIN)?.strip_prefix(label)?.strip_prefix(PEM_DASHES)?;
    let body = rest.strip_suffix(PEM_DASHES)?.strip_suffix(label)?.strip_suffix(PEM_END)?;
    let encoded: Zeroizing<String> = Zeroizing::new(body.split_ascii_whitespace().collect());
    decode(&encoded)
}

impl fmt::Debug for GrantSigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("GrantSigningKey").field(&self.0.public.id).finish()
    }
}

impl fmt::Debug for GrantPublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("GrantPublicKey").field(&self.id).finish()
    }
}

impl fmt::Display for GrantPublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PUBLIC_PREFIX}{}", STANDARD.encode(self.bytes))
    }
}

#[cfg(test)]
mod tests;
