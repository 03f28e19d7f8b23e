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
