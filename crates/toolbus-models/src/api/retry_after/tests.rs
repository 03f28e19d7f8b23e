use super::*;

fn check(headers: &[(&'static str, &str)], expected: Option<Duration>) {
    let headers = headers.iter().map(|(name, value)| {
        let name = name.parse().expect("it is a name");
        (name, value.parse().expect("it is a value"))
    });
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
    assert_eq!(read_retry_after(&headers.collect(), now), expected);
}

#[test]
fn seconds_milliseconds_and_dates_are_read() {
    check(&[("retry-after", "2")], Some(Duration::from_secs(2)));
    check(&[("retry-after", "0.5")], Some(Duration::from_millis(500)));
    check(&[("retry-after-ms", "250"), ("retry-after", "2")], Some(Duration::from_millis(250)));
    check(&[("retry-after", "Sun, 06 Nov 1994 08:49:47 GMT")], Some(Duration::from_secs(10)));
    check(&[("retry-after", "Sun, 06 Nov 1994 08:49:27 GMT")], Some(Duration::ZERO));
    check(&[("retry-after", "1e30")], None);
    check(&[("retry-after", "999999999")], Some(RETRY_AFTER_BACKOFF_MAX));
    check(&[("retry-after", "-1")], None);
    check(&[("retry-after", "NaN")], None);
    check(&[("retry-after", "soon")], None);
    check(&[], None);
}
