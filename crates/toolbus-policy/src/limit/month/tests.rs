use super::*;

/// 2026-01-31T23:59:59Z.
const LAST_OF_JANUARY: u64 = 1_769_903_999;

fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}

#[test]
fn a_month_is_one_of_the_calendar() {
    let check = |seconds: u64, year: u64, month: u64| {
        assert_eq!(Month::of(Duration::from_secs(seconds)), Month(year * 12 + month - 1));
    };
    check(0, 1970, 1);
    check(LAST_OF_JANUARY, 2026, 1);
    check(LAST_OF_JANUARY + 1, 2026, 2);
    // 2024-02-29 and the day after it.
    check(1_709_164_800, 2024, 2);
    check(1_709_251_200, 2024, 3);
    // 2000-12-31T23:59:59Z, and 2100-02-28 and the day after it, which is no 29th.
    check(978_307_199, 2000, 12);
    check(978_307_200, 2001, 1);
    check(4_107_456_000, 2100, 2);
    check(4_107_542_400, 2100, 3);
}

/// Every month is as long as it is.
#[test]
fn every_day_is_in_its_month() {
    let is_leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let mut day = 0;
    for year in 1970..2110 {
        let february = if is_leap(year) { 29 } else { 28 };
        for (month, days) in
            [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31].into_iter().enumerate()
        {
            for _ in 0..days {
                let of_day = Month::of(Duration::from_secs(day * SECONDS_A_DAY));
                assert_eq!(of_day, Month(year * 12 + month as u64), "day {day}");
                day += 1;
            }
        }
    }
}

#[test]
fn calls_come_back_when_the_month_ends() {
    let counts = MonthCounts::default();
    let charge = |seconds: u64| counts.charge(BucketKey::default(), 2, at(seconds));
    assert_eq!(charge(LAST_OF_JANUARY - 100), Ok(()));
    assert_eq!(charge(LAST_OF_JANUARY - 10), Ok(()));
    assert_eq!(charge(LAST_OF_JANUARY - 9), Err(Duration::from_secs(10)));
    assert_eq!(charge(LAST_OF_JANUARY + 1), Ok(()));

    // A clock that goes back is in the month that was, and frees nobody.
    assert_eq!(charge(LAST_OF_JANUARY), Ok(()));
    let a_month_and_a_second = Duration::from_secs(28 * SECONDS_A_DAY + 1);
    assert_eq!(charge(LAST_OF_JANUARY), Err(a_month_and_a_second));
    assert_eq!(charge(0), Err(Duration::from_secs(62 * SECONDS_A_DAY)));
}
