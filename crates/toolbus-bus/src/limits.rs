//! How much memory the two ends of a call hold at most: sums of the bounds that are stated where
//! they are kept.
//!
//! They count bodies, each of which may have [`BODY_BYTES_MAX`](crate::port::BODY_BYTES_MAX), and
//! not the names around them. What a service works with while a call runs is its own: the sums say
//! what may pile up whatever the broker, the callers and the other workers do.

use std::num::NonZeroU16;

use crate::{requester, responder, slot};

/// What a responder holds that runs so many calls at a time and has so many bytes for large
/// requests, and how many bytes of it.
#[must_use]
pub const fn responder_parts(
    concurrency: NonZeroU16,
    large_requests_bytes: usize,
) -> [(&'static str, usize); 7] {
    let requests = responder::requests_bytes_max(concurrency, large_requests_bytes);
    [
        ("requests that are handed out", requests),
        ("control messages that are fetched ahead", 2 * responder::CONTROL_FLOW.bytes_max()),
        ("outcomes of calls that have ended", responder::OUTCOMES_BYTES_MAX),
        ("keys of calls whose outcomes had to go", responder::KNOWN_BYTES_MAX),
        ("replies that are being sent", responder::REPLIES_BYTES_MAX),
        ("progress that waits to be sent", responder::NOTIFICATIONS_BYTES_MAX),
        ("requests of parked calls", slot::PARKED_BYTES_MAX),
    ]
}

/// How many bytes a responder holds that runs so many calls at a time and has so many bytes for
/// large requests.
#[must_use]
pub const fn responder_bytes_max(concurrency: NonZeroU16, large_requests_bytes: usize) -> usize {
    let parts = responder_parts(concurrency, large_requests_bytes);
    let mut sum = 0;
    let mut next = 0;

    // There are no iterators in a constant.
    while next < parts.len() {
        sum += parts[next].1;
        next += 1;
    }

    sum
}

/// How many bytes a requester holds: replies and other messages that are fetched ahead. A reply
/// that is handed to its caller is the caller's.
#[must_use]
pub const fn requester_bytes_max() -> usize {
    requester::FLOW.bytes_max()
}
