//! Slots: the place that a call takes up where it came in.
//!
//! A worker is handed so many requests at a time, and a face runs so many calls. A call that waits
//! for a person would keep others out for as long, so it is parked: its slot is free meanwhile, and
//! it takes one again before it goes on. Whoever made the call still waits for it, hears that it is
//! held, and may cancel it.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::Deadline;
use crate::parked_request::ParkedRequest;
use crate::responder::CallKey;
use toolbus_wire::{Envelope, Execution, Topic};

/// So many slots, and room for so many parked calls. Clones are the same.
#[derive(Clone)]
pub struct SlotPool(Arc<SlotPoolInner>);

struct SlotPoolInner {
    size: u32,
    free: Arc<Semaphore>,
    /// Room for parked calls, which take memory all the same: so many, and so many bytes.
    parking: Arc<Semaphore>,
    parking_kib: Arc<Semaphore>,
}

/// Most bytes of parked requests of one pool, in KiB: 32 MiB.
const PARKED_KIB_MAX: usize = 32 << 10;
/// The same in bytes.
pub const PARKED_BYTES_MAX: usize = PARKED_KIB_MAX << 10;

/// The room that a parked call takes up.
struct ParkingRoom {
    _place: OwnedSemaphorePermit,
    _kib: OwnedSemaphorePermit,
}

/// The slot of one call. Clones are of the same call; the slot is free again when the last of them
/// is dropped.
#[derive(Clone, Default)]
pub struct Slot(Option<Arc<SlotInner>>);

struct SlotInner {
    pool: SlotPool,
    state: Mutex<SlotState>,
    /// Hears of the parking.
    has_parked: Notify,
    /// Fires when the call is left to whoever keeps it.
    left: CancellationToken,
    /// What its request takes up where it came in. One that is parked has its room there.
    arrival_room: Mutex<Option<Box<dyn Any + Send>>>,
    request: OnceLock<SlotRequest>,
}

impl SlotInner {
    /// Bytes of the request that the call stands for.
    fn request_bytes(&self) -> usize {
        self.request.get().map_or(0, |request| request.envelope.body.len())
    }
}

/// What becomes of a slot.
enum SlotState {
    /// The call has it. There is no permit where somebody else counts, such as a broker.
    Taken { _permit: Option<OwnedSemaphorePermit> },
    /// It is free.
    Parked { kept: Kept, _room: Option<ParkingRoom> },
}

/// The request that a call stands for.
pub(crate) struct SlotRequest {
    pub(crate) topic: Topic,
    pub(crate) envelope: Arc<Envelope>,
    pub(crate) deadline: Deadline,
    pub(crate) cancelled: CancellationToken,
}

/// Where a call is kept that is parked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// In this process: the call ends with it, as cancelled before it was started.
    InMemory,
    /// By somebody who has written down [`Slot::request`] and will bring it back: a stop says
    /// nothing to the caller, who goes on waiting.
    InStore,
}

/// Why a slot cannot be taken again: those who handed out slots have closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no more calls are run here")]
pub struct Closed;

impl SlotPool {
    /// So many slots, and room for so many parked calls.
    #[must_use]
    pub fn new(slots: u16, parked: u16) -> Self {
        Self(Arc::new(SlotPoolInner {
            size: u32::from(slots),
            free: Arc::new(Semaphore::new(usize::from(slots))),
            parking: Arc::new(Semaphore::new(usize::from(parked))),
            parking_kib: Arc::new(Semaphore::new(PARKED_KIB_MAX)),
        }))
    }

    /// A slot, where one is free.
    #[must_use]
    pub fn try_take(&self) -> Option<Slot> {
        let permit = Arc::clone(&self.0.free).try_acquire_owned().ok()?;
        Some(Slot::new(self, Some(permit)))
    }

    /// The slot of a call that somebody else counts until it is parked.
    pub(crate) fn slot_of_delivery(&self) -> Slot {
        Slot::new(self, None)
    }

    /// The slot of a call that is brought back: it is parked until the call has a slot again.
    pub(crate) fn restored_slot(&self) -> Slot {
        let room = self.reserve_parking(0);
        Slot::in_state(self, SlotState::Parked { kept: Kept::InStore, _room: room })
    }

    /// Room for one more parked call, whose request has so many bytes.
    fn reserve_parking(&self, bytes: usize) -> Option<ParkingRoom> {
        let kib = u32::try_from(bytes.div_ceil(1 << 10)).ok()?;
        let _place = Arc::clone(&self.0.parking).try_acquire_owned().ok()?;
        let _kib = Arc::clone(&self.0.parking_kib).try_acquire_many_owned(kib).ok()?;
        Some(ParkingRoom { _place, _kib })
    }

    async fn acquire_permit(&self) -> Result<OwnedSemaphorePermit, Closed> {
        Arc::clone(&self.0.free).acquire_owned().await.map_err(|_| Closed)
    }

    /// Takes all slots, so that no call can be resumed until they are dropped. `None` where one
    /// is taken already.
    pub(crate) fn take_all(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.0.free).try_acquire_many_owned(self.0.size).ok()
    }

    /// Hands out no more, and waits up to `grace` until every slot is free. Says how many are taken
    /// after that; parked calls are none of them.
    pub async fn close(&self, grace: Duration) -> usize {
        let Self(pool) = self;
        // Whoever has all permits knows that no call has one, and none can have one any more.
        let all = pool.free.acquire_many(pool.size);
        let is_free = matches!(tokio::time::timeout(grace, all).await, Ok(Ok(_)));
        let taken = if is_free { 0 } else { pool.size as usize - pool.free.available_permits() };

        pool.free.close();
        pool.parking.close();
        taken
    }
}

impl Slot {
    /// The slot of a call that takes up none, and that ends with its caller: one of this process.
    #[must_use]
    pub const fn none() -> Self {
        Self(None)
    }

    fn new(pool: &SlotPool, permit: Option<OwnedSemaphorePermit>) -> Self {
        Self::in_state(pool, SlotState::Taken { _permit: permit })
    }

    fn in_state(pool: &SlotPool, state: SlotState) -> Self {
        Self(Some(Arc::new(SlotInner {
            pool: pool.clone(),
            state: Mutex::new(state),
            has_parked: Notify::new(),
            left: CancellationToken::new(),
            arrival_room: Mutex::new(None),
            request: OnceLock::new(),
        })))
    }

    /// Frees the slot while the call waits for long; over the bus, only a call whose work has not
    /// been started is parked. Where there is no room for another parked call, and where there is
    /// no slot, nothing happens: the call waits where it is.
    pub fn park(&self, kept: Kept) {
        let Some(slot) = &self.0 else { return };
        let mut state = slot.state.lock();

        if matches!(*state, SlotState::Taken { .. })
            && let Some(room) = slot.pool.reserve_parking(slot.request_bytes())
        {
            *state = SlotState::Parked { kept, _room: Some(room) };
            slot.has_parked.notify_one();
            drop(state);
            self.free_arrival_room();
        }
    }

    /// Keeps what the call's request takes up, until the call is parked or over.
    pub(crate) fn hold_arrival_room(&self, room: impl Send + 'static) {
        if let Some(slot) = &self.0 {
            *slot.arrival_room.lock() = Some(Box::new(room));
        }
    }

    /// The call is over, or has its room elsewhere.
    pub(crate) fn free_arrival_room(&self) {
        if let Some(slot) = &self.0 {
            drop(slot.arrival_room.lock().take());
        }
    }

    /// Leaves the call to whoever has written down [`Slot::request`]: it ends here without an
    /// answer, and takes neither slot nor memory until it is brought back. What waits in it is
    /// dropped. False where nobody could bring it back, and then nothing happens.
    pub fn leave(&self) -> bool {
        let Some(slot) = &self.0 else { return false };
        if slot.request.get().is_none() {
            return false;
        }

        let mut state = slot.state.lock();
        if let SlotState::Parked { kept, .. } = &mut *state {
            *kept = Kept::InStore;
        } else {
            *state = SlotState::Parked { kept: Kept::InStore, _room: None };
        }
        slot.left.cancel();
        true
    }

    /// Takes a slot again, once one is free; calls that come back go before new ones. A call that
    /// is not parked has its slot.
    ///
    /// # Errors
    /// When no more calls are run.
    pub async fn resume(&self) -> Result<(), Closed> {
        let Some(slot) = &self.0 else { return Ok(()) };
        if self.kept().is_none() {
            return Ok(());
        }
        let permit = slot.pool.acquire_permit().await?;
        *slot.state.lock() = SlotState::Taken { _permit: Some(permit) };
        Ok(())
    }

    /// Says that whoever kept the call in a store has let it go: from now on it ends with this
    /// process, as cancelled, unless it has a slot again before.
    pub fn leave_store(&self) {
        let Some(slot) = &self.0 else { return };
        if let SlotState::Parked { kept, .. } = &mut *slot.state.lock() {
            *kept = Kept::InMemory;
        }
    }

    /// Where the call is kept, while it is parked.
    #[must_use]
    pub fn kept(&self) -> Option<Kept> {
        match *self.0.as_ref()?.state.lock() {
            SlotState::Taken { .. } => None,
            SlotState::Parked { kept, .. } => Some(kept),
        }
    }

    /// Whether work that was handed the call has started it: not while it is parked.
    pub(crate) fn execution(&self) -> Execution {
        if self.kept().is_some() { Execution::NotStarted } else { Execution::Started }
    }

    /// What brings the call back after a restart, reply address and all. `None` where nobody would
    /// wait for it: its caller is of this process, or ends with its connection.
    #[must_use]
    pub fn request(&self) -> Option<ParkedRequest> {
        let request = self.0.as_ref()?.request.get()?;
        Some(ParkedRequest::new(&request.topic, &request.envelope, request.deadline))
    }

    /// What tells the call from all others, also when it is brought back: a call of this id. `None`
    /// where it has no [`request`](Self::request).
    #[must_use]
    pub fn call_key(&self, call_id: &str) -> Option<String> {
        let request = self.0.as_ref()?.request.get()?;
        Some(CallKey::of(&request.envelope, call_id).to_string())
    }

    /// Whether the call is parked and its answer goes where that of `request` would.
    pub(crate) fn will_answer_later(&self, request: &Envelope) -> bool {
        let stands_for = self.0.as_ref().and_then(|slot| slot.request.get());
        let is_same = stands_for.is_some_and(|own| own.envelope.reply_to == request.reply_to);
        is_same && self.kept().is_some()
    }

    /// A header of the request that the call stands for.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.0.as_ref()?.request.get()?.envelope.headers.get(name)
    }

    /// The call stands for this request.
    pub(crate) fn set_request(&self, request: SlotRequest) {
        if let Some(slot) = &self.0 {
            // A slot is of one call, which has one request.
            let _ = slot.request.set(request);
        }
    }

    /// Whether the call stands for a request, as one does that runs.
    pub(crate) fn has_request(&self) -> bool {
        self.0.as_ref().is_some_and(|slot| slot.request.get().is_some())
    }

    /// Cancels the call.
    pub(crate) fn cancel(&self) {
        if let Some(request) = self.0.as_ref().and_then(|slot| slot.request.get()) {
            request.cancelled.cancel();
        }
    }

    /// Waits until the call is left to whoever keeps it.
    pub(crate) async fn wait_left(&self) {
        match &self.0 {
            Some(slot) => slot.left.cancelled().await,
            None => std::future::pending().await,
        }
    }

    /// Waits until the call is parked for the first time.
    pub(crate) async fn wait_parked(&self) {
        match &self.0 {
            Some(slot) => slot.has_parked.notified().await,
            None => std::future::pending().await,
        }
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match (&self.0, self.kept()) {
            (None, _) => "none",
            (Some(_), None) => "taken",
            (Some(_), Some(Kept::InMemory)) => "parked in memory",
            (Some(_), Some(Kept::InStore)) => "parked in a store",
        };
        write!(f, "Slot({state})")
    }
}

#[cfg(test)]
mod tests;
