//! Sealing: AES-256 in Galois/Counter Mode, with a nonce for each write and the place of the
//! credential beside it.

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom, SystemRandom};
use zeroize::Zeroizing;

use crate::{CredentialPlace, VaultError, VaultKey};

/// Seals a value for its place: the nonce, what is sealed, and the tag.
///
/// Nonces are drawn: with one key, 2³² writes may be made before two may be the same.
pub(crate) fn seal(
    key: &VaultKey,
    place: &CredentialPlace,
    value: &str,
) -> Result<Vec<u8>, VaultError> {
    let failed = |_| VaultError::NoKey("the system gives no random numbers".to_owned());
    let mut nonce = [0; NONCE_LEN];
    SystemRandom::new().fill(&mut nonce).map_err(failed)?;

    let mut sealed = nonce.to_vec();
    let mut text = Zeroizing::new(Vec::with_capacity(value.len() + AES_256_GCM.tag_len()));
    text.extend_from_slice(value.as_bytes());
    let nonce = Nonce::assume_unique_for_key(nonce);
    cipher(key)?
        .seal_in_place_append_tag(nonce, Aad::from(place.to_bytes()), &mut *text)
        .map_err(failed)?;
    sealed.extend_from_slice(&text);
    Ok(sealed)
}

/// Opens what was sealed for this place.
pub(crate) fn open(
    key: &VaultKey,
    place: &CredentialPlace,
    sealed: Vec<u8>,
) -> Result<Zeroizing<String>, VaultError> {
    let damaged = || VaultError::Damaged { place: place.to_string() };
    let mut sealed = Zeroizing::new(sealed);
    let (nonce, text) = sealed.split_at_mut_checked(NONCE_LEN).ok_or_else(damaged)?;
    let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| damaged())?;

    let opened = cipher(key)?.open_in_place(nonce, Aad::from(place.to_bytes()), text);
    let opened = opened.map_err(|_| damaged())?;
    let text = str::from_utf8(opened).map_err(|_| damaged())?;
    Ok(Zeroizing::new(text.to_owned()))
}

fn cipher(key: &VaultKey) -> Result<LessSafeKey, VaultError> {
    let unbound = UnboundKey::new(&AES_256_GCM, key.bytes());
    let unbound = unbound.map_err(|_| VaultError::NoKey("it does not fit".to_owned()))?;
    Ok(LessSafeKey::new(unbound))
}

#[cfg(test)]
mod tests;
