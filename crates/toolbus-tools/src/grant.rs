//! Grants: a worker's proof that a request has passed the gates.
//!
//! Gates stand where calls come in, and a worker takes whatever is on the bus. So the invoker gives
//! what has passed its last gate a [`Permit`], and the request that leaves with it is sealed with a
//! grant over everything that a worker acts on. [`GrantCheck`] is the worker's end.
//!
//! There are two kinds. A signed grant is an Ed25519 signature: agents have a [`GrantSigningKey`],
//! and workers have its [`GrantPublicKey`], which cannot sign. A grant by the shared key, the older
//! kind, is a MAC with a [`GrantKey`] that both have. Each kind has its own header, so that a
//! request can carry both while a fleet migrates.
//!
//! Nothing else makes a [`Permit`], and neither a key nor a grant is ever in a log or an error.

mod check;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod header_value;
mod key_pair;
mod principal_claim;
mod sealed_request;
pub mod settings;
mod shared_key;
mod signer;

use std::fmt;

use toolbus_bus::requester::Seal;
use toolbus_bus::{Deadline, Envelope, Topic};
use toolbus_wire::header;

pub use check::{CLOCK_SKEW_GRACE, GrantCheck, GrantCheckKeys, GrantPolicy};
pub use header_value::HEADER_BYTES_MAX;
pub use key_pair::{GrantPublicKey, GrantSigningKey, KeyError, PUBLIC_KEYS_MAX};
pub use shared_key::{GrantKey, KEY_BYTES_MIN, KeyTooShort};
pub use signer::GrantSigner;

use crate::id::{SessionId, ToolId};
use crate::scope::Scope;
use crate::subject::Subject;
use principal_claim::write_principal_claim;
use sealed_request::SealedRequest;

/// What a grant says that a worker cannot know by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Claims {
    /// Who calls, and how that is known.
    principal: String,
    /// When the caller stops waiting.
    expires_unix_ms: u64,
}

/// Leave to have a worker do what has passed every gate: one subject, for one principal in its
/// session. It names the session in the requests that are sent for it, and seals them. Without a
/// key it is a permit all the same, and leaves no seal.
#[derive(Clone)]
pub struct Permit {
    subject: ToolId,
    session: Option<SessionId>,
    principal: String,
    signer: Option<GrantSigner>,
}

impl Permit {
    /// A permit for what has passed the last gate; nothing else may call this.
    pub(crate) fn new(subject: &Subject, scope: &Scope, signer: Option<&GrantSigner>) -> Self {
        Self {
            subject: subject.id.clone(),
            session: scope.session.clone(),
            principal: write_principal_claim(&scope.principal),
            signer: signer.cloned(),
        }
    }
}

impl Seal for Permit {
    fn seal(&self, topic: &Topic, deadline: Deadline, envelope: &mut Envelope) {
        if let Some(session) = &self.session {
            envelope.headers.set(header::SESSION, session.as_str());
        }
        let Some(signer) = &self.signer else { return };

        let claims =
            Claims { principal: self.principal.clone(), expires_unix_ms: deadline.unix_ms() };
        let request = SealedRequest::new(topic, envelope, &self.subject);
        for (name, value) in signer.seal(&request, &claims) {
            envelope.headers.set(name, value);
        }
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit").field("subject", &self.subject).finish_non_exhaustive()
    }
}
