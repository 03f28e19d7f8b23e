use proptest::prelude::*;
use toolbus_wire::Topic;

use super::*;

const SECOND: Duration = Duration::from_secs(1);
const HOUR_MS: i64 = 3_600_000;

/// A request that comes now: so old by our clock, and so long to live when it was sent.
fn take(clock: &mut PeerClock, age_ms: i64, left: Duration, now: Instant) -> u64 {
    clock.take_request(age_ms, left, now).as_millis().try_into().unwrap()
}

/// Ages in milliseconds of requests that come one a second, with the times on the way that they
/// have by these.
fn check(ages_and_times: &[(i64, u64)]) {
    let start = Instant::now();
    let mut clock = PeerClock::new(ages_and_times[0].0, start);
    for (at, (age, expected)) in (0..).zip(ages_and_times) {
        let time = take(&mut clock, *age, 60 * SECOND, start + at * SECOND);
        assert_eq!(time, *expected, "{at} of {ages_and_times:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_an_age_has_beyond_the_smallest_was_spent_on_the_way() {
    check(&[(3, 0), (5, 2), (9_003, 9_000), (4, 1)]);
    // Five seconds behind, and two minutes.
    check(&[(5_003, 0), (9_003, 4_000)]);
    check(&[(120_003, 0), (124_003, 4_000)]);
    // Ahead.
    check(&[(-4_997, 0), (-3_000, 1_997), (10, 5_007)]);
    check(&[(-119_997, 0), (-110_000, 9_997)]);
    // The first was late, and nobody could know.
    check(&[(9_000, 0), (0, 0), (9_000, 9_000)]);
    // No sum of these overflows.
    check(&[(i64::MIN, 0), (i64::MIN, 0)]);
    check(&[(i64::MAX, 0), (i64::MAX, 0), (i64::MIN, 0)]);
}

#[tokio::test(start_paused = true)]
async fn the_smallest_age_is_kept_through_a_pause_and_forgotten_at_last() {
    let start = Instant::now();
    let mut clock = PeerClock::new(0, start);
    let mut at = |seconds: u32, age| take(&mut clock, age, 60 * SECOND, start + seconds * SECOND);
    assert_eq!(at(0, 0), 0);
    assert_eq!(at(119, 10_000), 10_000);
    assert_eq!(at(239, 10_000), 10_000);
    // Nothing younger has come for four minutes.
    assert_eq!(at(479, 10_000), 0);
}

/// One that was held up before the broker had it is over, but those of a clock that was set back
/// are all alike.
#[tokio::test(start_paused = true)]
async fn requests_that_are_all_over_time_are_those_of_a_clock_that_was_set_back() {
    let start = Instant::now();
    let mut clock = PeerClock::new(0, start);
    let mut at = |seconds: u32, age| take(&mut clock, age, 20 * SECOND, start + seconds * SECOND);
    assert_eq!(at(40, 35_000), 35_000, "it was held up");
    assert_eq!(at(41, 0), 0, "and that was all");
    assert_eq!(at(60, 120_000), 120_000);
    assert_eq!(at(64, 120_001), 120_001);
    assert_eq!(at(65, 120_000), 0, "the clock was set");
    assert_eq!(at(66, 121_000), 1_000);
}

#[tokio::test(start_paused = true)]
async fn a_difference_is_reported_once_then_when_it_changes_and_every_hour() {
    let start = Instant::now();
    let mut clock = PeerClock::new(0, start);
    let mut at = |seconds: u64, age| {
        let now = start + Duration::from_secs(seconds);
        clock.take_age(age, now);
        clock.is_report_due(now)
    };

    assert!(!at(0, 120_000), "late, or behind: nobody can tell");
    assert!(!at(1, -2_000));
    assert!(at(2, -5_000));
    assert!(!at(3, -6_900));
    assert!(at(4, -7_100));
    assert!(!at(5, -5_000));
    assert!(!at(3_600, -7_100));
    assert!(at(3_604, -7_100));
    assert!(!at(3_605, -7_100));
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_is_ahead_is_seen_by_its_heartbeats() {
    let clocks = PeerClocks::new();
    let heartbeat = |seconds_ahead: u64| {
        let mut heartbeat = Envelope::new("Test", "mcp-bridge", Vec::new().into());
        heartbeat.timestamp = unix_now().as_secs() + seconds_ahead;
        heartbeat
    };
    for seconds_ahead in [0, 120] {
        clocks.hear_heartbeat("RockBot", "right", &heartbeat(0));
        clocks.hear_heartbeat("RockBot", "wrong", &heartbeat(seconds_ahead));
    }

    let reported =
        |worker| clocks.peers.lock()[worker].reported.map(|report| report.ahead.as_secs());
    assert_eq!(reported("right"), None);
    assert!(matches!(reported("wrong"), Some(118..=120)), "{:?}", reported("wrong"));
}

#[tokio::test(start_paused = true)]
async fn as_many_peers_are_known_as_there_is_room_for() {
    let clocks = PeerClocks::new();
    let take = |process: &str, age_ms: i64| {
        let mut request = Envelope::new("Test", "RockBot", Vec::new().into());
        request.reply_to = Some(Topic::parse(process).unwrap());
        let sent_at = unix_now() - milliseconds(age_ms);
        clocks.time_on_way(&request, sent_at + 60 * SECOND, 60 * SECOND)
    };

    for number in 0..PEERS_MAX {
        take(&format!("of.{number}"), 0);
    }
    take("one.more", 0);
    assert_eq!(take("one.more", 30_000), Duration::ZERO, "nothing is known of it");
    assert!(take("of.7", 30_000) > 29 * SECOND);

    tokio::time::advance(2 * WINDOW_INTERVAL).await;
    take("one.more", 0);
    assert!(take("one.more", 30_000) > 29 * SECOND);
    assert_eq!(clocks.peers.lock().len(), 1);
}

/// A request: time since the one before, time on its way, and what was left when it was sent.
fn requests() -> impl Strategy<Value = Vec<(u64, u64, u64)>> {
    let request = (0..100_000_u64, 0..600_000_u64, 1..3_600_000_u64);
    prop::collection::vec(request, 1..40)
}

proptest! {
    /// With clocks that differ by anything, a request that its broker has delivered in time has
    /// some of its time, all that it truly has, and no more than it was sent with; and no more than
    /// it truly has, once another of its caller was not late.
    #[test]
    fn a_request_that_is_delivered_in_time_gets_its_time(
        skew in -HOUR_MS..HOUR_MS,
        requests in requests(),
    ) {
        let mut now = Instant::now();
        let mut clock: Option<PeerClock> = None;
        let mut punctual_at = None;

        for (pause, on_way, left) in requests {
            if on_way >= left {
                continue;
            }
            now += Duration::from_millis(pause);
            let age = skew + i64::try_from(on_way).unwrap();
            let clock = clock.get_or_insert_with(|| PeerClock::new(age, now));
            let budget = left - take(clock, age, Duration::from_millis(left), now);

            prop_assert!(budget > 0 && budget <= left);
            prop_assert!(budget >= left - on_way);
            if on_way == 0 {
                punctual_at = Some(now);
            }
            if punctual_at.is_some_and(|at| now - at < WINDOW_INTERVAL) {
                prop_assert_eq!(budget, left - on_way);
            }
        }
    }

    /// A clock that is set gives nobody more time than was left, and keeps nobody out for long.
    #[test]
    fn a_clock_that_is_set_keeps_nobody_out(
        before in -HOUR_MS..HOUR_MS,
        after in -HOUR_MS..HOUR_MS,
        left in 1..3_600_000_u64,
    ) {
        let set_at = Instant::now();
        let left = Duration::from_millis(left);
        let mut clock = PeerClock::new(before, set_at);
        clock.take_request(after, left, set_at);
        prop_assert!(clock.take_request(after, left, set_at + SET_BACK_GRACE) < left);
    }
}
