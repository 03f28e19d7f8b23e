use super::*;

#[test]
fn each_pause_is_twice_as_long_up_to_a_minute() {
    let pauses: Vec<u64> = (1..=9).map(|failed| retry_backoff(failed).as_secs()).collect();
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
    assert_eq!(retry_backoff(u32::MAX), RETRY_BACKOFF_MAX);
}
