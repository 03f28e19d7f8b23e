use toolbus_wire::message::toolbus::ToolProgress;

use super::*;

fn headers(pairs: &[(&'static str, &str)]) -> Headers {
    pairs.iter().fold(Headers::new(), |headers, (name, value)| headers.with(*name, *value))
}

/// What a request with these headers and this expiry asks for.
fn read(headers: Headers, expires_after: Option<Duration>) -> Deadline {
    let envelope = Envelope::new("Test", "RockBot", Vec::new().into());
    let envelope = Envelope { headers, expires_after, ..envelope };
    Deadline::of_request(&envelope, Duration::from_secs(60), &PeerClocks::new())
}

fn check(pairs: &[(&'static str, &str)], left_ms: u64, asked_ms: u64) {
    let deadline = read(headers(pairs), None);
    let left = deadline.left();
    let expected = Duration::from_millis(left_ms);
    // A moment is told by the wall clock, which goes on meanwhile: a busy machine may take a while.
    let by_wall_clock = matches!(pairs, [(header::DEADLINE_MS, _)]);
    let slack = if by_wall_clock { Duration::from_secs(2) } else { Duration::ZERO };
    assert!(left <= expected && left + slack >= expected, "{pairs:?}: {left:?} is left");
    assert_eq!(deadline.asked(), Duration::from_millis(asked_ms), "{pairs:?}");
}

#[tokio::test(start_paused = true)]
async fn the_budget_comes_from_the_headers() {
    let in_ten_seconds = (unix_now().as_millis() as u64 + 10_000).to_string();
    check(&[], 60_000, 60_000);
    check(&[("rb-timeout-ms", "300")], 300, 300);
    check(&[("rb-timeout-ms", "abc")], 60_000, 60_000);
    check(&[("rb-deadline-ms", &in_ten_seconds)], 10_000, 60_000);
    check(&[("rb-deadline-ms", &in_ten_seconds), ("rb-timeout-ms", "2000")], 2_000, 2_000);
    check(&[("rb-deadline-ms", "1")], 0, 60_000);
    check(&[("rb-deadline-ms", "99999999999999999999")], 60_000, 60_000);
    check(&[("rb-deadline-ms", "18446744073709551615")], 86_400_000, 86_400_000);
}

#[tokio::test(start_paused = true)]
async fn each_hop_has_less_time_than_the_one_before() {
    let first = Deadline::after(Duration::from_secs(10));
    assert_eq!(first.for_next_hop().left(), Duration::from_secs(9));
    let long = Deadline::after(Duration::from_secs(60));
    assert_eq!(long.for_next_hop().left(), Duration::from_secs(58));
    assert_eq!(long.for_next_hop().asked(), Duration::from_secs(60));
}

#[tokio::test(start_paused = true)]
async fn what_is_written_is_what_is_read() {
    let mut headers = Headers::new();
    Deadline::after(Duration::from_secs(5)).write(&mut headers);
    let read = read(headers, None);
    assert!(read.left() > Duration::from_secs(3) && read.left() <= Duration::from_secs(5));
}

/// By its own clock the caller has stopped waiting long ago, or asks for a year; the message says
/// what was left.
#[tokio::test(start_paused = true)]
async fn what_was_left_is_believed_where_the_moment_cannot_be() {
    for moment in ["1", "18446744073709551615"] {
        let seconds = Duration::from_secs;
        let only_moment = headers(&[("rb-deadline-ms", moment)]);
        assert_eq!(read(only_moment, Some(seconds(5))).left(), seconds(5));
        let both = headers(&[("rb-deadline-ms", moment), ("rb-timeout-ms", "2000")]);
        assert_eq!(read(both, Some(seconds(5))).left(), seconds(2));
    }
}

/// How long work that never ends is waited for, which reports progress every so often.
async fn waited_for(deadline: Deadline, interval: Duration, steps: usize) -> Duration {
    let began = Instant::now();
    let progress = Progress::to(|_| {});
    let work = async {
        for _ in 0..steps {
            tokio::time::sleep(interval).await;
            progress.send(ToolProgress { progress: Some(1.0), ..ToolProgress::default() });
        }
        std::future::pending::<()>().await
    };
    let never = CancellationToken::new();
    let ended = deadline.enforce_with(&progress, &never, Duration::ZERO, work).await;
    assert_eq!(ended, Err(Interruption::TimedOut));
    began.elapsed()
}

#[tokio::test(start_paused = true)]
async fn progress_moves_a_deadline_that_allows_it_up_to_the_last_moment() {
    let second = Duration::from_secs(1);
    let extended = || Deadline::after(10 * second).extended_by_progress(20 * second);
    assert_eq!(waited_for(extended(), 7 * second, 2).await, 24 * second);
    assert_eq!(waited_for(extended(), 7 * second, 9).await, 30 * second);
    assert_eq!(waited_for(extended(), 12 * second, 9).await, 10 * second);
    assert_eq!(waited_for(Deadline::after(10 * second), 7 * second, 9).await, 10 * second);
}

#[tokio::test(start_paused = true)]
async fn what_is_no_step_of_the_work_moves_no_deadline() {
    let progress = Progress::to(|_| {});
    progress.send(ToolProgress { level: Some("info".to_owned()), ..ToolProgress::default() });
    assert_eq!(progress.last_step(), None);
}

#[tokio::test(start_paused = true)]
async fn an_extension_travels_and_is_limited_by_who_does_the_work() {
    let second = Duration::from_secs(1);
    let asked = Deadline::after(100 * second).extended_by_progress(500 * second);
    let mut headers = Headers::new();
    asked.write(&mut headers);
    assert_eq!(headers.get(header::EXTENSION_MS), Some("500000"));

    let limited = asked.limited_to(60 * second, 240 * second);
    assert_eq!((limited.left(), limited.asked()), (60 * second, 60 * second));
    assert_eq!(limited.at_latest().left(), 240 * second);
    assert_eq!(asked.for_next_hop().at_latest().left(), 598 * second);
    let fixed = Deadline::after(100 * second).limited_to(60 * second, 240 * second);
    assert_eq!(fixed.at_latest(), fixed);
}
