//! Room for requests: how many bytes of large requests a responder holds at a time.
//!
//! A broker counts the messages that it hands out, and not their bytes, and what it has handed out
//! is in memory. So small requests have room for as many as there are handlers, and the large ones
//! share another. One that finds none is refused before it is started, and its body is let go at
//! once.

use std::num::NonZeroU16;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::port::BODY_BYTES_MAX;

/// Largest body of a small request, in bytes.
const SMALL_BYTES_MAX: usize = 64 << 10;
/// What most responders hold of large requests at a time: 256 MiB, which is sixteen of the largest.
/// In this crate's own tests three, for its bus in memory holds no more than four.
pub const LARGE_REQUESTS_BYTES: usize = if cfg!(test) { 48 << 20 } else { 256 << 20 };

/// What the large requests of a responder share.
pub(super) struct RequestRoom {
    free_kib: Arc<Semaphore>,
    /// What the small ones share, in KiB: enough for as many as run at a time, of one queue. A
    /// responder of several queues is handed more.
    free_small_kib: Arc<Semaphore>,
}

/// The share that one request has until this is dropped.
pub(super) struct RequestShare {
    _kib: OwnedSemaphorePermit,
}

impl RequestRoom {
    /// The room of a responder that runs so many calls at a time, with so many bytes for the large
    /// ones.
    pub(super) fn new(concurrency: NonZeroU16, large_bytes: usize) -> Self {
        let small_kib = concurrency.get() as usize * (SMALL_BYTES_MAX >> 10);
        Self {
            free_kib: Arc::new(Semaphore::new(large_bytes >> 10)),
            free_small_kib: Arc::new(Semaphore::new(small_kib)),
        }
    }

    /// Room for a request whose body has so many bytes. `None` when there is none.
    pub(super) fn reserve(&self, bytes: usize) -> Option<RequestShare> {
        let free = if bytes <= SMALL_BYTES_MAX { &self.free_small_kib } else { &self.free_kib };
        let kib = u32::try_from(bytes.div_ceil(1 << 10)).ok()?;
        let permit = Arc::clone(free).try_acquire_many_owned(kib).ok()?;
        Some(RequestShare { _kib: permit })
    }
}

/// Bytes of the requests that a responder holds which runs so many at a time: its small ones, its
/// large ones, and one that is about to be refused.
pub(crate) const fn requests_bytes_max(concurrency: NonZeroU16, large_bytes: usize) -> usize {
    let of_all = concurrency.get() as usize * BODY_BYTES_MAX;
    let in_room = concurrency.get() as usize * SMALL_BYTES_MAX + large_bytes + BODY_BYTES_MAX;
    if of_all < in_room { of_all } else { in_room }
}

#[cfg(test)]
mod tests;
