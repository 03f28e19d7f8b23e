use super::*;

#[test]
fn sessions_that_begin_at_once_share_the_last_room() {
    let slots = SessionSlots::default();

    let last = slots.try_reserve(SESSIONS_MAX - 1);
    assert!(last.is_some());
    assert!(slots.clone().try_reserve(SESSIONS_MAX - 1).is_none());
    drop(last);
    assert!(slots.try_reserve(SESSIONS_MAX - 1).is_some());
    assert!(slots.try_reserve(SESSIONS_MAX).is_none());
}
