//! Parked calls: acknowledged, not answered yet, and brought back by their requests.

use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use tracing::Instrument as _;

use crate::port::Disposition;
use crate::slot::{Kept, Slot, SlotPool};

/// Most parked calls of one responder; more keep the permits that they came with.
const PARKED_MAX: u16 = 1_024;
/// How long a call that is given up may take to be answered.
const ANSWER_GRACE: Duration = Duration::from_secs(1);

/// The calls of a responder that run without a delivery: those that were parked, and go on.
/// Clones are the same.
#[derive(Clone)]
pub(super) struct ParkedCalls {
    /// What the calls that come back share; the others are counted by the broker.
    slots: SlotPool,
    tasks: TaskTracker,
    stop: CancellationToken,
    expire: CancellationToken,
}

impl ParkedCalls {
    /// As many of them run at a time as of the others.
    pub(super) fn new(concurrency: u16) -> Self {
        Self {
            slots: SlotPool::new(concurrency, PARKED_MAX),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
            expire: CancellationToken::new(),
        }
    }

    /// The slot of a call that holds a delivery.
    pub(super) fn slot_of_delivery(&self) -> Slot {
        self.slots.slot_of_delivery()
    }

    /// Keeps calls that are taken up from being started until the guard is dropped.
    pub(super) fn hold_back(&self) -> Option<OwnedSemaphorePermit> {
        self.slots.take_all()
    }

    /// Gives up the calls that are parked when it is dropped.
    pub(super) fn give_up_guard(&self) -> DropGuard {
        self.stop.clone().drop_guard()
    }

    /// Drops the calls that run, and gives up the others, when it is dropped.
    pub(super) fn expire_guard(&self) -> DropGuard {
        self.expire.clone().drop_guard()
    }

    /// Takes up a request that an earlier process has left: it is known from now on, and runs once
    /// there is a slot.
    pub(super) fn take_up(&self, answer: impl FnOnce(Slot) -> BoxFuture<'static, Disposition>) {
        let slot = self.slots.restored_slot();
        let mut answering = answer(slot.clone());
        // The first step takes the call's place in the outcome memory, so that a request that comes
        // again finds it there.
        if (&mut answering).now_or_never().is_none() {
            self.spawn(answering, slot);
        }
    }

    /// Has a call go on without a delivery.
    pub(super) fn spawn(&self, answering: BoxFuture<'static, Disposition>, slot: Slot) {
        let parked = self.clone();
        let finishing = async move { parked.finish(answering, slot).await };
        self.tasks.spawn(finishing.in_current_span());
    }

    /// Has the call end, or gives it up with the responder.
    async fn finish(&self, mut answering: BoxFuture<'static, Disposition>, slot: Slot) {
        // Every arm but the last only waits, and that one goes on below where it is not over. A
        // stop comes first: what it finds parked is not started any more.
        tokio::select! {
            biased;
            () = self.stop.cancelled() => {}
            // Whoever keeps it brings it back.
            () = slot.wait_left() => return,
            _ = &mut answering => return,
        }

        match slot.kept() {
            // Whoever keeps it brings it back.
            Some(Kept::InStore) => return,
            Some(Kept::InMemory) => slot.cancel(),
            // It runs, and has the grace that every call has.
            None => {
                if self.expire.run_until_cancelled(&mut answering).await.is_some() {
                    return;
                }
                slot.cancel();
            }
        }
        // A broker that is away must not hold up the stop.
        if tokio::time::timeout(ANSWER_GRACE, answering).await.is_err() {
            tracing::warn!("a call that was parked ends without an answer");
        }
    }

    /// Gives up what is parked, and waits up to `grace` for what runs.
    pub(super) async fn stop(&self, grace: Duration) {
        self.stop.cancel();
        self.tasks.close();
        if tokio::time::timeout(grace, self.tasks.wait()).await.is_err() {
            self.expire.cancel();
            self.tasks.wait().await;
        }
    }
}
