//! What `doctor` says of this machine's clock.

use toolbus_config::{ClockReading, Finding};

/// A difference that is worth mending, in milliseconds, and one with which grants are refused
/// (docs/operations.md).
const NOTED_MS: i64 = 2_000;
const WRONG_MS: i64 = 5 * 60 * 1_000;
const CLOCK: &str = "clock";

/// Compares this machine's clock with those that were read; nothing is said where there are none
/// and no other machine is expected.
pub(super) fn describe(readings: &[ClockReading], has_others: bool) -> Option<Finding> {
    let Some(worst) = readings.iter().max_by_key(|reading| proven_ms(reading)) else {
        let detail = "not compared: a broker does not say what time it is there, and no API of a \
                      model or PostgreSQL was reached that does";
        return has_others.then(|| Finding::note(CLOCK, detail));
    };

    let ClockReading { source, ahead_ms, .. } = worst;
    let seconds = ahead_ms.unsigned_abs().div_ceil(1_000);
    let detail = match proven_ms(worst) {
        0 => format!("agrees with {source}"),
        _ if *ahead_ms > 0 => format!("{seconds} s behind that of {source}"),
        _ => format!("{seconds} s ahead of that of {source}"),
    };
    let mend = "set the clocks of all machines by NTP: timedatectl set-ntp true";
    let proven = proven_ms(worst);
    Some(if proven <= NOTED_MS {
        Finding::ok(CLOCK, detail)
    } else if proven < WRONG_MS {
        Finding::note(CLOCK, detail).mended_by(mend)
    } else {
        Finding::wrong(CLOCK, detail).mended_by(mend)
    })
}

/// By how much the two differ for sure, in milliseconds.
fn proven_ms(reading: &ClockReading) -> i64 {
    reading.ahead_ms.saturating_abs().saturating_sub(reading.error_ms).max(0)
}

#[cfg(test)]
mod tests;
