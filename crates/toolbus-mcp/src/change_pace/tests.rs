use super::*;

/// When each of so many changes is followed up, the next coming right after it, in milliseconds.
fn follow_ups(pace: &mut ChangePace, mut now: Instant, count: usize) -> Vec<u128> {
    let mut pauses = Vec::new();
    for _ in 0..count {
        let due = pace.due(now);
        pauses.push((due - now).as_millis());
        now = due;
        pace.record(now);
    }
    pauses
}

#[tokio::test(start_paused = true)]
async fn pauses_grow_while_changes_go_on_and_shrink_while_nothing_changes() {
    let mut pace = ChangePace::new(Duration::from_millis(500));
    let began = Instant::now();
    let pauses = follow_ups(&mut pace, began, 13);
    assert_eq!(pauses[..5], [0, 500, 500, 500, 500]);
    assert_eq!(pauses[5..], [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]);

    let last = began + Duration::from_millis(u64::try_from(pauses.iter().sum::<u128>()).unwrap());
    // Asking again and again is no quiet time.
    for wait in 0..60 {
        assert_eq!(pace.due(last + Duration::from_secs(wait)), last + Duration::from_secs(60));
    }
    let quiet = last + Duration::from_secs(240);
    assert_eq!(follow_ups(&mut pace, quiet, 6), [0, 500, 500, 500, 1_000, 2_000]);
}

#[tokio::test(start_paused = true)]
async fn a_change_now_and_then_is_followed_up_at_once() {
    let mut pace = ChangePace::new(Duration::from_millis(500));
    let mut now = Instant::now();
    for _ in 0..20 {
        assert_eq!(pace.due(now), now);
        pace.record(now);
        now += Duration::from_secs(10);
    }
}
