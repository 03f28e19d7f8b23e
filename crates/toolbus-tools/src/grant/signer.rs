//! The keys with which an agent seals its requests.

use toolbus_wire::header;

use super::Claims;
use super::header_value::{write_shared, write_signed};
use super::key_pair::GrantSigningKey;
use super::sealed_request::SealedRequest;
use super::shared_key::GrantKey;

/// The keys with which an agent makes grants. With both keys, its requests carry one grant of each
/// kind, because older workers know only the shared key.
#[derive(Clone)]
pub struct GrantSigner {
    shared: Option<GrantKey>,
    signing: Option<GrantSigningKey>,
}

impl GrantSigner {
    /// Creates a signer with these keys. `None` if both are missing.
    #[must_use]
    pub fn new(shared: Option<GrantKey>, signing: Option<GrantSigningKey>) -> Option<Self> {
        let has_key = shared.is_some() || signing.is_some();
        has_key.then_some(Self { shared, signing })
    }

    /// Returns the headers that seal a request, with their values.
    pub(super) fn seal(
        &self,
        request: &SealedRequest<'_>,
        claims: &Claims,
    ) -> Vec<(&'static str, String)> {
        let shared = self.shared.as_ref().map(|key| {
            let mac = request.mac(key, claims);
            (header::GRANT, write_shared(claims, mac))
        });
        let signed = self.signing.as_ref().map(|key| {
            let id = key.public_key().id();
            let signature = key.sign(&request.signed_bytes(id, claims));
            (header::SIGNED_GRANT, write_signed(id, claims, signature.as_ref()))
        });

        shared.into_iter().chain(signed).collect()
    }
}

impl From<GrantKey> for GrantSigner {
    fn from(key: GrantKey) -> Self {
        Self { shared: Some(key), signing: None }
    }
}

impl From<GrantSigningKey> for GrantSigner {
    fn from(key: GrantSigningKey) -> Self {
        Self { shared: None, signing: Some(key) }
    }
}
