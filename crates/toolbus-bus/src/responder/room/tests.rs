use std::num::NonZeroU16;

use super::{LARGE_REQUESTS_BYTES, RequestRoom, SMALL_BYTES_MAX, requests_bytes_max};
use crate::port::BODY_BYTES_MAX;

#[test]
fn large_requests_share_room_and_small_ones_another() {
    let room = RequestRoom::new(NonZeroU16::new(2).unwrap(), LARGE_REQUESTS_BYTES);
    let largest = LARGE_REQUESTS_BYTES / BODY_BYTES_MAX;
    let mut shares: Vec<_> = (0..largest).map(|_| room.reserve(BODY_BYTES_MAX).unwrap()).collect();

    assert!(room.reserve(SMALL_BYTES_MAX + 1).is_none());
    assert!(room.reserve(SMALL_BYTES_MAX).is_some());

    // What one of them leaves is enough for as much, in whole KiB.
    shares.pop();
    let _most = room.reserve(BODY_BYTES_MAX - (66 << 10)).unwrap();
    assert!(room.reserve((66 << 10) + 1).is_none());
    assert!(room.reserve(66 << 10).is_some());

    let _small = room.reserve(SMALL_BYTES_MAX).unwrap();
    let _smaller = room.reserve(SMALL_BYTES_MAX - 1024).unwrap();
    assert!(room.reserve(1025).is_none(), "of several queues, more come than run");
    assert!(room.reserve(1024).is_some());
}

#[test]
fn a_few_requests_hold_no_more_than_their_bodies() {
    let check = |concurrency, bytes| {
        let concurrency = NonZeroU16::new(concurrency).unwrap();
        assert_eq!(requests_bytes_max(concurrency, LARGE_REQUESTS_BYTES), bytes);
    };
    check(1, BODY_BYTES_MAX);
    check(3, 3 * BODY_BYTES_MAX);
    check(64, LARGE_REQUESTS_BYTES + 64 * SMALL_BYTES_MAX + BODY_BYTES_MAX);
}
