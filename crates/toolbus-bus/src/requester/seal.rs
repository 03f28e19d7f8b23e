//! Seals: what is set on a request when nothing else of it changes any more, such as a signature.

use toolbus_wire::{Envelope, Topic};

use crate::Deadline;

/// Seals requests. A request that is sent again, because its confirm was lost, keeps its seal.
pub trait Seal: Send + Sync {
    /// Adds the seal to a request that is about to go to `topic`, and that its caller gives up at
    /// `deadline`. All else is in the envelope already, the correlation id and the reply topic too.
    fn seal(&self, topic: &Topic, deadline: Deadline, envelope: &mut Envelope);
}

/// No seal at all.
pub(super) struct Unsealed;

impl Seal for Unsealed {
    fn seal(&self, _: &Topic, _: Deadline, _: &mut Envelope) {}
}
