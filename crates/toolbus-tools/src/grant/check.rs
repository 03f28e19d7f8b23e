//! The worker's end: what is looked at before a request may have any effect.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use hmac::Mac as _;
use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Meter};
use toolbus_bus::responder::Received;
use toolbus_bus::{Envelope, Topic};
use toolbus_wire::clock::unix_now;
use toolbus_wire::{ErrorCode, Execution, header};

use super::Claims;
use super::header_value::{Unreadable, read_shared, read_signed};
use super::key_pair::GrantPublicKey;
use super::sealed_request::{SHARED_VERSION, SIGNED_VERSION, SealedRequest};
use super::shared_key::GrantKey;
use crate::call_error::CallError;
use crate::id::ToolId;
use crate::metrics::{GRANT_CHECKS, GRANT_RESULT, GRANT_VERSION, METER};

/// How far the clocks of an agent and a worker may differ: as far as in Kerberos, so that two
/// machines that are each wrong by two minutes still work together. It is also for how long after
/// its deadline somebody on the bus may send a copy of a request.
pub const CLOCK_SKEW_GRACE: Duration = Duration::from_secs(5 * 60);

/// What a worker does about grants. Clones are the same check; without a key nothing is looked at.
#[derive(Clone, Default)]
pub struct GrantCheck(Option<Arc<ActiveCheck>>);

/// Which requests a worker with a key refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GrantPolicy {
    /// Those with a grant that is not valid. One without any is taken.
    CheckPresent,
    /// All without a valid grant.
    Require,
}

/// Keys with which a worker checks grants. A grant is valid if any one key verifies it.
#[derive(Clone, Default)]
pub struct GrantCheckKeys {
    shared: Vec<GrantKey>,
    public: Vec<GrantPublicKey>,
}

struct ActiveCheck {
    /// What the worker is called before callers.
    worker: &'static str,
    keys: GrantCheckKeys,
    policy: GrantPolicy,
    checks: Counter<u64>,
}

/// The grant that decides about a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DecidingGrant<'a> {
    Signed(&'a str),
    Shared(&'a str),
    None,
}

/// Why a request has no valid grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    #[error("the request has none")]
    Missing,
    #[error("the request's grant cannot be read")]
    Malformed,
    #[error("the request's grant has an unknown version")]
    UnknownVersion,
    #[error("the request's grant has expired")]
    Expired,
    #[error("the request's grant does not match the request or the key")]
    Mismatch,
    #[error("the request's grant is signed with a key that is not known here")]
    UnknownKey,
    #[error("the request's grant is made with the shared key, which does not count here")]
    SharedKeyEnded,
}

impl GrantCheckKeys {
    /// Adds a key that agents and workers share, such as the previous one.
    #[must_use]
    pub fn with_shared(mut self, key: GrantKey) -> Self {
        self.shared.push(key);
        self
    }

    /// Adds the public keys of agents.
    #[must_use]
    pub fn with_public(mut self, keys: impl IntoIterator<Item = GrantPublicKey>) -> Self {
        self.public.extend(keys);
        self
    }

    /// Returns true if there is no key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.shared.is_empty() && self.public.is_empty()
    }

    /// Returns the numbers of shared keys and of public keys.
    #[cfg(test)]
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.shared.len(), self.public.len())
    }
}

impl From<GrantKey> for GrantCheckKeys {
    fn from(key: GrantKey) -> Self {
        Self::default().with_shared(key)
    }
}

impl GrantCheck {
    /// Looks at nothing.
    #[must_use]
    pub fn off() -> Self {
        Self(None)
    }

    /// Creates a check with these keys. `worker` names the worker in errors to callers, such as
    /// `bridge`. The check counts with the global meter, so set up telemetry first.
    #[must_use]
    pub fn new(worker: &'static str, policy: GrantPolicy, keys: impl Into<GrantCheckKeys>) -> Self {
        let meter = opentelemetry::global::meter(METER);
        Self::of_meter(worker, policy, keys.into(), &meter)
    }

    pub(super) fn of_meter(
        worker: &'static str,
        policy: GrantPolicy,
        keys: GrantCheckKeys,
        meter: &Meter,
    ) -> Self {
        let checks = GRANT_CHECKS.counter(meter);
        Self(Some(Arc::new(ActiveCheck { worker, keys, policy, checks })))
    }

    /// Whether a request that was let pass has a grant, so that it is to be taken to the letter.
    #[must_use]
    pub fn is_granted(&self, headers: &header::Headers) -> bool {
        let is_there = |name| headers.get(name).is_some();
        self.0.is_some() && (is_there(header::GRANT) || is_there(header::SIGNED_GRANT))
    }

    /// Checks a request that is about `subject`, by the worker's own reading of it.
    ///
    /// # Errors
    /// [`ErrorCode::Denied`], where it may not be made; that is logged and counted.
    pub fn check(
        &self,
        received: Received<'_>,
        subject: impl FnOnce() -> ToolId,
    ) -> Result<(), CallError> {
        let Some(check) = &self.0 else { return Ok(()) };

        let Received { topic, envelope, .. } = received;
        let subject = subject();
        let verdict = check.verify(topic, envelope, &subject, unix_now());
        check.count(&verdict, check.deciding_grant(&envelope.headers).version());

        match verdict {
            Ok(claims) => {
                let principal = claims.principal;
                tracing::debug!(principal, %subject, "a request has a valid grant");
                Ok(())
            }
            Err(refusal) if check.lets_pass(refusal) => {
                let source = &envelope.source;
                tracing::debug!(source, %topic, "took a request without a grant");
                Ok(())
            }
            Err(refusal) => {
                report(refusal, topic, envelope);
                Err(check.error_of(refusal, received))
            }
        }
    }
}

impl ActiveCheck {
    /// Returns the grant that decides about a request. A signed grant that this worker can check
    /// decides alone: any worker could have made a grant by the shared key, so it never compensates
    /// for a wrong signature.
    fn deciding_grant<'h>(&self, headers: &'h header::Headers) -> DecidingGrant<'h> {
        let can_verify = !self.keys.public.is_empty();
        match (headers.get(header::SIGNED_GRANT), headers.get(header::GRANT)) {
            (Some(signed), _) if can_verify => DecidingGrant::Signed(signed),
            (_, Some(shared)) => DecidingGrant::Shared(shared),
            (Some(signed), None) => DecidingGrant::Signed(signed),
            (None, None) => DecidingGrant::None,
        }
    }

    /// What the grant of a request claims, when it is one for this request.
    fn verify(
        &self,
        topic: &Topic,
        envelope: &Envelope,
        subject: &ToolId,
        now: Duration,
    ) -> Result<Claims, Refusal> {
        let request = || SealedRequest::new(topic, envelope, subject);
        let claims = match self.deciding_grant(&envelope.headers) {
            DecidingGrant::Signed(value) => self.verify_signed(value, request)?,
            DecidingGrant::Shared(value) => self.verify_shared(value, request)?,
            DecidingGrant::None => return Err(Refusal::Missing),
        };

        // Only now is it the agent's word: what has expired was made by one of ours.
        let expires = Duration::from_millis(claims.expires_unix_ms);
        if expires.saturating_add(CLOCK_SKEW_GRACE) < now {
            return Err(Refusal::Expired);
        }

        Ok(claims)
    }

    fn verify_signed<'a>(
        &self,
        value: &str,
        request: impl FnOnce() -> SealedRequest<'a>,
    ) -> Result<Claims, Refusal> {
        let grant = read_signed(value)?;
        let key = self.keys.public.iter().find(|key| key.id() == grant.key_id);
        let key = key.ok_or(Refusal::UnknownKey)?;

        let signed = request().signed_bytes(key.id(), &grant.claims);
        let is_valid = key.verifies(&signed, &grant.signature);
        if is_valid { Ok(grant.claims) } else { Err(Refusal::Mismatch) }
    }

    fn verify_shared<'a>(
        &self,
        value: &str,
        request: impl FnOnce() -> SealedRequest<'a>,
    ) -> Result<Claims, Refusal> {
        let grant = read_shared(value)?;
        if self.keys.shared.is_empty() {
            return Err(Refusal::SharedKeyEnded);
        }

        let request = request();
        // Compares in constant time, so that timing does not reveal a partial match.
        let is_of =
            |key: &GrantKey| request.mac(key, &grant.claims).verify_slice(&grant.mac).is_ok();
        let is_valid = self.keys.shared.iter().any(is_of);
        if is_valid { Ok(grant.claims) } else { Err(Refusal::Mismatch) }
    }

    /// Whether a request is taken though it has no valid grant.
    fn lets_pass(&self, refusal: Refusal) -> bool {
        refusal == Refusal::Missing && self.policy == GrantPolicy::CheckPresent
    }

    fn count(&self, verdict: &Result<Claims, Refusal>, version: &'static str) {
        let result = match verdict {
            Ok(_) => "valid",
            // Not an attack, but a caller that has no key yet.
            Err(refusal) if self.lets_pass(*refusal) => "missing",
            Err(Refusal::Missing) => "missing_refused",
            Err(refusal) => refusal.label(),
        };
        let attributes =
            [KeyValue::new(GRANT_RESULT, result), KeyValue::new(GRANT_VERSION, version)];
        self.checks.add(1, &attributes);
    }

    fn error_of(&self, refusal: Refusal, received: Received<'_>) -> CallError {
        let worker = self.worker;
        let demand = match self.policy {
            GrantPolicy::Require => "requires a grant",
            GrantPolicy::CheckPresent => "checks grants",
        };
        let error = CallError::new(ErrorCode::Denied, format!("this {worker} {demand}: {refusal}"));

        if received.redelivered {
            // The worker before this one may have demanded none, and started it.
            error.with_execution(Execution::Unknown)
        } else {
            error.with_execution(Execution::NotStarted)
        }
    }
}

impl Refusal {
    /// Which of them it is, for logs and, but for a missing one, for metrics.
    fn label(&self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Malformed => "malformed",
            Self::UnknownVersion => "unknown_version",
            Self::Expired => "expired",
            Self::Mismatch => "mismatch",
            Self::UnknownKey => "unknown_key",
            Self::SharedKeyEnded => "shared_key_ended",
        }
    }
}

impl From<Unreadable> for Refusal {
    fn from(unreadable: Unreadable) -> Self {
        match unreadable {
            Unreadable::Malformed => Self::Malformed,
            Unreadable::UnknownVersion => Self::UnknownVersion,
        }
    }
}

impl DecidingGrant<'_> {
    /// Returns the version, for metrics.
    fn version(self) -> &'static str {
        match self {
            Self::Signed(_) => SIGNED_VERSION,
            Self::Shared(_) => SHARED_VERSION,
            Self::None => "none",
        }
    }
}

/// Writes a refusal to the log. What has expired on its way is nobody's fault.
fn report(refusal: Refusal, topic: &Topic, envelope: &Envelope) {
    let (source, reason) = (&envelope.source, refusal.label());
    if refusal == Refusal::Expired {
        tracing::info!(source, %topic, reason, "refused a request whose grant has expired");
    } else {
        tracing::warn!(source, %topic, reason, "refused a request without a valid grant");
    }
}

impl fmt::Debug for GrantCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("GrantCheck").field(&self.0.as_ref().map(|check| check.policy)).finish()
    }
}

#[cfg(test)]
mod tests;
