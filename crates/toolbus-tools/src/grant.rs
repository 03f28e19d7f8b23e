//! Grants: a worker's proof that a request has passed the gates.
//!
//! Gates stand where calls come in, and a worker takes whatever is on the bus. So the invoker gives
//! what has passed its last gate a [`Permit`], and the request that leaves with it is sealed with a
//! grant: a MAC, by a key that agents and workers share, over everything that a worker acts on.
//! [`GrantCheck`] is the worker's end.
//!
//! Nothing else makes a [`Permit`], and neither a key nor a grant is ever in a log or an error.

mod check;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod header_value;
mod key;
mod mac;
mod principal_claim;
pub mod settings;

use std::fmt;

use toolbus_bus::requester::Seal;
use toolbus_bus::{Deadline, Envelope, Topic};
use toolbus_wire::header;

pub use check::{CLOCK_SKEW_GRACE, GrantCheck, GrantPolicy};
pub use header_value::HEADER_BYTES_MAX;
pub use key::{GrantKey, KEY_BYTES_MIN, KeyTooShort};

use crate::id::{SessionId, ToolId};
use crate::scope::Scope;
use crate::subject::Subject;
use header_value::write_header;
use mac::SealedRequest;
use principal_claim::write_principal_claim;

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
    key: Option<GrantKey>,
}

impl Permit {
    /// A permit for what has passed the last gate; nothing else may call this.
    pub(crate) fn new(subject: &Subject, scope: &Scope, key: Option<&GrantKey>) -> Self {
        Self {
            subject: subject.id.clone(),
            session: scope.session.clone(),
            principal: write_principal_claim(&scope.principal),
            key: key.cloned(),
        }
    }
}

impl Seal for Permit {
    fn seal(&self, topic: &Topic, deadline: Deadline, envelope: &mut Envelope) {
        if let Some(session) = &self.session {
            envelope.headers.set(header::SESSION, session.as_str());
        }
        let Some(key) = &self.key else { return };

        let claims =
            Claims { principal: self.principal.clone(), expires_unix_ms: deadline.unix_ms() };
        let mac = SealedRequest::new(topic, envelope, &self.subject).mac(key, &claims);
        envelope.headers.set(header::GRANT, write_header(&claims, mac));
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit").field("subject", &self.subject).finish_non_exhaustive()
    }
}
