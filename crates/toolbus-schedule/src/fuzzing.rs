//! The parsers of this crate as targets of a fuzzer.

use std::sync::LazyLock;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::CronExpression;

/// How many times are looked for, one after the other.
const TIMES: usize = 3;

/// Zones without changes of the clock and with them, by half an hour and by a whole day among them.
static ZONES: LazyLock<[TimeZone; 4]> = LazyLock::new(|| {
    ["UTC", "Europe/Berlin", "Australia/Lord_Howe", "Pacific/Apia"]
        .map(|name| TimeZone::get(name).expect("a zone that is known"))
});

/// Reads a cron expression, in the first line, and finds times after a second since 1970, which
/// follows as a number. Its own text is the same expression, and every time is later.
pub fn cron_expression(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (expression, second) = text.split_once('\n').unwrap_or((&*text, ""));
    let Ok(cron) = expression.parse::<CronExpression>() else { return };
    assert_eq!(cron.as_str().parse::<CronExpression>(), Ok(cron.clone()));

    let second: i64 = second.trim().parse().unwrap_or_default();
    let start = Timestamp::from_second(second).unwrap_or(Timestamp::UNIX_EPOCH);
    for zone in ZONES.iter() {
        let mut after = start;
        for _ in 0..TIMES {
            let Some(next) = cron.next(after, zone) else { break };
            assert!(next > after, "{cron} at {after}");
            after = next;
        }
    }
}
