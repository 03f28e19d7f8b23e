use super::*;

#[test]
fn sessions_that_begin_at_once_share_the_last_room() {
    let limit = SessionLimit::default();

    let last = limit.try_reserve(SESSIONS_MAX - 1);
    assert!(last.is_some());
    assert!(limit.clone().try_reserve(SESSIONS_MAX - 1).is_none());
    drop(last);
    assert!(limit.try_reserve(SESSIONS_MAX - 1).is_some());
    assert!(limit.try_reserve(SESSIONS_MAX).is_none());
}
