use super::*;

#[test]
fn retry_after_is_seconds_or_a_date_and_bounded() {
    let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:00 GMT").unwrap();
    let check = |text: &str, expected: Option<u64>| {
        let refusal = HttpStatusError::new(429, Some(text.to_owned()));
        let wait = retry_after(&refusal, now).map(|wait| wait.as_secs());
        assert_eq!(wait, expected, "{text}");
    };
    check("30", Some(30));
    check(" 0 ", Some(0));
    check("Sun, 06 Nov 1994 08:49:37 GMT", Some(37));
    check("Sun, 06 Nov 1994 08:00:00 GMT", Some(0));
    check("Fri, 06 Nov 2026 08:00:00 GMT", Some(24 * 3600));
    check("18446744073709551615", Some(24 * 3600));
    check("99999999999999999999999", None);
    check("-1", None);
    check("soon", None);
    check("", None);
    assert_eq!(retry_after(&HttpStatusError::new(503, None), now), None);
}
