//! The counts of one limit, by what they are of.

use std::collections::HashMap;
use std::ops::Add;
use std::sync::Arc;
use std::time::Duration;

use governor::clock::{Clock, Reference};
use governor::nanos::Nanos;
use governor::state::StateStore;
use governor::state::keyed::ShrinkableKeyedStateStore;
use parking_lot::Mutex;
use tokio::time::Instant;
use toolbus_tools::Principal;
use toolbus_tools::id::{SessionId, ToolId};
use toolbus_tools::policy::PolicyRequest;
use toolbus_tools::scope::Proof;
use toolbus_wire::name::AgentName;

use crate::principal::principal_text;
use crate::settings::CountedBy;

/// How many counts a limit has; all further values of what it counts by share one.
pub const BUCKETS_MAX: usize = 4_096;
/// How often counts are looked for that have run out, while there is no room.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// What a count is of.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct BucketKey {
    tool: Option<ToolId>,
    principal: Option<Principal>,
    agent: Option<AgentName>,
    session: Option<SessionId>,
}

impl BucketKey {
    /// The count that a call belongs to.
    pub(super) fn of(request: &PolicyRequest<'_>, counted_by: &[CountedBy]) -> Self {
        let mut key = Self::default();
        for by in counted_by {
            match by {
                CountedBy::Tool => key.tool = Some(request.subject.id.clone()),
                CountedBy::Principal => key.principal = Some(proven(&request.scope.principal)),
                CountedBy::Agent => key.agent = Some(request.scope.agent.clone()),
                CountedBy::Session => key.session.clone_from(&request.scope.session),
            }
        }
        key
    }

    /// A text that no other key has.
    pub(crate) fn text(&self) -> String {
        let parts = [
            ("tool", self.tool.as_ref().map(|tool| tool.as_str().to_owned())),
            ("principal", self.principal.as_ref().map(principal_text)),
            ("agent", self.agent.as_ref().map(ToString::to_string)),
            ("session", self.session.as_ref().map(|session| session.as_str().to_owned())),
        ];
        // None of them has a control character.
        let parts = parts.into_iter().filter_map(|(name, part)| Some(format!("{name} {}", part?)));
        parts.collect::<Vec<_>>().join("\n")
    }
}

/// A principal without what it only says of itself, where more is known. Otherwise another name
/// would be another count.
fn proven(principal: &Principal) -> Principal {
    match &principal.proof {
        Proof::Broker { user } => Principal { name: user.clone(), proof: principal.proof.clone() },
        _ => principal.clone(),
    }
}

/// Where governor keeps its states. Clones are the same.
#[derive(Clone, Default)]
pub(super) struct Buckets {
    states: Arc<Mutex<States>>,
}

#[derive(Default)]
struct States {
    by_key: HashMap<BucketKey, Nanos>,
    /// The one that all share who have found no room.
    shared: Option<Nanos>,
    swept: Option<Instant>,
}

impl Buckets {
    /// Whether a value has no count, there is no room for one, and it is time to look for some.
    pub(super) fn wants_sweep(&self, key: &BucketKey, now: TokioInstant) -> bool {
        let mut states = self.states.lock();
        if states.by_key.len() < BUCKETS_MAX || states.by_key.contains_key(key) {
            return false;
        }

        let is_due = states.swept.is_none_or(|last| now.0 >= last + SWEEP_INTERVAL);
        if is_due {
            states.swept = Some(now.0);
        }
        is_due
    }
}

impl StateStore for Buckets {
    type Key = BucketKey;

    fn measure_and_replace<T, F, E>(&self, key: &BucketKey, measure: F) -> Result<T, E>
    where
        F: Fn(Option<Nanos>) -> Result<(T, Nanos), E>,
    {
        let mut states = self.states.lock();
        if let Some(state) = states.by_key.get_mut(key) {
            let (outcome, next) = measure(Some(*state))?;
            *state = next;
            return Ok(outcome);
        }

        if states.by_key.len() < BUCKETS_MAX {
            let (outcome, next) = measure(None)?;
            states.by_key.insert(key.clone(), next);
            return Ok(outcome);
        }

        let (outcome, next) = measure(states.shared)?;
        states.shared = Some(next);
        Ok(outcome)
    }
}

impl ShrinkableKeyedStateStore<BucketKey> for Buckets {
    fn retain_recent(&self, drop_below: Nanos) {
        self.states.lock().by_key.retain(|_, state| *state > drop_below);
    }

    fn len(&self) -> usize {
        self.states.lock().by_key.len()
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Tokio's clock, which tests can hold still.
#[derive(Debug, Clone, Copy)]
pub(super) struct TokioClock;

/// A moment of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TokioInstant(Instant);

impl Clock for TokioClock {
    type Instant = TokioInstant;

    fn now(&self) -> TokioInstant {
        TokioInstant(Instant::now())
    }
}

impl Reference for TokioInstant {
    fn duration_since(&self, earlier: Self) -> Nanos {
        self.0.saturating_duration_since(earlier.0).into()
    }

    fn saturating_sub(&self, duration: Nanos) -> Self {
        Self(self.0.checked_sub(duration.into()).unwrap_or(self.0))
    }
}

impl Add<Nanos> for TokioInstant {
    type Output = Self;

    fn add(self, duration: Nanos) -> Self {
        Self(self.0 + Duration::from(duration))
    }
}
