//! How an invoker is put together.

use std::sync::Arc;

use opentelemetry::metrics::Meter;
use tokio_util::task::TaskTracker;

use super::record::Recorder;
use super::shape::{Shape, TruncateOutput};
use super::{Invoker, InvokerInner};
use crate::artifact::ReadReferences;
use crate::gate::{Approved, FitsSchema, Gate, Permission, RightKind, StillAllowed, StillWanted};
use crate::grant::GrantSigner;
use crate::observe::Observe;
use crate::policy::{AllowAll, Policy};
use crate::registry::Registry;

/// Builds an [`Invoker`]. Defaults: every call allowed, no observers, no grants, and the global
/// meter.
pub struct InvokerBuilder {
    registry: Arc<Registry>,
    policy: Arc<dyn Policy>,
    observers: Vec<Arc<dyn Observe>>,
    gates: Vec<Box<dyn Gate>>,
    references: Option<Box<dyn ReadReferences>>,
    credentials: Option<Box<dyn Gate>>,
    shapes: Vec<Arc<dyn Shape>>,
    meter: Option<Meter>,
    grant_signer: Option<GrantSigner>,
}

impl InvokerBuilder {
    pub(super) fn new(registry: Arc<Registry>) -> Self {
        Self {
            registry,
            policy: Arc::new(AllowAll),
            observers: Vec::new(),
            gates: Vec::new(),
            references: None,
            credentials: None,
            shapes: Vec::new(),
            meter: None,
            grant_signer: None,
        }
    }

    /// Has this policy decide which calls may run.
    #[must_use]
    pub fn policy(self, policy: impl Policy) -> Self {
        Self { policy: Arc::new(policy), ..self }
    }

    /// Tells this observer of every call, beside those there are.
    #[must_use]
    pub fn observe(mut self, observer: Arc<dyn Observe>) -> Self {
        self.observers.push(observer);
        self
    }

    /// Has every call pass this gate, after those there are: kind, permission and schema, and those
    /// that were added before.
    #[must_use]
    pub fn gate(mut self, gate: impl Gate + 'static) -> Self {
        self.gates.push(Box::new(gate));
        self
    }

    /// Has this read the artifacts that calls refer to, before it is known what a call is about.
    #[must_use]
    pub fn references(self, reader: impl ReadReferences) -> Self {
        Self { references: Some(Box::new(reader)), ..self }
    }

    /// Has this gate find the credentials of calls, behind all others.
    #[must_use]
    pub fn credentials(self, gate: impl Gate + 'static) -> Self {
        Self { credentials: Some(Box::new(gate)), ..self }
    }

    /// Has this step shape every output, after those there are and before outputs are bounded.
    #[must_use]
    pub fn shape(mut self, shape: Arc<dyn Shape>) -> Self {
        self.shapes.push(shape);
        self
    }

    /// Seals requests to workers with the keys of this signer, so that workers can require grants.
    #[must_use]
    pub fn grants(self, signer: impl Into<GrantSigner>) -> Self {
        Self { grant_signer: Some(signer.into()), ..self }
    }

    /// Counts with this meter.
    #[must_use]
    pub fn meter(self, meter: Meter) -> Self {
        Self { meter: Some(meter), ..self }
    }

    /// The invoker.
    #[must_use]
    pub fn build(mut self) -> Invoker {
        let added = std::mem::take(&mut self.gates);
        let credentials = self.credentials.take();
        let gates = ordered_gates(&self.policy, added, credentials);
        self.build_with(gates)
    }

    /// The invoker with other gates.
    pub(super) fn build_with(self, gates: Vec<Box<dyn Gate>>) -> Invoker {
        let Self {
            registry, policy, observers, mut shapes, meter, grant_signer, references, ..
        } = self;
        let meter = meter.unwrap_or_else(|| opentelemetry::global::meter(crate::metrics::METER));
        // Whatever the others make of an output, it leaves bounded.
        shapes.push(Arc::new(TruncateOutput));

        let recorder = Recorder::new(&meter, observers);
        let cleanups = TaskTracker::new();
        let inner = InvokerInner {
            registry,
            references,
            gates,
            shapes,
            policy,
            recorder,
            grant_signer,
            cleanups,
        };
        Invoker::of(Arc::new(inner))
    }
}

/// Every gate that lets pass or refuses, in the order in which a call passes them. Before them
/// stand budget, look-up, arguments, references and subject; see `Invoker::pass_and_run`. The kind
/// comes first: whether a call can be made in this way at all is no question for a policy. Behind
/// the last gate that may change a call or have it wait, what was judged is compared with what will
/// run.
fn ordered_gates(
    policy: &Arc<dyn Policy>,
    added: Vec<Box<dyn Gate>>,
    credentials: Option<Box<dyn Gate>>,
) -> Vec<Box<dyn Gate>> {
    let mut gates: Vec<Box<dyn Gate>> =
        vec![Box::new(RightKind), Box::new(Permission(Arc::clone(policy))), Box::new(FitsSchema)];
    gates.extend(added);
    gates.push(Box::new(Approved));
    gates.extend(credentials);
    gates.push(Box::new(StillAllowed(Arc::clone(policy))));
    gates.push(Box::new(StillWanted));
    gates
}
