use super::*;

#[tokio::test(start_paused = true)]
async fn no_time_is_left_until_an_attempt_that_is_being_made() {
    let now = Instant::now();
    let failed = Arc::new(FailedAttempt {
        failure: Failure::new("it is away"),
        attempt: 6,
        failed_in_a_row: 6,
        failed_since_connected: 6,
        at: now,
        next_at: now + retry_backoff(6),
    });
    let next_try_in = |phase: ConnectionPhase| match phase.state(0) {
        ServerState::Failed { attempts: 6, next_try_in, .. } => next_try_in,
        state => panic!("{state:?}"),
    };

    assert_eq!(next_try_in(ConnectionPhase::Failed(Arc::clone(&failed))), Duration::from_secs(32));
    let watch = Arc::new(StartWatch::begin(Duration::from_secs(1)));
    let retried = ConnectionPhase::Starting(watch, Some(failed));
    // A call had the attempt made before its time.
    assert_eq!(next_try_in(retried), Duration::ZERO);
}

#[test]
fn each_pause_is_twice_as_long_up_to_a_minute() {
    let pauses: Vec<u64> = (1..=9).map(|failed| retry_backoff(failed).as_secs()).collect();
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
    assert_eq!(retry_backoff(u32::MAX), RETRY_BACKOFF_MAX);
}
