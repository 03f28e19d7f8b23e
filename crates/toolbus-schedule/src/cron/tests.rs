mod oracle;

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

use super::{CRON_BYTES_MAX, CronExpression};

/// What an expression matches after a time, as many as are expected.
fn check(expression: &str, after: &str, expected: &[&str]) {
    let after: Zoned = after.parse().unwrap();
    let cron: CronExpression = expression.parse().unwrap();
    let zone = after.time_zone().clone();
    let mut at = after.timestamp();
    for expected in expected {
        at = cron.next(at, &zone).unwrap_or_else(|| panic!("{expression}: {expected}"));
        let shown = at.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M:%S %:z").to_string();
        assert_eq!(&shown, expected, "{expression}");
    }
}

/// The dates that an expression of days matches, of the year 2026.
fn check_days(days: &str, expected: &[&str]) {
    let cron: CronExpression = format!("0 0 {days}").parse().unwrap();
    let mut at: Timestamp = "2025-12-31T23:59:59Z".parse().unwrap();
    let mut found = Vec::new();
    while found.len() < expected.len() {
        at = cron.next(at, &TimeZone::UTC).unwrap();
        found.push(at.strftime("%m-%d").to_string());
    }
    assert_eq!(found, expected, "{days}");
}

fn refusal(expression: &str) -> String {
    expression.parse::<CronExpression>().expect_err(expression).to_string()
}

/// US Eastern, 2016-03-13: clocks go from 02:00 -05:00 to 03:00 -04:00.
#[test]
fn a_time_that_is_left_out_moves_to_the_first_moment_after_it() {
    let before = "2016-03-13T01:59:59[America/New_York]";
    check("30 2 * * *", before, &["2016-03-13 03:00:00 -04:00", "2016-03-14 02:30:00 -04:00"]);
    // As often as it is left out, it happens once.
    check("0,15,30 2 * * *", before, &["2016-03-13 03:00:00 -04:00", "2016-03-14 02:00:00 -04:00"]);
    check(
        "30 2,3 * * *",
        before,
        &["2016-03-13 03:00:00 -04:00", "2016-03-13 03:30:00 -04:00", "2016-03-14 02:30:00 -04:00"],
    );
    // An interval is not skipped either.
    check(
        "30 * * * *",
        before,
        &["2016-03-13 03:00:00 -04:00", "2016-03-13 03:30:00 -04:00", "2016-03-13 04:30:00 -04:00"],
    );
    check(
        "*/20 * * * *",
        "2016-03-13T01:30:00[America/New_York]",
        &["2016-03-13 01:40:00 -05:00", "2016-03-13 03:00:00 -04:00", "2016-03-13 03:20:00 -04:00"],
    );
    check("* * * * * *", before, &["2016-03-13 03:00:00 -04:00", "2016-03-13 03:00:01 -04:00"]);
    // Nor what is at its edge.
    check(
        "59 1 * * *",
        "2016-03-13T01:58:00[America/New_York]",
        &["2016-03-13 01:59:00 -05:00", "2016-03-14 01:59:00 -04:00"],
    );
    check("0 3 * * *", before, &["2016-03-13 03:00:00 -04:00", "2016-03-14 03:00:00 -04:00"]);
}

/// US Eastern, 2016-11-06: clocks go from 02:00 -04:00 back to 01:00 -05:00.
#[test]
fn a_time_that_is_repeated_matches_twice_where_there_is_an_interval() {
    let before = "2016-11-06T00:59:59[America/New_York]";
    check(
        "30 * * * *",
        before,
        &["2016-11-06 01:30:00 -04:00", "2016-11-06 01:30:00 -05:00", "2016-11-06 02:30:00 -05:00"],
    );
    check(
        "0 */30 1 * * *",
        before,
        &[
            "2016-11-06 01:00:00 -04:00",
            "2016-11-06 01:30:00 -04:00",
            "2016-11-06 01:00:00 -05:00",
            "2016-11-06 01:30:00 -05:00",
            "2016-11-07 01:00:00 -05:00",
        ],
    );
    check(
        "30 1-1 * * *",
        before,
        &["2016-11-06 01:30:00 -04:00", "2016-11-06 01:30:00 -05:00", "2016-11-07 01:30:00 -05:00"],
    );
    // The range of the last field is none of the time's.
    check(
        "30 1 * * SUN-MON",
        before,
        &["2016-11-06 01:30:00 -04:00", "2016-11-07 01:30:00 -05:00"],
    );
}

#[test]
fn a_time_that_is_repeated_matches_once_where_there_is_none() {
    let before = "2016-11-06T00:59:59[America/New_York]";
    check("30 1 * * *", before, &["2016-11-06 01:30:00 -04:00", "2016-11-07 01:30:00 -05:00"]);
    check(
        "0,45 1,2 * * *",
        before,
        &[
            "2016-11-06 01:00:00 -04:00",
            "2016-11-06 01:45:00 -04:00",
            "2016-11-06 02:00:00 -05:00",
            "2016-11-06 02:45:00 -05:00",
        ],
    );
    // Asked in the middle of it, in the first pass and the second.
    check(
        "0,45 1,2 * * *",
        "2016-11-06T01:30:00-04:00[America/New_York]",
        &["2016-11-06 01:45:00 -04:00", "2016-11-06 02:00:00 -05:00"],
    );
    check(
        "0,45 1 * * *",
        "2016-11-06T01:10:00-05:00[America/New_York]",
        &["2016-11-07 01:00:00 -05:00"],
    );
}

/// Lord Howe shifts by half an hour: 2026-04-05 02:00 +11:00 becomes 01:30 +10:30, and 2026-10-04
/// 02:00 +10:30 becomes 02:30 +11:00.
#[test]
fn shifts_of_half_an_hour() {
    check(
        "15 2 * * *",
        "2026-10-04T01:59:00[Australia/Lord_Howe]",
        &["2026-10-04 02:30:00 +11:00", "2026-10-05 02:15:00 +11:00"],
    );
    check(
        "*/15 * * * *",
        "2026-04-05T01:44:00+11:00[Australia/Lord_Howe]",
        &[
            "2026-04-05 01:45:00 +11:00",
            "2026-04-05 01:30:00 +10:30",
            "2026-04-05 01:45:00 +10:30",
            "2026-04-05 02:00:00 +10:30",
        ],
    );
    check(
        "45 1 * * *",
        "2026-04-05T01:00:00[Australia/Lord_Howe]",
        &["2026-04-05 01:45:00 +11:00", "2026-04-06 01:45:00 +10:30"],
    );
}

/// Samoa had no 30 December 2011, Beirut no midnight on 2021-03-28, and Troll changes by two hours.
#[test]
fn other_clocks() {
    check(
        "0 12 30 12 *",
        "2011-12-29T13:00:00[Pacific/Apia]",
        &["2011-12-31 00:00:00 +14:00", "2012-12-30 12:00:00 +14:00"],
    );
    check(
        "0 0 * * *",
        "2021-03-27T12:00:00[Asia/Beirut]",
        &["2021-03-28 01:00:00 +03:00", "2021-03-29 00:00:00 +03:00"],
    );
    check(
        "0 * * * *",
        "2026-10-25T01:30:00+02:00[Antarctica/Troll]",
        &[
            "2026-10-25 02:00:00 +02:00",
            "2026-10-25 01:00:00 +00:00",
            "2026-10-25 02:00:00 +00:00",
            "2026-10-25 03:00:00 +00:00",
        ],
    );
    check("0 9 * * *", "2026-06-01T00:00:00[+05:45]", &["2026-06-01 09:00:00 +05:45"]);
}

#[test]
fn five_fields_and_six() {
    check("0 9 * * 1-5", "2026-11-27T09:00:00[UTC]", &["2026-11-30 09:00:00 +00:00"]);
    check("*/15 * * * *", "2026-11-27T09:00:00.5[UTC]", &["2026-11-27 09:15:00 +00:00"]);
    check("0 0 9 * * 1-5", "2026-11-27T08:59:59[UTC]", &["2026-11-27 09:00:00 +00:00"]);
    check(
        "5/20 * * * * *",
        "2026-11-27T09:00:00[UTC]",
        &["2026-11-27 09:00:05 +00:00", "2026-11-27 09:00:25 +00:00", "2026-11-27 09:00:45 +00:00"],
    );
    check("\t 0  9 ? * ? ", "2026-11-27T09:00:00[UTC]", &["2026-11-28 09:00:00 +00:00"]);
    // It comes after the time, whatever its fraction.
    check("0 9 * * *", "2026-11-27T08:59:59.999999999[UTC]", &["2026-11-27 09:00:00 +00:00"]);
    check("* * * * * *", "1969-12-31T23:59:58.5[UTC]", &["1969-12-31 23:59:59 +00:00"]);
}

#[test]
fn ranges_lists_and_steps() {
    check(
        "0 22-1 * * *",
        "2026-11-27T12:00:00[UTC]",
        &[
            "2026-11-27 22:00:00 +00:00",
            "2026-11-27 23:00:00 +00:00",
            "2026-11-28 00:00:00 +00:00",
            "2026-11-28 01:00:00 +00:00",
            "2026-11-28 22:00:00 +00:00",
        ],
    );
    check(
        "0 22-3/2 * * *",
        "2026-11-27T12:00:00[UTC]",
        &["2026-11-27 22:00:00 +00:00", "2026-11-28 00:00:00 +00:00", "2026-11-28 02:00:00 +00:00"],
    );
    check(
        "*/24 1 * * *",
        "2026-11-27T00:00:00[UTC]",
        &["2026-11-27 01:00:00 +00:00", "2026-11-27 01:24:00 +00:00", "2026-11-27 01:48:00 +00:00"],
    );
    check_days("1 DEC-FEB *", &["01-01", "02-01", "12-01"]);
    check_days("1 nov-Jan *", &["01-01", "11-01", "12-01"]);
    check_days("3,5-11/3,12 6 *", &["06-03", "06-05", "06-08", "06-11", "06-12"]);
    check_days("* 6 5-1", &["06-01", "06-05", "06-06", "06-07", "06-08"]);
    check_days("* 6 SAT-SUN", &["06-06", "06-07", "06-13"]);
    check_days("* 6 7-2/2", &["06-02", "06-07", "06-09"]);
}

#[test]
fn days_of_the_month_and_of_the_week() {
    check_days("L * *", &["01-31", "02-28", "03-31", "04-30"]);
    check_days("L-1 * *", &["01-30", "02-27", "03-30"]);
    check_days("L-30 * *", &["01-01", "03-01", "05-01"]);
    // 2026-01-31 is a Saturday, 2026-05-31 a Sunday.
    check_days("LW * *", &["01-30", "02-27", "03-31", "04-30", "05-29"]);
    check_days("L-5W * *", &["01-26", "02-23", "03-26"]);
    // 2026-08-01 is a Saturday, 2026-11-01 a Sunday: neither leaves its month.
    check_days("1W 8,11 *", &["08-03", "11-02"]);
    check_days("15W 2,8 *", &["02-16", "08-14"]);
    check_days("31W * *", &["01-30", "03-31", "05-29", "07-31"]);
    check_days("* * 5L", &["01-30", "02-27", "03-27"]);
    check_days("* * fril", &["01-30", "02-27", "03-27"]);
    check_days("* * 7L", &["01-25", "02-22", "03-29"]);
    check_days("? * 6#2", &["01-10", "02-14"]);
    check_days("* * MON#5", &["03-30", "06-29", "08-31"]);
    check_days("* 2 0", &["02-01", "02-08"]);
    check_days("* 2 7", &["02-01", "02-08"]);
    check_days("* 2 SUN", &["02-01", "02-08"]);
    // Both must match: a Friday the 13th.
    check_days("13 * 5", &["02-13", "03-13", "11-13"]);
    check_days("15W * MON", &["02-16", "03-16", "06-15"]);
}

#[test]
fn an_expression_is_one_line() {
    for (written, kept) in [(" 0\t9\n * *  MON ", "0 9 * * MON"), (" @Daily ", "@daily")] {
        assert_eq!(written.parse::<CronExpression>().unwrap().to_string(), kept);
    }
}

#[test]
fn macros() {
    let after = "2026-11-27T09:10:30[UTC]";
    for (name, expected) in [
        ("@every_second", "2026-11-27 09:10:31 +00:00"),
        ("@every_minute", "2026-11-27 09:11:00 +00:00"),
        ("@hourly", "2026-11-27 10:00:00 +00:00"),
        ("@daily", "2026-11-28 00:00:00 +00:00"),
        ("@midnight", "2026-11-28 00:00:00 +00:00"),
        ("@Weekly", "2026-11-29 00:00:00 +00:00"),
        ("@monthly", "2026-12-01 00:00:00 +00:00"),
        ("@yearly", "2027-01-01 00:00:00 +00:00"),
        (" @ANNUALLY ", "2027-01-01 00:00:00 +00:00"),
    ] {
        check(name, after, &[expected]);
    }
}

#[test]
fn dates_that_never_come() {
    let now: Timestamp = "2026-11-27T09:00:00Z".parse().unwrap();
    for never in ["0 0 30 2 *", "0 0 31 4,6,9,11 *", "0 0 30W FEB *", "0 0 L-30 4 *", "0 0 1 * 1#2"]
    {
        let cron: CronExpression = never.parse().unwrap();
        assert_eq!(cron.next(now, &TimeZone::UTC), None, "{never}");
    }
    let last = Timestamp::MAX;
    let cron: CronExpression = "* * * * *".parse().unwrap();
    assert_eq!(cron.next(last, &TimeZone::get("Asia/Tokyo").unwrap()), None);
}

/// A 29 February on a given day of the week comes again after 40 years at most.
#[test]
fn the_rarest_dates_are_found() {
    for weekday in 0..7 {
        let cron: CronExpression = format!("0 0 29 2 {weekday}").parse().unwrap();
        let mut at: Timestamp = "1999-01-01T00:00:00Z".parse().unwrap();
        let mut found = 0;
        while at.to_zoned(TimeZone::UTC).year() < 2400 {
            at = cron.next(at, &TimeZone::UTC).expect("another");
            found += 1;
        }
        assert!((13..=16).contains(&found), "{weekday}: {found}");
    }
}

#[test]
fn refusals_say_what_is_wrong() {
    insta::assert_snapshot!(refusal("0 9 * *"), @"it has 4 fields; expected are 5 (minute, hour, day of month, month, day of week), or 6 with the second first");
    insta::assert_snapshot!(refusal("60 9 * * *"), @"the minute '60' cannot be read: a number from 0 to 59 is expected");
    insta::assert_snapshot!(refusal("0 9 * JANUARY *"), @"the month 'JANUARY' cannot be read: nothing is expected where 'UARY' is");
    insta::assert_snapshot!(refusal("0 9 * * MO"), @"the day of week 'MO' cannot be read: a number from 0 to 7 is expected, or a name of three letters");
    insta::assert_snapshot!(refusal("@never"), @"there is no macro of this name; known are @every_second, @every_minute, @hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually");
    insta::assert_snapshot!(refusal(&" ".repeat(CRON_BYTES_MAX + 1)), @"it has 257 bytes, and may have 256");
    for wrong in [
        "",
        "* * * * * * *",
        "*/0 * * * *",
        "*/60 * * * *",
        "1- * * * *",
        "1,,2 * * * *",
        ", * * * *",
        "*,1 * * * *",
        "a * * * *",
        "-1 * * * *",
        "256 * * * *",
        "1/ * * * *",
        "* * 0 * *",
        "* * 32 * *",
        "* * W * *",
        "* * 1-5W * *",
        "* * L-31 * *",
        "* * L,1 * *",
        "* * LL * *",
        "* * 15W,L * *",
        "* L * * *",
        "* * * 0 *",
        "* * * 13 *",
        "* * * * 8",
        "* * * * L",
        "* * * * 1#6",
        "* * * * 1#0",
        "* * * * #1",
        "* * * * 1-5L",
        "* * * * 1#",
        "é * * * *",
        "* * * \u{7f0}JAN *",
        "0x1 * * * *",
        "1.5 * * * *",
        "@",
        "+5 * * * *",
    ] {
        refusal(wrong);
    }
}
